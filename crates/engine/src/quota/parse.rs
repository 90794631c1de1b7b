//! Parsing and formatting of counts, durations and sizes: `300`, `500ms`, `2MiB`.

use std::fmt;
use std::time::Duration;

use super::LimitError;

/// Time units, largest first, in nanoseconds.
const TIME_UNITS: [(&str, u64); 8] = [
    ("w", 604_800_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Size units, largest first, in bytes.
const SIZE_UNITS: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
    ("", 1),
];

/// Parses a whole number; underscores may group its digits.
pub fn count(text: &str) -> Result<u64, LimitError> {
    digits(text).ok_or_else(|| LimitError::MalformedCount { text: text.to_owned() })
}

/// Parses a duration: a whole number and a unit, such as `500ms`.
pub fn duration(text: &str) -> Result<Duration, LimitError> {
    let text = text.trim();
    scaled(text, &TIME_UNITS)
        .map(Duration::from_nanos)
        .ok_or_else(|| LimitError::MalformedDuration { text: text.to_owned() })
}

/// Parses a duration with an optional number: `s` is one second, as in `10/s`.
pub(super) fn period(text: &str) -> Result<Duration, LimitError> {
    match TIME_UNITS.iter().find(|(unit, _)| *unit == text) {
        Some((_, nanos)) => Ok(Duration::from_nanos(*nanos)),
        None => duration(text),
    }
}

/// Parses a number of bytes, such as `2MiB`.
pub fn size(text: &str) -> Result<u64, LimitError> {
    let text = text.trim();
    scaled(text, &SIZE_UNITS).ok_or_else(|| LimitError::MalformedSize { text: text.to_owned() })
}

/// Parses a rate of bytes, such as `2MiB/s`.
pub fn size_rate(text: &str) -> Result<super::Rate, LimitError> {
    let malformed = || LimitError::MalformedRate { text: text.to_owned() };
    let (bytes, per) = text.split_once('/').ok_or_else(malformed)?;
    super::Rate::new(size(bytes)?, period(per.trim())?)
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    digits(number)?.checked_mul(*factor)
}

fn digits(text: &str) -> Option<u64> {
    let plain = text.bytes().next()?.is_ascii_digit() && text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if !plain {
        return None;
    }
    text.bytes()
        .filter(u8::is_ascii_digit)
        .try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// Formats a duration in the largest unit that divides it: `1m`, `1500ms`.
#[derive(Clone, Copy, Debug)]
pub struct HumanDuration(pub Duration);

impl HumanDuration {
    /// Rounds a wait up for display: to whole milliseconds, or whole seconds from 10 s on.
    pub fn rounded_up(wait: Duration) -> Self {
        let unit = if wait >= Duration::from_secs(10) { 1_000_000_000 } else { 1_000_000 };
        Self(Duration::from_nanos(crate::time::saturating_nanos(wait).div_ceil(unit).saturating_mul(unit)))
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, crate::time::saturating_nanos(self.0), &TIME_UNITS, "0s")
    }
}

/// Formats a size in the largest unit that divides it: `2MiB`.
#[derive(Clone, Copy, Debug)]
pub struct HumanBytes(pub u64);

impl fmt::Display for HumanBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, &SIZE_UNITS, "0B")
    }
}

fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)], zero: &str) -> fmt::Result {
    match units.iter().find(|(_, factor)| value.is_multiple_of(*factor)) {
        Some((unit, factor)) if value > 0 => write!(f, "{}{unit}", value / factor),
        _ => f.write_str(zero),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        for text in ["1ns", "20us", "500ms", "3s", "1m", "24h", "1w", "90s"] {
            let span = duration(text).unwrap();
            assert_eq!(duration(&HumanDuration(span).to_string()).unwrap(), span, "{text}");
        }
        assert_eq!(HumanDuration(duration("24h").unwrap()).to_string(), "1d");
        assert_eq!(HumanDuration(duration("90s").unwrap()).to_string(), "90s");
    }

    #[test]
    fn sizes_round_trip() {
        assert_eq!(size("2MiB").unwrap(), 2 << 20);
        assert_eq!(size("1_000").unwrap(), 1_000);
        assert_eq!(HumanBytes(8 << 20).to_string(), "8MiB");
        assert_eq!(HumanBytes(1_000).to_string(), "1KB");
    }

    #[test]
    fn malformed_values_are_rejected() {
        for text in ["", "-1", "1.5", "NaN", "1e308", "_", "12 apples", "18446744073709551616"] {
            assert!(count(text).is_err(), "{text}");
            assert!(duration(text).is_err(), "{text}");
            assert!(size(text).is_err(), "{text}");
        }
        assert!(duration("5").unwrap_err().to_string().contains("'5' is not a duration"));
        assert!(duration("18446744073709551615w").is_err());
        assert!("300".parse::<super::super::Rate>().unwrap_err().to_string().contains("COUNT/PERIOD"));
        assert!("0/s".parse::<super::super::Rate>().is_err());
        assert!("1/0s".parse::<super::super::Rate>().is_err());
    }
}
