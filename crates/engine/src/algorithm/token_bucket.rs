//! Token bucket: a rate and a burst.
//!
//! **Guarantee.** In any span T at most `burst + floor(rate × T)` tokens are admitted, including reservations;
//! the promised wait is exact to the nanosecond: refused one nanosecond before it, admitted at it.
//!
//! **State.** Word 0: arrival time ([`gcra`](super::gcra)). With reservations a second word counts the
//! outstanding tokens: taken, but not yet known to be spent. The bucket refills only up to
//! `burst - outstanding`. Otherwise a reservation returned late would add to tokens refilled in the meantime,
//! and a bucket of 10 could admit 20 at one instant. A cost that does not fit next to the outstanding tokens
//! waits for their holders and not for the refill ([`Check::Held`]).
//!
//! **Refunds.** A reservation returns all it did not spend. Tokens taken without a reservation are refunded
//! only if no other request came since: the refill they may have displaced is unknown, and the clock cannot
//! tell it either, because it may have stepped back.

use super::gcra::{Gcra, nanos_covering, ticks};
use super::{AdmitMode, Algorithm, Check, LimitCharge, NEVER_FULL, Status};
use crate::limit::{LimitError, Rate};
use crate::time::Timestamp;

/// Token bucket limit. See the [module documentation](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    bucket: Gcra,
    rate: Rate,
    reservable: bool,
}

impl TokenBucket {
    /// Bucket of `burst` tokens, refilled at `rate`, initially full.
    pub fn new(rate: Rate, burst: u64) -> Result<Self, LimitError> {
        Ok(Self { bucket: Gcra::new(rate, burst, "burst")?, rate, reservable: false })
    }

    /// The same bucket with a word for reservations.
    #[must_use]
    pub const fn reservable(mut self) -> Self {
        self.reservable = true;
        self
    }

    /// True if reservations are counted.
    pub const fn is_reservable(&self) -> bool {
        self.reservable
    }

    /// Refill rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Tokens in a full bucket.
    pub const fn burst(&self) -> u64 {
        self.bucket.burst()
    }

    /// The underlying GCRA, for callers that store the one word themselves.
    #[inline]
    pub const fn gcra(&self) -> &Gcra {
        &self.bucket
    }

    /// Effective arrival time: never before the outstanding tokens allow.
    #[inline]
    fn arrival(&self, state: &[u64], now: u64) -> u64 {
        match state {
            [arrival, out] => (*arrival).max(now.saturating_add(self.bucket.span(*out))),
            _ => state[0],
        }
    }

    /// Tokens outstanding in reservations.
    #[inline]
    const fn outstanding(state: &[u64]) -> u64 {
        if let [_, out] = state { *out } else { 0 }
    }
}

impl Algorithm for TokenBucket {
    fn words(&self) -> usize {
        1 + usize::from(self.reservable)
    }

    #[inline]
    fn check(&self, state: &[u64], now: Timestamp, cost: u64, _mode: AdmitMode) -> Check {
        if cost > self.bucket.burst() {
            return Check::Never;
        }
        if cost == 0 {
            return Check::Now;
        }
        if Self::outstanding(state) > self.bucket.burst() - cost {
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
        // Settling a reservation moves the word back, so while any is outstanding the word may return to this
        // value although other charges came in between: zero is a mark no word will ever match.
        let mark = if Self::outstanding(state) == 0 { state[0] } else { 0 };
        if let ([_, out], true) = (&mut *state, hold) {
            *out = out.saturating_add(cost);
        }
        mark
    }

    fn settle(&self, state: &mut [u64], taken: LimitCharge, actual: u64, now: Timestamp) {
        let reserved = taken.reserved && self.reservable;
        let untouched = state[0] == taken.mark && Self::outstanding(state) == 0;
        self.release(state, if taken.reserved { taken.cost } else { 0 }, now);
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

    /// Outstanding reservations stay outstanding.
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
        // All reservations stay outstanding, and each may return all of its tokens: the result must then still
        // equal the stricter of the two states without its own reservations.
        let (outstanding_into, outstanding_from) = (Self::outstanding(into), Self::outstanding(from));
        let arrival_into = into[0].saturating_add(self.bucket.span(outstanding_from));
        let arrival_from = from[0].saturating_add(self.bucket.span(outstanding_into));
        into[0] = arrival_into.max(arrival_from);
        if let [_, out] = into {
            *out = outstanding_into.saturating_add(outstanding_from);
        }
    }
}

impl TokenBucket {
    /// Ends a reservation of `amount` tokens. Refill lost to the cap while they were outstanding stays lost.
    pub(crate) fn release(&self, state: &mut [u64], amount: u64, now: Timestamp) {
        let due = self.arrival(state, ticks(now));
        if let [arrival, out] = state {
            *arrival = due;
            *out = out.saturating_sub(amount);
        }
    }
}
