//! What is wrong with a request. Nothing was asked then, and nothing taken.

use prost::DecodeError;
use sluicegate_engine::adhoc::AdHocError;
use thiserror::Error;
use tonic::Status;

/// Why a request cannot be decided. Descriptors are counted from 1.
#[derive(Debug, Error)]
pub(crate) enum BadRequest {
    #[error("the domain is empty: give the filter one, and write rules for it")]
    NoDomain,
    #[error("there are no descriptors: send at least one")]
    NoDescriptors,
    #[error("there are more than {most} descriptors: send fewer, or raise max_checks")]
    TooManyDescriptors {
        /// How many there may be.
        most: usize,
    },
    #[error("descriptor {nth} has no entries: send at least one")]
    NoEntries { nth: usize },
    #[error("descriptor {nth} has more than {most} entries: send fewer")]
    TooManyEntries { nth: usize, most: usize },
    #[error("descriptor {nth} has an entry without a key: name what the value is of")]
    NoKey { nth: usize },
    #[error("descriptor {nth} overrides the limit with a unit that is unknown, {unit}: use 1 (SECOND) to 7 (WEEK)")]
    UnknownUnit { nth: usize, unit: i32 },
    #[error("descriptor {nth} overrides the limit with no units at all: use a unit_multiplier of 1 or more")]
    NoUnits { nth: usize },
    #[error("the limit of descriptor {nth} cannot be had: {why}")]
    Override { nth: usize, why: String },
    #[error("this is no RateLimitRequest: {0}")]
    Corrupt(#[from] DecodeError),
}

impl BadRequest {
    /// A limit that came with a descriptor cannot be counted.
    pub(super) fn overriding(nth: usize, why: &AdHocError) -> Self {
        Self::Override { nth, why: why.to_string() }
    }
}

impl From<BadRequest> for Status {
    fn from(error: BadRequest) -> Self {
        Self::invalid_argument(error.to_string())
    }
}
