//! Status of upstreams, for operators.

use std::fmt;
use std::time::Duration;

/// Status of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamStatus {
    /// Its name.
    pub name: String,
    /// The servers in the order of the settings; none for a built-in upstream.
    pub servers: Vec<ServerStatus>,
}

/// Status of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Its URL.
    pub url: String,
    /// Health of the server, with the reason if it is not healthy.
    pub health: Health,
    /// Requests in flight.
    pub in_flight: u64,
    /// Failed requests since the start: not connected, reset, or timed out.
    pub failures: u64,
}

/// Health of a server. Displayed as a short text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// Available.
    Healthy,
    /// Ejected after failures: gets no requests for a while, unless no other server is left.
    Ejected {
        /// Consecutive failures.
        failures: u32,
        /// Remaining ejection time; zero if the server is about to be probed.
        remaining: Duration,
    },
    /// Health checks failed: gets no requests.
    Unhealthy {
        /// Reason of the last failed check when the server became unhealthy.
        reason: String,
    },
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::Ejected { failures, remaining } if remaining.is_zero() => {
                write!(f, "probing after {failures} consecutive failures")
            }
            Self::Ejected { failures, remaining } => {
                write!(f, "ejected for {} ms after {failures} consecutive failures", remaining.as_millis())
            }
            Self::Unhealthy { reason } => write!(f, "unhealthy: {reason}"),
        }
    }
}
