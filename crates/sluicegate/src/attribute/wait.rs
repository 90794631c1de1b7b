//! A call that may wait in the queue of a limiter.

use std::hash::Hash;
use std::time::Duration;

use sluicegate_engine::{Acquire, Decision, KeyedLimiter, Limit, Limiter, Permit};

use super::Limited;
use super::call_site::{CallSite, NO_LIMITER};

/// A limiter with or without keys.
pub trait HasLimits {
    /// The limits, in order.
    fn limits(&self) -> Vec<Limit>;
}

impl HasLimits for Limiter {
    fn limits(&self) -> Vec<Limit> {
        Self::limits(self)
    }
}

impl<K: Hash + ?Sized> HasLimits for KeyedLimiter<K> {
    fn limits(&self) -> Vec<Limit> {
        Self::limits(self)
    }
}

/// A pending call. Nothing is acquired until it is awaited; dropping it leaves the queue.
#[must_use = "nothing is acquired until this is awaited or `blocking` is called"]
pub struct PendingAcquire<L> {
    acquire: Option<Acquire>,
    call_site: CallSite,
    limiter: Option<L>,
}

impl<L: HasLimits> PendingAcquire<L> {
    pub(super) fn new(call_site: CallSite, limiter: L, acquire: Acquire, cost: u64, within: Duration) -> Self {
        Self { acquire: Some(acquire.cost(cost).within(within)), call_site, limiter: Some(limiter) }
    }

    /// A call that is always refused, because the limiter could not be built.
    pub(super) const fn closed(call_site: CallSite) -> Self {
        Self { acquire: None, call_site, limiter: None }
    }

    /// Waits until the call is admitted or refused.
    pub async fn admitted(self) -> Result<Permit, Limited> {
        let Self { acquire, call_site, limiter } = self;
        match acquire {
            Some(acquire) => acquire.await.map_err(|refused| call_site.limited(limiter.as_ref(), &refused.decision)),
            None => Err(call_site.limited(limiter.as_ref(), &NO_LIMITER)),
        }
    }

    /// Blocks the thread until the call is admitted or refused.
    pub fn blocking(self) -> Result<Permit, Limited> {
        let Self { acquire, call_site, limiter } = self;
        match acquire {
            Some(acquire) => {
                acquire.blocking().map_err(|refused| call_site.limited(limiter.as_ref(), &refused.decision))
            }
            None => Err(call_site.limited(limiter.as_ref(), &NO_LIMITER)),
        }
    }
}

impl CallSite {
    /// Builds the refusal of a call.
    #[cold]
    pub(super) fn limited(self, limiter: Option<&impl HasLimits>, decision: &Decision) -> Limited {
        let limit = limiter.and_then(|limiter| limiter.limits().get(decision.limit).copied());
        Limited::function(self.path(), limit, decision)
    }
}
