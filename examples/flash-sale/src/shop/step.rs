//! The steps by which a sale is made fit for a rush.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A way into the shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Everybody locks the item in turn.
    Plain,
    /// Everybody reads, and the first to write wins.
    Lock,
    /// The same, for those whom the cache lets through.
    Cache,
    /// The same, for ten a second.
    Limit,
    /// Ten a second reserve; orders go through a queue.
    Queue,
}

/// No such step.
#[derive(Debug, Error)]
#[error("there is no step `{0}`: it is one of plain, lock, cache, limit, queue; behind the gateway, cache")]
pub struct UnknownStep(String);

impl Step {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Plain, Self::Lock, Self::Cache, Self::Limit, Self::Queue];

    /// As it stands in the path.
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
