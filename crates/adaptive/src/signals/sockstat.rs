//! `/proc/net/sockstat` and `sockstat6`: sockets in use in this network namespace.

/// TCP sockets in use: `TCP: inuse 27 orphan 0 ...`, or `TCP6:` in the IPv6 file. Listening sockets are
/// included.
pub(super) fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("TCP: ").or_else(|| line.strip_prefix("TCP6: ")))?;
    let mut fields = line.split_ascii_whitespace();
    fields.find(|field| *field == "inuse")?;
    fields.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_read() {
        assert_eq!(
            parse("sockets: used 25\nTCP: inuse 27 orphan 0 tw 3 alloc 31 mem 6\nUDP: inuse 4 mem 0\n"),
            Some(27)
        );
        assert_eq!(parse("TCP6: inuse 5\nUDP6: inuse 9\n"), Some(5));
        for broken in ["", "TCP:", "TCP: inuse", "TCP: inuse x", "UDP: inuse 4"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
