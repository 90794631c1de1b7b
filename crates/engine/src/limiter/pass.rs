//! What a caller holds after being let in.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::Inner;
use crate::algorithm::Entry;
use crate::decision::{Decision, Verdict};
use crate::limit::parse::Span;
use crate::plan::{Holds, Taking};
use crate::table::{KeyHash, Place};

/// The guard of an admitted request.
///
/// Dropping it gives back the permits of concurrency limits, exactly once, however the request ends;
/// what was taken from rates stays taken. [`Pass::settle`] corrects that to what the request really
/// cost, [`Pass::give_back`] undoes it.
///
/// ```
/// use sluicegate_engine::{Limiter, Limit, Rate};
///
/// let tokens = Limiter::builder()
///     .limit(Limit::token_bucket(Rate::per_minute(60_000)?, 10_000)?)
///     .reservable()
///     .build()?;
/// let pass = tokens.enter(4_000)?;        // an estimate
/// pass.settle(420);                       // what it was
/// assert!(tokens.status()[0].remaining >= 9_580);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping the pass gives its permits back"]
pub struct Pass {
    inner: Arc<Inner>,
    key: KeyHash,
    taking: Option<Taking>,
    decision: Decision,
}

/// What an admitted request holds, and nothing else: what remains of a [`Pass`] that is kept for long, by many.
///
/// Dropping it gives back permits and claims on tokens, exactly once. What was taken from rates stays taken.
///
/// ```
/// use sluicegate_engine::{Limit, Limiter};
///
/// let seats = Limiter::new(Limit::concurrency(1)?);
/// let seat = seats.enter(1)?.into_held();
/// assert!(seats.enter(1).is_err());
/// drop(seat);
/// assert!(seats.enter(1).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it gives back what it holds"]
pub struct Held {
    inner: Arc<Inner>,
    key: KeyHash,
    holds: Option<Holds>,
    place: Place,
}

/// Why a caller was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub struct Refused {
    /// The decision, with the exact wait where there is one.
    pub decision: Decision,
    /// What stood in the way.
    pub reason: Reason,
}

/// What stood in the way of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The limit, and nobody wanted to wait.
    Limit,
    /// The turn would come after the deadline.
    Deadline,
    /// Too many are waiting already.
    LineFull,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match (self.decision.verdict, self.reason) {
            (Verdict::Never, _) => return f.write_str("costs more than the limit itself"),
            (_, Reason::Limit) => "over the limit",
            (_, Reason::Deadline) => "no turn before the deadline",
            (_, Reason::LineFull) => "too many are waiting",
        };
        match self.decision.wait() {
            Some(wait) => write!(f, "{why}: try again in {}", Span::for_people(wait)),
            None => write!(f, "{why}: try again when others have finished"),
        }
    }
}

impl Refused {
    /// The exact time after which it would be admitted if nobody else came.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.decision.wait()
    }
}

pub(super) fn enter(inner: &Arc<Inner>, key: KeyHash, cost: u64) -> Result<Pass, Refused> {
    let now = inner.clock.now();
    if cost > 0 && inner.has_line(key) {
        return Err(Refused { decision: inner.behind_line(key, now, cost), reason: Reason::Limit });
    }
    let tried = inner.take(key, now, cost, Entry::Enqueue);
    match tried.taken {
        Some(taking) => Ok(Pass::new(inner, key, taking, tried.decision)),
        None => Err(Refused { decision: tried.decision, reason: Reason::Limit }),
    }
}

impl Pass {
    pub(crate) fn new(inner: &Arc<Inner>, key: KeyHash, taking: Taking, decision: Decision) -> Self {
        Self { inner: Arc::clone(inner), key, taking: Some(taking), decision }
    }

    /// The decision that let it in. [`Verdict::Wait`] asks the caller to pause first.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// What was taken.
    pub fn cost(&self) -> u64 {
        self.taking.as_ref().map_or(0, |taking| taking.cost)
    }

    /// Ends it with what it really cost: less is given back, more is charged even if it does not fit.
    pub fn settle(mut self, actual: u64) {
        self.finish(actual);
    }

    /// Undoes it, as if it had never come.
    pub fn give_back(self) {
        self.settle(0);
    }

    /// Forgets how it was decided and what it cost: it can be given back then, and not be settled any more. What is
    /// left takes a third of the memory.
    pub fn into_held(mut self) -> Held {
        let (inner, key, taking) = (Arc::clone(&self.inner), self.key, self.taking.take());
        let place = taking.as_ref().map_or(Place::Own, |taking| taking.place);
        Held { inner, key, holds: taking.and_then(Taking::into_holds), place }
    }

    fn finish(&mut self, actual: u64) {
        if let Some(taking) = self.taking.take() {
            self.inner.end(self.key, &taking, actual);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(taking) = &self.taking
            && taking.is_held()
        {
            let cost = taking.cost;
            self.finish(cost);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(holds) = &self.holds {
            self.inner.release(self.key, self.place, holds);
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("holds", &self.holds).finish_non_exhaustive()
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").field("decision", &self.decision).finish_non_exhaustive()
    }
}
