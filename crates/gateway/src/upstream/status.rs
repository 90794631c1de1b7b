//! How upstreams fare, for operators.

use std::fmt;
use std::time::Duration;

/// How an upstream fares.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamStatus {
    /// Its name.
    pub name: String,
    /// Its servers, in the order of the file; none if it is built in.
    pub servers: Vec<ServerStatus>,
}

/// How a server fares.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Its URL.
    pub url: String,
    /// Whether it is well, and if not, why.
    pub health: Health,
    /// Requests under way to it.
    pub in_flight: u64,
    /// Requests that failed there since the start: not connected, reset, or timed out.
    pub failures: u64,
}

/// Whether a server is well. Displayed as a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// It gets its share of requests.
    Well,
    /// Requests failed there: it gets none for a while, unless there is nobody else.
    Resting {
        /// How many failed in a row.
        failures: u32,
        /// For how long still; zero: it is about to be tried.
        left: Duration,
    },
    /// Health checks failed: it gets none.
    Out {
        /// How the last of them failed when it was taken out.
        reason: String,
    },
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Well => f.write_str("well"),
            Self::Resting { failures, left } if left.is_zero() => {
                write!(f, "being tried after {failures} failures in a row")
            }
            Self::Resting { failures, left } => {
                write!(f, "resting for {} ms after {failures} failures in a row", left.as_millis())
            }
            Self::Out { reason } => write!(f, "out: {reason}"),
        }
    }
}
