//! Limiter of a function without a key.

use std::sync::OnceLock;
use std::time::Duration;

use sluicegate_engine::{Decision, Limiter, Permit};

use super::Limited;
use super::call_site::{CallSite, InlineLimits, NO_LIMITER, builder};
use super::wait::PendingAcquire;

/// Limiter of a function, built on the first call.
pub struct UnkeyedLimiter {
    call_site: CallSite,
    limits: fn() -> InlineLimits,
    max_waiting: Option<usize>,
    limiter: OnceLock<Option<Limiter>>,
}

impl UnkeyedLimiter {
    /// Creates the limiter of the function at `call_site`.
    pub const fn new(call_site: CallSite, limits: fn() -> InlineLimits, max_waiting: Option<usize>) -> Self {
        Self { call_site, limits, max_waiting, limiter: OnceLock::new() }
    }

    #[inline]
    fn limiter(&self) -> Option<&Limiter> {
        self.limiter.get_or_init(|| builder(self.limits, self.max_waiting).and_then(|it| it.build()).ok()).as_ref()
    }

    /// Decides a call that neither waits nor holds a permit.
    #[inline]
    pub fn check(&self, cost: u64) -> Result<(), Limited> {
        let decision = self.limiter().map_or(NO_LIMITER, |limiter| limiter.check_cost(cost));
        if decision.is_allowed() { Ok(()) } else { Err(self.limited(&decision)) }
    }

    /// Decides a call that holds a permit and does not wait.
    #[inline]
    pub fn acquire(&self, cost: u64) -> Result<Permit, Limited> {
        let Some(limiter) = self.limiter() else { return Err(self.limited(&NO_LIMITER)) };
        limiter.enter(cost).map_err(|refused| self.limited(&refused.decision))
    }

    /// A call that may wait.
    pub fn wait(&self, cost: u64, within: Duration) -> PendingAcquire<Limiter> {
        self.limiter().map_or(PendingAcquire::closed(self.call_site), |limiter| {
            self.call_site.wait_unkeyed(limiter, cost, within)
        })
    }

    #[cold]
    fn limited(&self, decision: &Decision) -> Limited {
        self.call_site.limited(self.limiter(), decision)
    }
}
