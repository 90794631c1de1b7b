//! What a holder has to do now and then, and at its end.

use sluicegate_engine::Timestamp;

use super::{Effects, Holder, IDLE, LIFE, NODE_LIFE, Outcome, Waiter};
use crate::lease::message::LeaseRequest;

impl<W: Waiter> Holder<W> {
    /// To be called a few times in [`IDLE`]: gives back what is not needed and renews what would run out.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Option<LeaseRequest> {
        if self.flight.is_some() {
            return None;
        }
        if now >= self.until && self.slice > 0 {
            self.forget();
        }
        let wanted = self.demand.slice(now);
        let idle = now - self.used_at >= IDLE;
        if idle && now - self.used_at >= IDLE + LIFE {
            // A store that could not be told for so long has counted everything as spent by itself; what it
            // was to charge is given up.
            (self.owing, self.charges) = (false, 0);
        }
        if idle && self.owing {
            return Some(self.request(now, 0, 0, Vec::new()));
        }
        let charged = self.charges > 0;
        let surplus = self.slice > 16 && self.slice / 4 > wanted;
        let ending = self.slice > 0 && self.until - now < NODE_LIFE / 2;
        let keep = if surplus || ending { self.slice.min(wanted.saturating_mul(2)) } else { self.slice };
        (surplus || ending || charged).then(|| self.request(now, keep, 0, Vec::new()))
    }

    /// The last word: gives everything back. It must not be used any more.
    pub(crate) fn close(&mut self, now: Timestamp) -> Effects<W> {
        let takers = self.flight.take().map_or_else(Vec::new, |flight| flight.takers);
        let told = takers.into_iter().chain(std::mem::take(&mut self.waiting));
        let told = told.map(|(waiter, _)| (waiter, Outcome::Failed)).collect();
        let request = if self.owing || self.charges > 0 { Some(self.request(now, 0, 0, Vec::new())) } else { None };
        Effects { told, request }
    }

    /// Whether nobody would notice if it were forgotten: nobody waits, and nothing is held or owed.
    pub(crate) fn is_idle(&self, now: Timestamp) -> bool {
        self.is_alone() && !self.owing && self.charges == 0 && now - self.used_at >= IDLE
    }

    /// Whether it could make room for another key: nobody waits for it.
    pub(crate) const fn is_alone(&self) -> bool {
        self.flight.is_none()
    }

    /// When somebody last wanted something.
    pub(crate) const fn used_at(&self) -> Timestamp {
        self.used_at
    }

    /// The lease has ended: whatever is left of it counts as spent in the store, or soon will.
    pub(super) const fn forget(&mut self) {
        if self.slice > 0 {
            self.turns.expired += 1;
        }
        self.slice = 0;
        self.low = 0;
        self.round += 1;
    }
}
