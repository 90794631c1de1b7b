//! Limits that count all calls of a function together.

use std::sync::OnceLock;
use std::time::Duration;

use sluicegate_engine::{Decision, Limiter, Pass};

use super::Limited;
use super::line::Line;
use super::place::{Limits, NO_LIMITER, Place, builder};

/// What a function without a key counts with. Made at its first call.
pub struct Together {
    place: Place,
    limits: fn() -> Limits,
    max_waiting: Option<usize>,
    limiter: OnceLock<Option<Limiter>>,
}

impl Together {
    /// The limits of the function at `place`.
    pub const fn new(place: Place, limits: fn() -> Limits, max_waiting: Option<usize>) -> Self {
        Self { place, limits, max_waiting, limiter: OnceLock::new() }
    }

    #[inline]
    fn limiter(&self) -> Option<&Limiter> {
        self.limiter.get_or_init(|| builder(self.limits, self.max_waiting).and_then(|it| it.build()).ok()).as_ref()
    }

    /// Decides about a call that neither waits nor holds anything.
    #[inline]
    pub fn check(&self, cost: u64) -> Result<(), Limited> {
        let decision = self.limiter().map_or(NO_LIMITER, |limiter| limiter.check_cost(cost));
        if decision.is_allowed() { Ok(()) } else { Err(self.limited(&decision)) }
    }

    /// Decides about a call that holds permits and does not wait.
    #[inline]
    pub fn enter(&self, cost: u64) -> Result<Pass, Limited> {
        let Some(limiter) = self.limiter() else { return Err(self.limited(&NO_LIMITER)) };
        limiter.enter(cost).map_err(|refused| self.limited(&refused.decision))
    }

    /// A call that may wait.
    pub fn ask(&self, cost: u64, within: Duration) -> Line<Limiter> {
        self.limiter().map_or(Line::closed(self.place), |limiter| self.place.ask(limiter, cost, within))
    }

    #[cold]
    fn limited(&self, decision: &Decision) -> Limited {
        self.place.limited(self.limiter(), decision)
    }
}
