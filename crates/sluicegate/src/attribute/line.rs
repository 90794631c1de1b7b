//! A call that may have to wait for its turn.

use std::hash::Hash;
use std::time::Duration;

use sluicegate_engine::{Acquire, Decision, KeyedLimiter, Limit, Limiter, Pass};

use super::Limited;
use super::place::{NO_LIMITER, Place};

/// A limiter that is asked for a call, with keys or without.
pub trait Asked {
    /// Its limits, in their order.
    fn limits(&self) -> Vec<Limit>;
}

impl Asked for Limiter {
    fn limits(&self) -> Vec<Limit> {
        Self::limits(self)
    }
}

impl<K: Hash + ?Sized> Asked for KeyedLimiter<K> {
    fn limits(&self) -> Vec<Limit> {
        Self::limits(self)
    }
}

/// A call on its way in. Nothing is taken until it is asked for, and dropping it leaves the line.
#[must_use = "nothing is asked for until it is awaited"]
pub struct Line<L> {
    acquire: Option<Acquire>,
    place: Place,
    limiter: Option<L>,
}

impl<L: Asked> Line<L> {
    pub(super) fn new(place: Place, limiter: L, acquire: Acquire, cost: u64, within: Duration) -> Self {
        Self { acquire: Some(acquire.cost(cost).within(within)), place, limiter: Some(limiter) }
    }

    /// A line that leads nowhere: there is no limiter.
    pub(super) const fn closed(place: Place) -> Self {
        Self { acquire: None, place, limiter: None }
    }

    /// Waits for the turn.
    pub async fn admitted(self) -> Result<Pass, Limited> {
        let Self { acquire, place, limiter } = self;
        match acquire {
            Some(acquire) => acquire.await.map_err(|refused| place.limited(limiter.as_ref(), &refused.decision)),
            None => Err(place.limited(limiter.as_ref(), &NO_LIMITER)),
        }
    }

    /// Waits for the turn on this thread.
    pub fn blocking(self) -> Result<Pass, Limited> {
        let Self { acquire, place, limiter } = self;
        match acquire {
            Some(acquire) => acquire.blocking().map_err(|refused| place.limited(limiter.as_ref(), &refused.decision)),
            None => Err(place.limited(limiter.as_ref(), &NO_LIMITER)),
        }
    }
}

impl Place {
    /// The refusal of a call here.
    #[cold]
    pub(super) fn limited(self, limiter: Option<&impl Asked>, decision: &Decision) -> Limited {
        let limit = limiter.and_then(|limiter| limiter.limits().get(decision.limit).copied());
        Limited::function(self.path(), limit, decision)
    }
}
