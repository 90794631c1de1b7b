//! Rule files of gateways, piece by piece.

/// A gateway on a free port with these fields, one per line, and further sections after it.
pub fn gateway(fields: &str, rest: &str) -> String {
    let listens = fields.contains("listen:");
    let mut text = String::from("gateway:\n  threads: 2\n");
    if !listens {
        text.push_str("  listen: 127.0.0.1:0\n");
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
