//! Leaky bucket: a bounded line that is let out at a constant rate.
//!
//! **Guarantee.** Departures are at least `1/rate` apart (times their cost), first in, first out; at
//! most `queue` are in the bucket, the one leaving now included; so nobody waits longer than
//! `(queue - 1) / rate`. What does not fit is refused at once. With `queue` 15 at 5 per second, 30
//! arrivals at once let 15 in, the last of which leaves after 2.8 s.
//!
//! **State.** Word 0: when the line will be empty, the same number a
//! [token bucket](super::token_bucket) keeps. The two differ only in when an admitted caller may go
//! on: there at once, here when its turn comes.
//!
//! **Giving back.** A place told to a caller outside the process cannot be passed on, so leaving the
//! line frees it only for the last in line. Callers that wait inside the process are kept in a wait
//! room instead ([`Entry::Depart`]): there everybody behind moves up.

use super::gcra::{Gcra, nanos_covering, ticks};
use super::{Algorithm, Check, Entry, Status, Taken};
use crate::limit::{LimitError, Rate};
use crate::time::Timestamp;

/// A leaky bucket. See the [module's head](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    bucket: Gcra,
    rate: Rate,
}

impl LeakyBucket {
    /// A line of at most `queue` callers, let out at `rate`.
    pub fn new(rate: Rate, queue: u64) -> Result<Self, LimitError> {
        Ok(Self { bucket: Gcra::new(rate, queue, "queue")?, rate })
    }

    pub(crate) const fn gcra(&self) -> &Gcra {
        &self.bucket
    }

    /// How fast the line is let out.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// How many fit into the bucket.
    pub const fn queue(&self) -> u64 {
        self.bucket.burst()
    }
}

impl Algorithm for LeakyBucket {
    fn words(&self) -> usize {
        1
    }

    fn check(&self, state: &[u64], now: Timestamp, cost: u64, entry: Entry) -> Check {
        if cost > self.bucket.burst() {
            return Check::Never;
        }
        if cost == 0 {
            return Check::Now;
        }
        let now = ticks(now);
        let turn = state[0].saturating_sub(now);
        match entry {
            Entry::Depart if turn > 0 => Check::NotBefore(nanos_covering(turn)),
            Entry::Depart => Check::Now,
            Entry::Enqueue => match self.bucket.admit(state[0], now, cost) {
                Ok(_) if turn > 0 => Check::After(nanos_covering(turn)),
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

    fn settle(&self, state: &mut [u64], taken: Taken, actual: u64, _now: Timestamp) {
        if actual > taken.cost {
            // If nothing was taken at first, the line may have been empty long before.
            let since = state[0].max(ticks(taken.at));
            state[0] = since.saturating_add(self.bucket.span(actual - taken.cost));
        } else if state[0] == taken.mark {
            state[0] = Gcra::give_back(state[0], self.bucket.span(taken.cost - actual));
        }
    }

    /// Others stand in line behind it, and have been told when to go: nobody may come between them.
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
