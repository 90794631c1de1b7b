//! Validation errors of limits.

use std::time::Duration;

use thiserror::Error;

use super::Rate;
use super::parse::HumanDuration;

/// Error of an invalid limit. The message names the field and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LimitError {
    /// A number that must be at least one is zero.
    #[error("{field} is zero: it must be at least 1 (to refuse everything, use a deny list)")]
    Zero {
        /// The field.
        field: &'static str,
    },
    /// Rate too high to be kept within a tenth of the configured value.
    #[error(
        "{rate} is too high to be enforced exactly: the maximum is 1600000000/s (bandwidth) or 1000000/s (warm_up)"
    )]
    RateTooHigh {
        /// The rate.
        rate: Rate,
    },
    /// Bucket that would take years to fill.
    #[error("{field} {burst} takes more than four years to fill at {rate}: lower it or raise the rate")]
    FillsTooSlowly {
        /// `burst` or `queue`.
        field: &'static str,
        /// The rate.
        rate: Rate,
        /// Value of the field.
        burst: u64,
    },
    /// Window longer than ten years.
    #[error("{} is too long: the maximum window is 3650d", HumanDuration(*.window))]
    WindowTooLong {
        /// The window.
        window: Duration,
    },
    /// Value that an algorithm does not allow.
    #[error("{reason}")]
    Parameter {
        /// The parameter, as in the rule file.
        field: &'static str,
        /// Reason and remedy.
        reason: String,
    },
    /// No algorithm of this name.
    #[error("unknown algorithm `{name}`")]
    UnknownAlgorithm {
        /// The name.
        name: String,
    },
    /// Not of the form `COUNT/PERIOD`.
    #[error("'{text}' is not a rate: write COUNT/PERIOD, such as 300/1m, 10/s or 15/3s")]
    MalformedRate {
        /// The text.
        text: String,
    },
    /// Not a whole number.
    #[error("'{text}' is not a whole number")]
    MalformedCount {
        /// The text.
        text: String,
    },
    /// Not a duration.
    #[error("'{text}' is not a duration: write a number and one of ns, us, ms, s, m, h, d, w, such as 500ms or 1m")]
    MalformedDuration {
        /// The text.
        text: String,
    },
    /// Not a size.
    #[error("'{text}' is not a size: write bytes, or a number and one of KB, MB, GB, KiB, MiB, GiB, such as 2MiB")]
    MalformedSize {
        /// The text.
        text: String,
    },
    /// Empty list of limits.
    #[error("no limits: specify at least one")]
    NoLimits,
    /// More limits on one key than can be decided together.
    #[error("{count} limits on one key: the maximum is {max}")]
    TooManyLimits {
        /// Number of limits.
        count: usize,
        /// Maximum.
        max: usize,
    },
    /// Table capacity out of range.
    #[error("capacity {keys} keys is out of range: use 1 to {max}")]
    Capacity {
        /// The configured capacity.
        keys: usize,
        /// Maximum.
        max: usize,
    },
    /// Limits that a store does not support.
    #[error("{reason}")]
    Store {
        /// Reason and remedy.
        reason: String,
    },
    /// Not enough memory for this many keys.
    #[error("not enough memory for {keys} keys: lower the capacity")]
    Memory {
        /// Number of keys.
        keys: usize,
    },
}

impl LimitError {
    pub(crate) const fn zero(field: &'static str) -> Self {
        Self::Zero { field }
    }

    pub(crate) const fn parameter(field: &'static str, reason: String) -> Self {
        Self::Parameter { field, reason }
    }

    /// The parameter that is wrong, if the error is about one.
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::Zero { field } | Self::FillsTooSlowly { field, .. } | Self::Parameter { field, .. } => Some(field),
            _ => None,
        }
    }
}
