//! Rule files of gateways, piece by piece.

/// A gateway on a free port, with two threads unless these fields say otherwise, one per line, and further sections after it.
pub fn gateway(fields: &str, rest: &str) -> String {
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
