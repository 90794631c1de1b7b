//! Timestamps of the engine.
//!
//! A [`Timestamp`] is a whole number of nanoseconds since 2026-01-01T00:00:00Z. One fixed epoch for every
//! process keeps saved state valid after a restart, lets windows be aligned to the calendar, and leaves
//! enough room in 64 bits for sixteenths of a nanosecond until 2058, which keeps very high rates exact (see
//! [`crate::algorithm::gcra`]).
//!
//! ```
//! use sluicegate_engine::Timestamp;
//! use std::time::Duration;
//!
//! let noon = Timestamp::from_nanos(43_200_000_000_000);
//! assert_eq!(noon + Duration::from_secs(1) - noon, Duration::from_secs(1));
//! ```

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Seconds from the Unix epoch to the engine's epoch, 2026-01-01T00:00:00Z.
pub const EPOCH_UNIX_SECONDS: u64 = 1_767_225_600;

/// Point in time, in nanoseconds since 2026-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The engine's epoch. Also stands for any time before 2026.
    pub const ZERO: Self = Self(0);

    /// Timestamp `nanos` nanoseconds after the engine's epoch.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the engine's epoch.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Timestamp of a Unix time; times before 2026 become [`Timestamp::ZERO`].
    pub fn from_unix(since_unix_epoch: Duration) -> Self {
        let since = since_unix_epoch.saturating_sub(Duration::from_secs(EPOCH_UNIX_SECONDS));
        Self(saturating_nanos(since))
    }

    /// The same point in time as Unix time.
    pub fn to_unix(self) -> Duration {
        Duration::from_secs(EPOCH_UNIX_SECONDS) + Duration::from_nanos(self.0)
    }

    /// Time from `earlier` to `self`, zero if it is not earlier.
    #[inline]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Duration in nanoseconds, saturating at `u64::MAX` (584 years).
#[inline]
pub(crate) fn saturating_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    #[inline]
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(span)))
    }
}

impl Sub for Timestamp {
    type Output = Duration;

    /// Saturates at zero, as [`Timestamp::saturating_since`] does.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
