//! RFC 3339 timestamps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// A UTC timestamp in seconds, formatted as `2026-11-17T00:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(as = Timestamp, value_type = String, format = DateTime)]
pub(crate) struct Rfc3339Time(Timestamp);

impl Rfc3339Time {
    /// Creates a timestamp from the time since the Unix epoch. Clamps it to the year 9999.
    pub(crate) fn from_unix(since: Duration) -> Self {
        Self(SignedDuration::try_from(since).and_then(Timestamp::from_duration).unwrap_or(Timestamp::MAX))
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn millis(self) -> u64 {
        self.0.as_millisecond().unsigned_abs()
    }
}

impl From<SystemTime> for Rfc3339Time {
    fn from(time: SystemTime) -> Self {
        Self::from_unix(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl std::fmt::Display for Rfc3339Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0}", self.0)
    }
}

impl Serialize for Rfc3339Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_rfc3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            let time = Rfc3339Time::from_unix(Duration::new(seconds, 999_999_999));
            assert_eq!((time.to_string().as_str(), time.millis()), (text, seconds * 1_000 + 999));
        }
        assert_eq!(Rfc3339Time::from_unix(Duration::MAX).to_string(), "9999-12-30T22:00:00Z");
    }
}
