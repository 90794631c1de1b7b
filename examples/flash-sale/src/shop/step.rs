//! Steps of the sale.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Implementation of a purchase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Pessimistic locking: one transaction that locks the item.
    Plain,
    /// Optimistic locking: writes only if the version is unchanged.
    Lock,
    /// `Lock` with stock and version from the cache.
    Cache,
    /// `Cache` behind a rate limit.
    Limit,
    /// Reservation in the cache behind a rate limit; orders pass through a queue.
    Queue,
}

/// Unknown step.
#[derive(Debug, Error)]
#[error("unknown step `{0}`: use plain, lock, cache, limit or queue; through the gateway, cache")]
pub struct UnknownStep(String);

impl Step {
    /// All steps.
    pub const ALL: [Self; 5] = [Self::Plain, Self::Lock, Self::Cache, Self::Limit, Self::Queue];

    /// Name in the request path.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Lock => "lock",
            Self::Cache => "cache",
            Self::Limit => "limit",
            Self::Queue => "queue",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Step {
    type Err = UnknownStep;

    fn from_str(name: &str) -> Result<Self, UnknownStep> {
        Self::ALL.into_iter().find(|step| step.name() == name).ok_or_else(|| UnknownStep(name.to_owned()))
    }
}
