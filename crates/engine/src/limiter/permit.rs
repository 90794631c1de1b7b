//! Permits: guards of admitted requests, and the error of refused ones.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::LimiterCore;
use crate::algorithm::AdmitMode;
use crate::decision::{Decision, Verdict};
use crate::limit::parse::HumanDuration;
use crate::limit_set::{Charge, Holdings, SlotLocation};
use crate::table::KeyHash;

/// Guard of an admitted request.
///
/// Dropping it releases concurrency permits exactly once, whichever way the request ends; quota taken from
/// rate limits stays consumed. [`Permit::settle`] corrects it to the actual cost, [`Permit::give_back`]
/// refunds it.
///
/// ```
/// use sluicegate_engine::{Limiter, Limit, Rate};
///
/// let tokens = Limiter::builder()
///     .limit(Limit::token_bucket(Rate::per_minute(60_000)?, 10_000)?)
///     .reservable()
///     .build()?;
/// let permit = tokens.enter(4_000)?;      // an estimate
/// permit.settle(420);                     // the actual cost
/// assert!(tokens.status()[0].remaining >= 9_580);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping the permit releases it"]
pub struct Permit {
    inner: Arc<LimiterCore>,
    key: KeyHash,
    charge: Option<Charge>,
    decision: Decision,
}

/// Compact form of a [`Permit`] for many long-lived requests: it only holds permits and reservations.
///
/// Dropping it releases them exactly once. Quota taken from rate limits stays consumed.
///
/// ```
/// use sluicegate_engine::{Limit, Limiter};
///
/// let seats = Limiter::new(Limit::concurrency(1)?);
/// let seat = seats.enter(1)?.into_owned_permit();
/// assert!(seats.enter(1).is_err());
/// drop(seat);
/// assert!(seats.enter(1).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping the permit releases it"]
pub struct OwnedPermit {
    inner: Arc<LimiterCore>,
    key: KeyHash,
    holdings: Option<Holdings>,
    location: SlotLocation,
}

/// Error of a refused `enter` or `acquire`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub struct AcquireError {
    /// The decision, with the exact wait if there is one.
    pub decision: Decision,
    /// Reason of the refusal.
    pub reason: RefusalReason,
}

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// Over the limit, without queueing.
    Limit,
    /// The request could not be admitted before its deadline.
    Deadline,
    /// The wait queue is full.
    QueueFull,
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = match (self.decision.verdict, self.reason) {
            (Verdict::Never, _) => return f.write_str("the cost exceeds the limit"),
            (_, RefusalReason::Limit) => "over the limit",
            (_, RefusalReason::Deadline) => "cannot be admitted before the deadline",
            (_, RefusalReason::QueueFull) => "the wait queue is full",
        };
        match self.decision.wait() {
            Some(wait) => write!(f, "{message}: try again in {}", HumanDuration::rounded_up(wait)),
            None => write!(f, "{message}: try again when others have finished"),
        }
    }
}

impl AcquireError {
    /// Exact time after which the request would be admitted if no other request arrives.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.decision.wait()
    }
}

pub(super) fn enter(inner: &Arc<LimiterCore>, key: KeyHash, cost: u64) -> Result<Permit, AcquireError> {
    let now = inner.clock.now();
    if cost > 0 && inner.has_waiters(key) {
        return Err(AcquireError { decision: inner.denial_behind_queue(key, now, cost), reason: RefusalReason::Limit });
    }
    let result = inner.take(key, now, cost, AdmitMode::Reserve);
    match result.charge {
        Some(charge) => Ok(Permit::new(inner, key, charge, result.decision)),
        None => Err(AcquireError { decision: result.decision, reason: RefusalReason::Limit }),
    }
}

impl Permit {
    pub(crate) fn new(inner: &Arc<LimiterCore>, key: KeyHash, charge: Charge, decision: Decision) -> Self {
        Self { inner: Arc::clone(inner), key, charge: Some(charge), decision }
    }

    /// Decision that admitted the request. With [`Verdict::Wait`] the caller has to wait first.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Cost that was taken.
    pub fn cost(&self) -> u64 {
        self.charge.as_ref().map_or(0, |charge| charge.cost)
    }

    /// Ends the permit with its actual cost: a lower cost is refunded, a higher one is charged even if it
    /// does not fit.
    pub fn settle(mut self, actual: u64) {
        self.finish(actual);
    }

    /// Refunds the cost, as if the request had never arrived.
    pub fn give_back(self) {
        self.settle(0);
    }

    /// Drops the decision and the cost. The result can be released but not settled, and takes a third of the
    /// memory.
    pub fn into_owned_permit(mut self) -> OwnedPermit {
        let (inner, key, charge) = (Arc::clone(&self.inner), self.key, self.charge.take());
        let location = charge.as_ref().map_or(SlotLocation::Own, |charge| charge.slot);
        OwnedPermit { inner, key, holdings: charge.and_then(Charge::into_holdings), location }
    }

    fn finish(&mut self, actual: u64) {
        if let Some(charge) = self.charge.take() {
            self.inner.settle(self.key, &charge, actual);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(charge) = &self.charge
            && charge.holds_resources()
        {
            let cost = charge.cost;
            self.finish(cost);
        }
    }
}

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        if let Some(holds) = &self.holdings {
            self.inner.release(self.key, self.location, holds);
        }
    }
}

impl fmt::Debug for OwnedPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("holds", &self.holdings).finish_non_exhaustive()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").field("decision", &self.decision).finish_non_exhaustive()
    }
}
