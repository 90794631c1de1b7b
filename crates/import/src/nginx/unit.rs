//! Parsers for nginx times, sizes, rates and file names.

use std::time::Duration;

use sluicegate_engine::limit::parse::{HumanBytes, HumanDuration};

/// Parses a time such as `60`, `500ms` or `1m30s`; a plain number is in seconds.
pub(super) fn time(text: &str) -> Option<Duration> {
    let mut total: u64 = 0;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit: u64 = match rest[..end].trim() {
            "ms" => 1,
            "s" | "" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            "M" => 2_592_000_000,
            "y" => 31_536_000_000,
            _ => return None,
        };
        rest = &rest[end..];
        total = total.checked_add(number.checked_mul(unit)?)?;
    }
    Some(Duration::from_millis(total))
}

/// Formats a time in rule file syntax, if it is valid there.
pub(super) fn to_rule_time(time: Duration) -> Option<String> {
    (!time.is_zero() && time <= Duration::from_secs(365 * 86_400)).then(|| HumanDuration(time).to_string())
}

/// Parses a size such as `500k` or `1m`, in bytes.
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        b'g' | b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Formats a size in rule file syntax.
pub(super) fn to_rule_size(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// True if a text can be a file name without variables.
pub(super) fn is_file(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains('$') && !text.contains(char::is_control)
}

/// A rate in requests per second or minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NginxRate {
    pub(super) count: u64,
    pub(super) per_minute: bool,
}

impl NginxRate {
    /// Parses `10r/s` or `30r/m`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (count, per_minute) = match text.strip_suffix("r/s") {
            Some(count) => (count, false),
            None => (text.strip_suffix("r/m")?, true),
        };
        let count: u64 = count.parse().ok()?;
        (count > 0).then_some(Self { count, per_minute })
    }

    /// Formats the rate in rule file syntax.
    pub(super) fn to_rule_rate(self) -> String {
        format!("{}/{}", self.count, if self.per_minute { "m" } else { "s" })
    }

    /// Duration of this many requests, rounded up to a millisecond.
    pub(super) fn duration_of(self, requests: u64) -> Duration {
        let period: u128 = if self.per_minute { 60_000 } else { 1_000 };
        let millis = (u128::from(requests) * period).div_ceil(u128::from(self.count));
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_like_nginx() {
        for (text, millis) in
            [("60", 60_000), ("60s", 60_000), ("500ms", 500), ("1m30s", 90_000), ("1h 30m", 5_400_000)]
        {
            assert_eq!(time(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "5x", "-1", "99999999999999999999"] {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_and_rates_are_parsed_like_nginx() {
        assert_eq!((size("500k"), size("2M"), size("10")), (Some(512_000), Some(2 << 20), Some(10)));
        assert_eq!((size("k"), size("+1"), size(""), size("1.5m")), (None, None, None, None));
        assert_eq!(NginxRate::read("30r/m").map(NginxRate::to_rule_rate).as_deref(), Some("30/m"));
        assert_eq!(NginxRate::read("10r/s").map(|rate| rate.duration_of(3)), Some(Duration::from_millis(300)));
        assert_eq!(NginxRate::read("7r/s").map(|rate| rate.duration_of(1)), Some(Duration::from_millis(143)));
        for text in ["0r/s", "10", "r/s", "1.5r/s", "-1r/s", "10r/h"] {
            assert_eq!(NginxRate::read(text), None, "{text}");
        }
    }
}
