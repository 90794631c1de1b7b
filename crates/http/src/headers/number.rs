//! Numbers as header values.

use std::time::Duration;

use http::HeaderValue;

/// The largest integer of a structured field.
pub(super) const LARGEST: u64 = 999_999_999_999_999;

/// Appends a number's digits.
pub(super) fn push(text: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[first..]);
}

/// A number alone.
pub(crate) fn value(number: u64) -> HeaderValue {
    HeaderValue::from(number)
}

/// Whole seconds, rounded up.
pub(crate) fn seconds(time: Duration) -> u64 {
    let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
    seconds.min(LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits() {
        for number in [0, 7, 10, 999, 1_000, u64::MAX] {
            let mut text = Vec::new();
            push(&mut text, number);
            assert_eq!(String::from_utf8(text).unwrap(), number.to_string());
        }
    }

    #[test]
    fn seconds_are_rounded_up() {
        let nano = Duration::from_nanos(1);
        assert_eq!(seconds(Duration::ZERO), 0);
        assert_eq!(seconds(nano), 1);
        assert_eq!(seconds(Duration::from_secs(5)), 5);
        assert_eq!(seconds(Duration::from_secs(5) + nano), 6);
        assert_eq!(seconds(Duration::MAX), LARGEST);
    }
}
