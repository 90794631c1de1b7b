//! Validation errors of RLS requests. Nothing is decided or consumed in that case.

use prost::DecodeError;
use sluicegate_engine::adhoc::AdHocError;
use thiserror::Error;
use tonic::Status;

/// The reason a request cannot be decided. Descriptors are counted from 1.
#[derive(Debug, Error)]
pub(crate) enum BadRequest {
    #[error("the domain is empty: set the domain of the rate limit filter")]
    NoDomain,
    #[error("no descriptors: send at least one")]
    NoDescriptors,
    #[error("more than {max} descriptors: send fewer or raise `max_checks`")]
    TooManyDescriptors {
        /// The maximum.
        max: usize,
    },
    #[error("descriptor {number} has no entries: send at least one")]
    NoEntries { number: usize },
    #[error("descriptor {number} has more than {max} entries: send fewer")]
    TooManyEntries { number: usize, max: usize },
    #[error("descriptor {number} has an entry without a key: set the key")]
    NoKey { number: usize },
    #[error("the limit override of descriptor {number} has the unknown unit {unit}: use 1 (SECOND) to 7 (WEEK)")]
    UnknownUnit { number: usize, unit: i32 },
    #[error("the limit override of descriptor {number} has a unit_multiplier of 0: use 1 or more")]
    NoUnits { number: usize },
    #[error("the limit override of descriptor {number} is invalid: {reason}")]
    Override { number: usize, reason: String },
    #[error("invalid RateLimitRequest: {0}")]
    Corrupt(#[from] DecodeError),
}

impl BadRequest {
    /// Error for a limit override that cannot be counted.
    pub(super) fn invalid_override(number: usize, error: &AdHocError) -> Self {
        Self::Override { number, reason: error.to_string() }
    }
}

impl From<BadRequest> for Status {
    fn from(error: BadRequest) -> Self {
        Self::invalid_argument(error.to_string())
    }
}
