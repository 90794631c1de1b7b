//! Call site of the attribute: the function it is on, and its limits.

use std::hash::Hash;
use std::time::Duration;

use sluicegate_engine::algorithm::Status;
use sluicegate_engine::{Builder, Decision, KeyedLimiter, Limit, LimitError, Limiter, Verdict};

use super::wait::PendingAcquire;

/// The limits in an attribute. The macro has already built them once at compile time, so building them does not
/// fail.
pub type InlineLimits = Result<Vec<Limit>, LimitError>;

/// Decision if the limiter could not be built: refuse. The limits of a compiled attribute are valid, so this
/// happens only if memory is exhausted.
pub(super) const NO_LIMITER: Decision = Decision {
    verdict: Verdict::Denied { retry_after: None },
    limit: 0,
    status: Status { limit: 0, remaining: 0, reset: 0 },
};

/// Call site of an attribute.
#[derive(Clone, Copy)]
pub struct CallSite {
    /// Type name of an item declared at the call site.
    name: fn() -> &'static str,
}

/// Returns the call site at which `here` is declared.
pub const fn call_site<F>(_here: &F) -> CallSite {
    CallSite { name: std::any::type_name::<F> }
}

impl CallSite {
    /// Path of the enclosing function.
    pub(super) fn path(self) -> &'static str {
        let name = (self.name)();
        let function = name.rsplit_once("::").map_or(name, |(function, _)| function);
        // The body of an async function is an unnamed closure.
        function.trim_end_matches("::{{closure}}")
    }

    /// A pending call on a limiter of the program.
    pub fn wait_unkeyed(self, limiter: &Limiter, cost: u64, within: Duration) -> PendingAcquire<Limiter> {
        PendingAcquire::new(self, limiter.clone(), limiter.acquire(), cost, within)
    }

    /// A pending call on a keyed limiter of the program.
    pub fn wait_keyed<K: Hash + ?Sized>(
        self,
        limiter: &KeyedLimiter<K>,
        key: &K,
        cost: u64,
        within: Duration,
    ) -> PendingAcquire<KeyedLimiter<K>> {
        PendingAcquire::new(self, limiter.clone(), limiter.acquire(key), cost, within)
    }
}

/// Builder of a limiter with these limits.
pub(super) fn builder(limits: fn() -> InlineLimits, max_waiting: Option<usize>) -> Result<Builder, LimitError> {
    let builder = Limiter::builder().limits(limits()?);
    Ok(match max_waiting {
        Some(callers) => builder.max_waiting(callers),
        None => builder,
    })
}
