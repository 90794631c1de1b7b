//! Leaky bucket: a bounded queue that drains at a constant rate.
//!
//! **Guarantee.** Departures are at least `1/rate` apart (times their cost), first in, first out. At most
//! `queue` requests are in the bucket, including the one departing now, so no request waits longer than
//! `(queue - 1) / rate`. Requests that do not fit are refused immediately. With `queue` 15 at 5 per second, 30
//! simultaneous arrivals admit 15, and the last one departs after 2.8 s.
//!
//! **State.** Word 0: time at which the queue will be empty, the same number as in a
//! [token bucket](super::token_bucket). The two differ only in the time at which an admitted caller may
//! proceed: immediately there, at its departure time here.
//!
//! **Refunds.** A departure time reported to a caller outside the process cannot be reassigned, so a refund
//! frees it only for the last request in the queue. Callers that wait inside the process are kept in a wait
//! queue instead ([`AdmitMode::Immediate`]), where all callers behind a cancelled one move up.

use super::gcra::{Gcra, nanos_covering, ticks};
use super::{AdmitMode, Algorithm, Check, LimitCharge, Status};
use crate::limit::{LimitError, Rate};
use crate::time::Timestamp;

/// Leaky bucket limit. See the [module documentation](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    bucket: Gcra,
    rate: Rate,
}

impl LeakyBucket {
    /// Queue of at most `queue` requests, drained at `rate`.
    pub fn new(rate: Rate, queue: u64) -> Result<Self, LimitError> {
        Ok(Self { bucket: Gcra::new(rate, queue, "queue")?, rate })
    }

    pub(crate) const fn gcra(&self) -> &Gcra {
        &self.bucket
    }

    /// Drain rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Capacity of the queue.
    pub const fn queue(&self) -> u64 {
        self.bucket.burst()
    }
}

impl Algorithm for LeakyBucket {
    fn words(&self) -> usize {
        1
    }

    fn check(&self, state: &[u64], now: Timestamp, cost: u64, mode: AdmitMode) -> Check {
        if cost > self.bucket.burst() {
            return Check::Never;
        }
        if cost == 0 {
            return Check::Now;
        }
        let now = ticks(now);
        let wait = state[0].saturating_sub(now);
        match mode {
            AdmitMode::Immediate if wait > 0 => Check::NotBefore(nanos_covering(wait)),
            AdmitMode::Immediate => Check::Now,
            AdmitMode::Reserve => match self.bucket.admit(state[0], now, cost) {
                Ok(_) if wait > 0 => Check::After(nanos_covering(wait)),
                Ok(_) => Check::Now,
                Err(early) => Check::NotBefore(nanos_covering(early)),
            },
        }
    }

    fn commit(&self, state: &mut [u64], now: Timestamp, cost: u64, _hold: bool) -> u64 {
        if cost > 0 {
            state[0] = state[0].max(ticks(now)).saturating_add(self.bucket.span(cost));
        }
        state[0]
    }

    fn settle(&self, state: &mut [u64], taken: LimitCharge, actual: u64, _now: Timestamp) {
        if actual > taken.cost {
            // If nothing was taken at first, the queue may have been empty long before.
            let since = state[0].max(ticks(taken.at));
            state[0] = since.saturating_add(self.bucket.span(actual - taken.cost));
        } else if state[0] == taken.mark {
            state[0] = Gcra::give_back(state[0], self.bucket.span(taken.cost - actual));
        }
    }

    /// Does nothing: later requests already know their departure times.
    fn refund(&self, _state: &mut [u64], _now: Timestamp, _amount: u64) {}

    fn status(&self, state: &[u64], now: Timestamp) -> Status {
        let now = ticks(now);
        Status {
            limit: self.bucket.burst(),
            remaining: self.bucket.remaining(state[0], now),
            reset: nanos_covering(state[0].saturating_sub(now)),
        }
    }

    fn full_at(&self, state: &[u64]) -> Timestamp {
        Gcra::full_at(state[0])
    }

    fn merge(&self, into: &mut [u64], from: &[u64]) {
        into[0] = into[0].max(from[0]);
    }
}
