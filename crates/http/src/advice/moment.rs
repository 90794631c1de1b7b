//! Spans and moments as headers write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, header};

/// From here on (September 2001) a number of seconds is a moment in Unix time: no wait is that long.
const UNIX_SECONDS_FROM: u64 = 1_000_000_000;

/// From here on a number is Unix time in milliseconds.
const UNIX_MILLIS_FROM: u64 = 1_000_000_000_000;

/// The moment an answer was written, by the clock that its dates were written by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now(SystemTime);

impl Now {
    /// The server's own clock where the answer tells it, else ours.
    pub(super) fn of(headers: &HeaderMap, ours: SystemTime) -> Self {
        let date = headers.get(header::DATE).and_then(|value| value.to_str().ok());
        Self(date.and_then(|date| httpdate::parse_http_date(date.trim()).ok()).unwrap_or(ours))
    }

    fn until(self, moment: SystemTime) -> Duration {
        moment.duration_since(self.0).unwrap_or_default()
    }

    /// Time until an HTTP date; zero if it has passed.
    pub(super) fn until_date(self, text: &str) -> Option<Duration> {
        httpdate::parse_http_date(text).ok().map(|moment| self.until(moment))
    }

    /// Time until what a number stands for: so many seconds, or a moment in Unix time.
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

/// A number of seconds, with decimals or without: digits, one point at most, no sign, no exponent.
/// What is too large for a duration is the longest there is.
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

/// A whole number without a sign; what is too large is the largest there is.
pub(super) fn count(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}
