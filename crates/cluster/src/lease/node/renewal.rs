//! Lease renewal and maintenance: renews an expiring lease, returns unneeded tokens, and closes the holder.

use sluicegate_engine::Timestamp;

use super::{Effects, IDLE_TIMEOUT, LEASE_DURATION, LeaseHolder, LeaseOutcome, NODE_LEASE_DURATION, Waiter};
use crate::lease::message::LeaseRequest;

impl<W: Waiter> LeaseHolder<W> {
    /// To be called several times per [`IDLE_TIMEOUT`]: returns unneeded tokens and renews an expiring lease.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Option<LeaseRequest> {
        if self.in_flight.is_some() {
            return None;
        }
        if now >= self.expires_at && self.slice > 0 {
            self.expire();
        }
        let demand = self.demand.slice(now);
        let idle = now - self.last_used >= IDLE_TIMEOUT;
        if idle && now - self.last_used >= IDLE_TIMEOUT + LEASE_DURATION {
            // A store unreachable for this long has expired the lease by itself; unconfirmed charges are
            // given up.
            (self.has_outstanding, self.charges) = (false, 0);
        }
        if idle && self.has_outstanding {
            return Some(self.build_request(now, 0, 0, Vec::new()));
        }
        self.renew_lease(now, demand)
    }

    /// Renews a lease that expires soon, keeping no more tokens than needed. Also returns a surplus and reports
    /// charges.
    fn renew_lease(&mut self, now: Timestamp, demand: u64) -> Option<LeaseRequest> {
        let has_charges = self.charges > 0;
        let has_surplus = self.slice > 16 && self.slice / 4 > demand;
        let expires_soon = self.slice > 0 && self.expires_at - now < NODE_LEASE_DURATION / 2;
        let keep = if has_surplus || expires_soon { self.slice.min(demand.saturating_mul(2)) } else { self.slice };
        (has_surplus || expires_soon || has_charges).then(|| self.build_request(now, keep, 0, Vec::new()))
    }

    /// Closes the holder and returns everything. It must not be used afterwards.
    pub(crate) fn close(&mut self, now: Timestamp) -> Effects<W> {
        let takers = self.in_flight.take().map_or_else(Vec::new, |in_flight| in_flight.takers);
        let notify = takers.into_iter().chain(std::mem::take(&mut self.waiters));
        let notify = notify.map(|(waiter, _)| (waiter, LeaseOutcome::Failed)).collect();
        let request = if self.has_outstanding || self.charges > 0 {
            Some(self.build_request(now, 0, 0, Vec::new()))
        } else {
            None
        };
        Effects { notify, request }
    }

    /// True if it can be dropped: no caller waits, and nothing is held or owed.
    pub(crate) fn is_idle(&self, now: Timestamp) -> bool {
        self.is_evictable() && !self.has_outstanding && self.charges == 0 && now - self.last_used >= IDLE_TIMEOUT
    }

    /// True if it can be evicted for another key: no caller waits for it.
    pub(crate) const fn is_evictable(&self) -> bool {
        self.in_flight.is_none()
    }

    /// Time of the last use.
    pub(crate) const fn last_used(&self) -> Timestamp {
        self.last_used
    }

    /// The lease has expired: the rest of the slice counts as spent in the store, or soon will.
    pub(super) const fn expire(&mut self) {
        if self.slice > 0 {
            self.stats.expired += 1;
        }
        self.slice = 0;
        self.low_watermark = 0;
        self.round += 1;
    }
}
