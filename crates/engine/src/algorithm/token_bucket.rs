//! Token bucket: a rate, and a burst that may be spent at once.
//!
//! **Guarantee.** In any span T at most `burst + floor(rate × T)` tokens are admitted, reservations
//! included; the promised wait is exact to the nanosecond: refused one before it, admitted at it.
//!
//! **State.** Word 0: arrival time ([`gcra`](super::gcra)). With reservations a second word counts
//! the tokens that are out: taken, but not yet known to be spent. The bucket fills only up to
//! `burst - out`. Without that, a reservation returned late would come on top of tokens that were
//! refilled in its place, and a bucket of 10 could admit 20 at one instant. What does not fit beside
//! the tokens that are out waits for their holders and not for the clock ([`Check::Held`]).
//!
//! **Giving back.** A reservation gives back all it did not spend. Tokens taken without one are given
//! back only if nobody came since: the refill they may have displaced in the meantime is not known, and
//! the clock cannot tell it either, for it may have stepped back.

use super::gcra::{Gcra, nanos_covering, ticks};
use super::{Algorithm, Check, Entry, NEVER_FULL, Status, Taken};
use crate::limit::{LimitError, Rate};
use crate::time::Timestamp;

/// A token bucket. See the [module's head](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    bucket: Gcra,
    rate: Rate,
    reservable: bool,
}

impl TokenBucket {
    /// A bucket of `burst` tokens, refilled at `rate`, full at first.
    pub fn new(rate: Rate, burst: u64) -> Result<Self, LimitError> {
        Ok(Self { bucket: Gcra::new(rate, burst, "burst")?, rate, reservable: false })
    }

    /// The same bucket with room to count reservations.
    #[must_use]
    pub const fn reservable(mut self) -> Self {
        self.reservable = true;
        self
    }

    /// Whether reservations are counted.
    pub const fn is_reservable(&self) -> bool {
        self.reservable
    }

    /// How fast it is refilled.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Tokens in a full bucket.
    pub const fn burst(&self) -> u64 {
        self.bucket.burst()
    }

    /// The arithmetic, for callers that keep the one word themselves.
    #[inline]
    pub const fn gcra(&self) -> &Gcra {
        &self.bucket
    }

    /// The arrival time as it counts now: not before the tokens that are out.
    #[inline]
    fn arrival(&self, state: &[u64], now: u64) -> u64 {
        match state {
            [arrival, out] => (*arrival).max(now.saturating_add(self.bucket.span(*out))),
            _ => state[0],
        }
    }

    /// Tokens that are out on reservations.
    #[inline]
    const fn out(state: &[u64]) -> u64 {
        if let [_, out] = state { *out } else { 0 }
    }
}

impl Algorithm for TokenBucket {
    fn words(&self) -> usize {
        1 + usize::from(self.reservable)
    }

    #[inline]
    fn check(&self, state: &[u64], now: Timestamp, cost: u64, _entry: Entry) -> Check {
        if cost > self.bucket.burst() {
            return Check::Never;
        }
        if cost == 0 {
            return Check::Now;
        }
        if Self::out(state) > self.bucket.burst() - cost {
            return Check::Held;
        }
        let now = ticks(now);
        match self.bucket.admit(self.arrival(state, now), now, cost) {
            Ok(_) => Check::Now,
            Err(early) => Check::NotBefore(nanos_covering(early)),
        }
    }

    #[inline]
    fn commit(&self, state: &mut [u64], now: Timestamp, cost: u64, hold: bool) -> u64 {
        if cost == 0 {
            return state[0];
        }
        let now = ticks(now);
        let base = self.arrival(state, now).max(now);
        state[0] = base.saturating_add(self.bucket.span(cost));
        // Reservations move the word back when they are settled, so while any is out it may come to
        // stand here again although others came: zero is a mark no word will ever match.
        let mark = if Self::out(state) == 0 { state[0] } else { 0 };
        if let ([_, out], true) = (&mut *state, hold) {
            *out = out.saturating_add(cost);
        }
        mark
    }

    fn settle(&self, state: &mut [u64], taken: Taken, actual: u64, now: Timestamp) {
        let reserved = taken.held && self.reservable;
        let untouched = state[0] == taken.mark && Self::out(state) == 0;
        self.release(state, if taken.held { taken.cost } else { 0 }, now);
        match taken.cost.checked_sub(actual) {
            None => {
                let base = state[0].max(ticks(now));
                state[0] = base.saturating_add(self.bucket.span(actual - taken.cost));
            }
            Some(unused) if reserved || untouched => {
                state[0] = Gcra::give_back(state[0], self.bucket.span(unused));
            }
            Some(_) => {}
        }
    }

    /// What is out on reservations stays out, as everywhere.
    fn refund(&self, state: &mut [u64], now: Timestamp, amount: u64) {
        state[0] = Gcra::give_back(self.arrival(state, ticks(now)), self.bucket.span(amount));
    }

    fn status(&self, state: &[u64], now: Timestamp) -> Status {
        let now = ticks(now);
        let arrival = self.arrival(state, now);
        Status {
            limit: self.bucket.burst(),
            remaining: self.bucket.remaining(arrival, now),
            reset: nanos_covering(arrival.saturating_sub(now)),
        }
    }

    fn full_at(&self, state: &[u64]) -> Timestamp {
        match state {
            [_, out] if *out > 0 => NEVER_FULL,
            _ => Gcra::full_at(state[0]),
        }
    }

    fn merge(&self, into: &mut [u64], from: &[u64]) {
        // All reservations stay out, and each may give back all of itself: what is left then must
        // still be what the stricter of the two had without its own.
        let (ours, theirs) = (Self::out(into), Self::out(from));
        let beside_theirs = into[0].saturating_add(self.bucket.span(theirs));
        let beside_ours = from[0].saturating_add(self.bucket.span(ours));
        into[0] = beside_theirs.max(beside_ours);
        if let [_, out] = into {
            *out = ours.saturating_add(theirs);
        }
    }
}

impl TokenBucket {
    /// Ends a claim on so many tokens. What the cap on refilling made of the rest while they were out stays so.
    pub(crate) fn release(&self, state: &mut [u64], amount: u64, now: Timestamp) {
        let due = self.arrival(state, ticks(now));
        if let [arrival, out] = state {
            *arrival = due;
            *out = out.saturating_sub(amount);
        }
    }
}
