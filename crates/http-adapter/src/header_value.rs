//! Header values: numbers, times and strings.

use std::time::Duration;

use http::HeaderValue;

/// The largest integer of a structured field.
pub(crate) const MAX_INTEGER: u64 = 999_999_999_999_999;

/// A number as a header value.
pub(crate) fn value(number: u64) -> HeaderValue {
    HeaderValue::from(number)
}

/// Duration in whole seconds, rounded up.
pub(crate) fn seconds(time: Duration) -> u64 {
    let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
    seconds.min(MAX_INTEGER)
}

/// Formats a structured field string. Non-ASCII bytes are not allowed there and are written as `%xx`.
pub(crate) fn quoted(text: &str) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => quoted.push(byte),
            _ => quoted.extend_from_slice(format!("%{byte:02x}").as_bytes()),
        }
    }
    quoted.push(b'"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up() {
        let nano = Duration::from_nanos(1);
        assert_eq!(seconds(Duration::ZERO), 0);
        assert_eq!(seconds(nano), 1);
        assert_eq!(seconds(Duration::from_secs(5)), 5);
        assert_eq!(seconds(Duration::from_secs(5) + nano), 6);
        assert_eq!(seconds(Duration::MAX), MAX_INTEGER);
    }
}
