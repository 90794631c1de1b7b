//! Number formatting of `probe`.

use std::time::Duration;

/// A rate with three significant digits, or all digits before the point.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        _ if rate < 9.995 => trimmed(format!("{rate:.2}")),
        _ if rate < 99.95 => trimmed(format!("{rate:.1}")),
        _ => format!("{rate:.0}"),
    }
}

/// A time with three significant digits.
pub(super) fn latency(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        _ if ms < 9.995 => format!("{}ms", trimmed(format!("{ms:.2}"))),
        _ if ms < 99.95 => format!("{}ms", trimmed(format!("{ms:.1}"))),
        _ if ms < 999.5 => format!("{ms:.0}ms"),
        _ => format!("{}s", trimmed(format!("{:.2}", ms / 1e3))),
    }
}

/// A time that may be unknown.
pub(super) fn latency_or_none(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), latency)
}

/// A fraction as a percentage.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = if percent >= 10.0 || percent == 0.0 { 0 } else { 1 };
    format!("{percent:.digits$} %")
}

/// Removes trailing zeros.
fn trimmed(number: String) -> String {
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 1.5, 10.0, 22.5, 99.96, 1234.6].map(rate), ["0", "1.5", "10", "22.5", "100", "1235"]);
        let times = [0, 120, 3_456, 12_340, 99_960, 123_400, 999_600, 2_000_000].map(Duration::from_micros);
        assert_eq!(times.map(latency), ["0ms", "0.12ms", "3.46ms", "12.3ms", "100ms", "123ms", "1s", "2s"]);
        assert_eq!([0.0, 0.001, 0.0333, 0.5].map(percent), ["0 %", "0.1 %", "3.3 %", "50 %"]);
    }
}
