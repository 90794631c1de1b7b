//! What can be wrong with numbers that came with a call.

use std::time::Duration;

use thiserror::Error;

use crate::limit::LimitError;

/// Why a call was not decided. Nothing was taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdHocError {
    /// So many in no time, or nothing in some: not even one token ever comes.
    #[error("a rate of zero never refills: count and period must be at least 1")]
    ZeroRate,
    /// A period longer than any that is kept.
    #[error("a period of {} s is too long: the longest is 3650 days", .period.as_secs())]
    TooLong {
        /// The period asked for.
        period: Duration,
    },
    /// Numbers that cannot be kept.
    #[error(transparent)]
    Limit(LimitError),
    /// One length of window too many.
    #[error(
        "windows of {} s are one length too many: the most is {most} beside those that have a name, such as a minute; use \
         one of those, or one already in use",
        .unit.as_secs_f64()
    )]
    TooManyUnits {
        /// The length asked for.
        unit: Duration,
        /// The most possible, beside those that have a name.
        most: usize,
    },
}

impl From<LimitError> for AdHocError {
    fn from(error: LimitError) -> Self {
        match error {
            LimitError::Zero { field: "rate" | "period" | "window" } => Self::ZeroRate,
            LimitError::WindowTooLong { window } => Self::TooLong { period: window },
            error => Self::Limit(error),
        }
    }
}
