//! Configuration errors of a bulkhead.

use thiserror::Error;

use crate::LimitError;

/// Error in the configuration of a bulkhead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BulkheadError {
    /// The capacity is zero.
    #[error("the capacity of a bulkhead is 0: it must be at least 1")]
    ZeroCapacity,
    /// There are no classes.
    #[error("a bulkhead has no classes: add one with `class`")]
    NoClasses,
    /// Two classes have the same name.
    #[error("duplicate class {class}: give each class a different name")]
    DuplicateClass {
        /// The name.
        class: String,
    },
    /// A class with a maximum of zero.
    #[error("max of {class} is 0: it must be at least 1")]
    MaxZero {
        /// The class.
        class: String,
    },
    /// A class whose maximum exceeds the capacity.
    #[error("max of {class} is {max}, but the capacity is {total}: lower it, or omit it to allow the full capacity")]
    MaxTooLarge {
        /// The class.
        class: String,
        /// Maximum of the class.
        max: usize,
        /// Capacity of the bulkhead.
        total: usize,
    },
    /// A reserve above the maximum of the class.
    #[error("reserve of {class} is {reserve}, but its max is {max}: lower the reserve or raise max")]
    ReserveAboveMax {
        /// The class.
        class: String,
        /// Reserve of the class.
        reserve: usize,
        /// Maximum of the class.
        max: usize,
    },
    /// The reserves exceed the capacity.
    #[error("{reserves} are reserved, but the capacity is {total}: lower a reserve or raise the capacity")]
    ReservesTooLarge {
        /// Each class with its reserve, as in `5 for writes, 4 for reads`.
        reserves: String,
        /// Capacity of the bulkhead.
        total: usize,
    },
    /// An invalid limit of a class.
    #[error("limit of {class}: {source}")]
    Limit {
        /// The class.
        class: String,
        /// Error of the limit.
        source: LimitError,
    },
}

/// No class has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown class {class}: expected one of {known}")]
pub struct UnknownClass {
    /// The unknown name.
    pub class: String,
    /// The known names, as in `writes, reads`.
    pub known: String,
}
