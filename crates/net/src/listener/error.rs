//! Errors of the listener configuration, with remedies.

use std::io;

use thiserror::Error;

/// Error building or binding a listener.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListenerError {
    /// A count that must be at least one is zero.
    #[error("{field} is zero: it must be at least 1 ({remedy})")]
    Zero {
        /// Name of the setting.
        field: &'static str,
        /// Suggested remedy.
        remedy: &'static str,
    },
    /// A timeout is zero.
    #[error("{field} is zero: set a duration, such as 10 seconds")]
    ZeroDuration {
        /// Name of the setting.
        field: &'static str,
    },
    /// A count exceeds the supported maximum.
    #[error("{field} {value} is too large: the maximum is {max}")]
    TooLarge {
        /// Name of the setting.
        field: &'static str,
        /// The given value.
        value: usize,
        /// The maximum.
        max: usize,
    },
    /// The open-file limit of this process is too low for the configured connections.
    #[error(
        "{max_connections} connections and a queue of {queue} need {needed} file descriptors, but the limit of this \
         process is {limit}: raise it (ulimit -n) or lower the settings"
    )]
    TooFewFiles {
        /// Configured `max_connections`.
        max_connections: usize,
        /// Configured queue size.
        queue: usize,
        /// File descriptors needed for both, including a reserve.
        needed: usize,
        /// Open-file limit of this process.
        limit: usize,
    },
    /// The address cannot be bound.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The I/O error.
        source: io::Error,
    },
}
