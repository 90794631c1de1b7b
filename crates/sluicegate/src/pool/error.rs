//! What can be wrong with a bulkhead's numbers, and what to do about it.

use thiserror::Error;

use crate::LimitError;

/// Why numbers do not make a bulkhead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BulkheadError {
    /// There are no places to divide.
    #[error("a bulkhead of 0 places lets nobody in: it needs at least 1")]
    NoPlaces,
    /// There is nobody to let in.
    #[error("a bulkhead without classes lets nobody in: add one with `class`")]
    NoClasses,
    /// Two classes have one name.
    #[error("there are two classes {class}: give each a name of its own")]
    Twice {
        /// The name.
        class: String,
    },
    /// A class that may not use any place.
    #[error("max of {class} is 0: it must be at least 1")]
    MaxZero {
        /// The class.
        class: String,
    },
    /// A class that may use more places than there are.
    #[error("max of {class} is {max}, but there are {total} places: lower it, or leave it out to allow all")]
    MaxTooLarge {
        /// The class.
        class: String,
        /// Its most.
        max: usize,
        /// All places.
        total: usize,
    },
    /// A reserve that the class itself may not use.
    #[error("reserve of {class} is {reserve}, but it may use {max} at most: lower the one or raise the other")]
    ReserveAboveMax {
        /// The class.
        class: String,
        /// Its reserve.
        reserve: usize,
        /// Its most.
        max: usize,
    },
    /// More places are reserved than there are.
    #[error("{reserves} are reserved, but there are {total} places: lower a reserve or add places")]
    ReservesTooLarge {
        /// Each class with its reserve, as in `5 for writes, 4 for reads`.
        reserves: String,
        /// All places.
        total: usize,
    },
    /// A limit of a class that cannot be kept.
    #[error("limit of {class}: {source}")]
    Limit {
        /// The class.
        class: String,
        /// What is wrong with it.
        source: LimitError,
    },
}

/// No class has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no class {class}: there are {known}")]
pub struct UnknownClass {
    /// The name that was asked for.
    pub class: String,
    /// The names there are, as in `writes, reads`.
    pub known: String,
}
