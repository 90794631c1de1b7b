//! What can be wrong with a limit's numbers, and what to do about it.

use std::time::Duration;

use thiserror::Error;

use super::Rate;
use super::parse::Span;

/// Why numbers do not make a limit. The message names the field and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LimitError {
    /// A number that must be at least one is zero.
    #[error("{field} is zero: it must be at least 1 (to refuse everything, use a deny list)")]
    Zero {
        /// The field.
        field: &'static str,
    },
    /// Too many per nanosecond to be kept within a tenth of what was asked.
    #[error("{rate} is too fast to be kept exactly: the most is 1600000000/s (bandwidth) or 1000000/s (warm_up)")]
    RateTooHigh {
        /// The rate.
        rate: Rate,
    },
    /// A bucket that would take years to fill.
    #[error("{field} {burst} takes more than four years to fill at {rate}: lower it or raise the rate")]
    FillsTooSlowly {
        /// `burst` or `queue`.
        field: &'static str,
        /// The rate.
        rate: Rate,
        /// Its value.
        burst: u64,
    },
    /// A window beyond ten years.
    #[error("{} is too long: the longest window is 3650d", Span(*.window))]
    WindowTooLong {
        /// The window.
        window: Duration,
    },
    /// More cells than a window can be cut into, or none.
    #[error("cells {cells} is out of range: this window can have 1 to {most}")]
    Cells {
        /// The cells asked for.
        cells: u32,
        /// The most possible.
        most: u64,
    },
    /// A log that would need too much memory per key.
    #[error("sliding_log keeps every request of {limit}: the most is {most}; sliding_window has no such bound")]
    LogTooLong {
        /// The limit asked for.
        limit: u64,
        /// The most possible.
        most: u64,
    },
    /// A cold factor that is no slow start, or an absurd one.
    #[error("cold_factor {factor} is out of range: use 2 to 100 (3 is usual)")]
    ColdFactor {
        /// The factor.
        factor: u32,
    },
    /// A warm-up shorter than a request or two, or too long to count.
    #[error("warm_up does not fit {rate}: it must be long enough for a few requests and at most years")]
    WarmUpTooShort {
        /// The rate.
        rate: Rate,
    },
    /// Not of the form `COUNT/PERIOD`.
    #[error("'{text}' is not a rate: write COUNT/PERIOD, such as 300/1m, 10/s or 15/3s")]
    MalformedRate {
        /// What was written.
        text: String,
    },
    /// Not a whole number.
    #[error("'{text}' is not a whole number")]
    MalformedCount {
        /// What was written.
        text: String,
    },
    /// Not a duration.
    #[error("'{text}' is not a duration: write a number and one of ns, us, ms, s, m, h, d, w, such as 500ms or 1m")]
    MalformedDuration {
        /// What was written.
        text: String,
    },
    /// Not a size.
    #[error("'{text}' is not a size: write bytes, or a number and one of KB, MB, GB, KiB, MiB, GiB, such as 2MiB")]
    MalformedSize {
        /// What was written.
        text: String,
    },
    /// No limits at all.
    #[error("no limits: give at least one")]
    NoLimits,
    /// More limits on one key than can be decided together.
    #[error("{count} limits on one key: the most is {most}")]
    TooManyLimits {
        /// How many.
        count: usize,
        /// The most possible.
        most: usize,
    },
    /// A table too small or too large to exist.
    #[error("capacity {keys} keys is out of range: use 1 to {most}")]
    Capacity {
        /// The capacity asked for.
        keys: usize,
        /// The most possible.
        most: usize,
    },
    /// Limits that a store cannot keep.
    #[error("{reason}")]
    Store {
        /// Why not, and what to do.
        reason: String,
    },
    /// No memory for so many keys.
    #[error("there is no memory for {keys} keys: remember fewer")]
    Memory {
        /// How many.
        keys: usize,
    },
}

impl LimitError {
    pub(crate) const fn zero(field: &'static str) -> Self {
        Self::Zero { field }
    }
}
