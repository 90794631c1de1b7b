//! What can be wrong with a door's numbers, and what to do about it.

use std::io;

use thiserror::Error;

/// Why a door does not open.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DoorError {
    /// A number that must be at least one is zero.
    #[error("{field} is zero: it must be at least 1 ({remedy})")]
    Zero {
        /// The field.
        field: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// A time in which nothing can happen.
    #[error("{field} is zero: give a time, such as 10 seconds")]
    NoTime {
        /// The field.
        field: &'static str,
    },
    /// A number beyond what can be counted.
    #[error("{field} {value} is too large: the most is {most}")]
    TooLarge {
        /// The field.
        field: &'static str,
        /// Its value.
        value: usize,
        /// The most possible.
        most: usize,
    },
    /// Each connection is a file to the system, and this process may not open so many.
    #[error(
        "{max_connections} connections and {queue} in line need {needed} files, but this process may open {limit}: raise \
         that (ulimit -n) or lower them"
    )]
    TooFewFiles {
        /// The connections to serve.
        max_connections: usize,
        /// The connections that may wait.
        queue: usize,
        /// The files both need, with some to spare.
        needed: usize,
        /// The files this process may open.
        limit: usize,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
}
