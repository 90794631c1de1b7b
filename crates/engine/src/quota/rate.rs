//! Rate: a count per period.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use super::parse::{self, HumanDuration};
use super::{LimitError, MAX_WINDOW};

/// Count per period; both are non-zero.
///
/// ```
/// use sluicegate_engine::Rate;
/// use std::time::Duration;
///
/// assert_eq!("15/3s".parse::<Rate>()?, Rate::new(15, Duration::from_secs(3))?);
/// assert_eq!(Rate::per_second(10)?.to_string(), "10/s");
/// # Ok::<(), sluicegate_engine::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: NonZeroU64,
    period: Duration,
}

impl Rate {
    /// `count` per `period`.
    pub fn new(count: u64, period: Duration) -> Result<Self, LimitError> {
        let Some(count) = NonZeroU64::new(count) else {
            return Err(LimitError::zero("rate"));
        };
        if period.is_zero() {
            return Err(LimitError::zero("period"));
        }
        if period > MAX_WINDOW {
            return Err(LimitError::WindowTooLong { window: period });
        }
        Ok(Self { count, period })
    }

    /// `count` per second.
    pub fn per_second(count: u64) -> Result<Self, LimitError> {
        Self::new(count, Duration::from_secs(1))
    }

    /// `count` per minute.
    pub fn per_minute(count: u64) -> Result<Self, LimitError> {
        Self::new(count, Duration::from_secs(60))
    }

    /// The count.
    pub const fn count(self) -> u64 {
        self.count.get()
    }

    /// The period.
    pub const fn period(self) -> Duration {
        self.period
    }

    /// Time for `count` at this rate, rounded up.
    pub fn time_for(self, count: u64) -> Duration {
        let nanos = (self.period.as_nanos() * u128::from(count)).div_ceil(u128::from(self.count.get()));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl FromStr for Rate {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let malformed = || LimitError::MalformedRate { text: text.to_owned() };
        let (count, period) = text.split_once('/').ok_or_else(malformed)?;
        Self::new(parse::count(count.trim())?, parse::period(period.trim())?)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.period == Duration::from_secs(1) {
            return write!(f, "{}/s", self.count);
        }
        write!(f, "{}/{}", self.count, HumanDuration(self.period))
    }
}
