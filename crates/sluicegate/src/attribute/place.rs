//! Where in the program an attribute stands, and what it says there.

use std::hash::Hash;
use std::time::Duration;

use sluicegate_engine::algorithm::Status;
use sluicegate_engine::{Builder, Decision, KeyedLimiter, Limit, LimitError, Limiter, Verdict};

use super::line::Line;

/// The limits an attribute names. The attribute itself has made them once, so making them again does not
/// fail.
pub type Limits = Result<Vec<Limit>, LimitError>;

/// The decision where a limiter could not be made: refuse. An attribute that was compiled names limits
/// that can be made, so it takes a machine without memory to get here.
pub(super) const NO_LIMITER: Decision = Decision {
    verdict: Verdict::Denied { retry_after: None },
    limit: 0,
    status: Status { limit: 0, remaining: 0, reset: 0 },
};

/// An attribute's place.
#[derive(Clone, Copy)]
pub struct Place {
    /// The name of something that was declared there.
    name: fn() -> &'static str,
}

/// The place where `here` was declared.
pub const fn place<F>(_here: &F) -> Place {
    Place { name: std::any::type_name::<F> }
}

impl Place {
    /// The path of the function around it.
    pub(super) fn path(self) -> &'static str {
        let name = (self.name)();
        let function = name.rsplit_once("::").map_or(name, |(function, _)| function);
        // What an async function runs has no name of its own.
        function.trim_end_matches("::{{closure}}")
    }

    /// A call that asks a limiter of the program's own.
    pub fn ask(self, limiter: &Limiter, cost: u64, within: Duration) -> Line<Limiter> {
        Line::new(self, limiter.clone(), limiter.acquire(), cost, within)
    }

    /// A call that asks a limiter of the program's own, by key.
    pub fn ask_by_key<K: Hash + ?Sized>(
        self,
        limiter: &KeyedLimiter<K>,
        key: &K,
        cost: u64,
        within: Duration,
    ) -> Line<KeyedLimiter<K>> {
        Line::new(self, limiter.clone(), limiter.acquire(key), cost, within)
    }
}

/// What a limiter of these limits is made with.
pub(super) fn builder(limits: fn() -> Limits, max_waiting: Option<usize>) -> Result<Builder, LimitError> {
    let builder = Limiter::builder().limits(limits()?);
    Ok(match max_waiting {
        Some(callers) => builder.max_waiting(callers),
        None => builder,
    })
}
