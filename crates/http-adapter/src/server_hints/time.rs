//! Durations and timestamps in header values.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, header};

/// Numbers of seconds from here on (September 2001) are Unix timestamps: no wait is that long.
const UNIX_SECONDS_FROM: u64 = 1_000_000_000;

/// Numbers from here on are Unix timestamps in milliseconds.
const UNIX_MILLIS_FROM: u64 = 1_000_000_000_000;

/// Time of a response, by the clock its dates refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseTime(SystemTime);

impl ResponseTime {
    /// The server's `Date` if the response has one, else the local time.
    pub(super) fn of(headers: &HeaderMap, ours: SystemTime) -> Self {
        let date = headers.get(header::DATE).and_then(|value| value.to_str().ok());
        Self(date.and_then(|date| httpdate::parse_http_date(date.trim()).ok()).unwrap_or(ours))
    }

    fn until(self, time: SystemTime) -> Duration {
        time.duration_since(self.0).unwrap_or_default()
    }

    /// Time until an HTTP date; zero if it has passed.
    pub(super) fn until_date(self, text: &str) -> Option<Duration> {
        httpdate::parse_http_date(text).ok().map(|moment| self.until(moment))
    }

    /// Time until the reset given by a number: seconds from now, or a Unix timestamp.
    pub(super) fn until_number(self, text: &str) -> Option<Duration> {
        let span = seconds(text)?;
        let since_unix = match span.as_secs() {
            ..UNIX_SECONDS_FROM => return Some(span),
            UNIX_SECONDS_FROM..UNIX_MILLIS_FROM => span,
            millis => Duration::from_millis(millis),
        };
        UNIX_EPOCH.checked_add(since_unix).map(|moment| self.until(moment)).or(Some(Duration::MAX))
    }
}

/// Parses a number of seconds, with or without decimals: digits, at most one point, no sign, no exponent.
/// Saturates at the largest duration.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) {
        return None;
    }
    let nanos = decimals.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = nanos.fold(0, |sum: u32, digit| sum * 10 + u32::from(digit - b'0'));
    Some(Duration::new(count(whole)?, nanos))
}

/// Parses an unsigned integer; saturates at the maximum.
pub(super) fn count(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}
