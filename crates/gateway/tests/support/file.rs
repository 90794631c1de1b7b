//! Rule file fragments for gateways.

/// A gateway on a free port, with two threads unless `fields` (one per line) say otherwise, followed by further
/// sections.
pub fn gateway_yaml(fields: &str, rest: &str) -> String {
    let mut text = String::from("gateway:\n");
    for (known, line) in [("threads:", "  threads: 2\n"), ("listen:", "  listen: 127.0.0.1:0\n")] {
        if !fields.contains(known) {
            text.push_str(line);
        }
    }
    for line in fields.lines() {
        text.push_str("  ");
        text.push_str(line.trim());
        text.push('\n');
    }
    text.push_str(rest);
    text.push('\n');
    text
}
