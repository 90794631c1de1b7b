//! Validation errors of ad hoc limits.

use std::time::Duration;

use thiserror::Error;

use crate::limit::LimitError;

/// Error of an ad hoc call. Nothing was consumed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdHocError {
    /// Count or period is zero, so no token is ever refilled.
    #[error("a rate of zero never refills: count and period must be at least 1")]
    ZeroRate,
    /// Period longer than the maximum.
    #[error("a period of {} s is too long: the maximum is 3650 days", .period.as_secs())]
    PeriodTooLong {
        /// The requested period.
        period: Duration,
    },
    /// Parameters that are not a valid limit.
    #[error(transparent)]
    Limit(LimitError),
    /// Too many different window lengths.
    #[error(
        "too many window lengths, with {} s: the maximum is {max} in addition to the named ones, such as a minute; \
         use a named length or one already in use",
        .unit.as_secs_f64()
    )]
    TooManyUnits {
        /// The requested length.
        unit: Duration,
        /// Maximum number of unnamed lengths.
        max: usize,
    },
}

impl From<LimitError> for AdHocError {
    fn from(error: LimitError) -> Self {
        match error {
            LimitError::Zero { field: "rate" | "period" | "window" } => Self::ZeroRate,
            LimitError::WindowTooLong { window } => Self::PeriodTooLong { period: window },
            error => Self::Limit(error),
        }
    }
}
