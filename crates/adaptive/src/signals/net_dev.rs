//! `/proc/net/dev`: bytes of every network interface.
//!
//! All interfaces except loopback count, in both directions. On a host that bridges its own containers a byte
//! may therefore count once per interface; inside a container there is usually one interface.

/// Bytes received and sent so far on all interfaces except loopback.
pub(super) fn parse(text: &str) -> Option<u64> {
    let mut all = None;
    // Skips the two heading lines, which have no colon.
    for line in text.lines() {
        let Some((name, numbers)) = line.split_once(':') else { continue };
        let mut numbers = numbers.split_ascii_whitespace();
        let received: u64 = numbers.next()?.parse().ok()?;
        let sent: u64 = numbers.nth(7)?.parse().ok()?;
        let bytes = if name.trim() == "lo" { 0 } else { received.saturating_add(sent) };
        all = Some(all.unwrap_or(0u64).saturating_add(bytes));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_loopback_counts() {
        let text = "Inter-|   Receive                    |  Transmit\n face |bytes    packets errs|bytes\n\
                    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n\
                    eth0:1000 5 0 0 0 0 0 0 300 2 0 0 0 0 0 0\n wlan0: 20 5 0 0 0 0 0 0 7 2 0 0 0 0 0 0\n";
        assert_eq!(parse(text), Some(1_327));
        assert_eq!(parse("lo: 999 1 0 0 0 0 0 0 999 1\n"), Some(0));
        for broken in ["", "eth0: 1 2 3\n", "eth0: x 5 0 0 0 0 0 0 300"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
