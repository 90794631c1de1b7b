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

use std::time::Duration;

use super::description::{
    Describe, Description, Imprecision, LeaseForm, LimitArguments, LimitUnit, NodeShare, Pacing, Parameter,
    ParameterKind, ParameterValue, Share,
};
use super::gcra::{Gcra, TICKS_PER_NANO, nanos_covering, ticks};
use super::store_form::{StoreForm, StoreFormError};
use super::{AdmitMode, Algorithm, Check, HoldingKind, Leftover, LimitCharge, NEVER_FULL, Status};
use crate::quota::{LimitError, Rate};
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

impl TokenBucket {
    /// Difference between the rate and the one that whole ticks allow.
    pub(super) fn rate_imprecision(&self) -> Option<Imprecision> {
        let rate = self.rate;
        let written = rate.period().as_nanos() * u128::from(TICKS_PER_NANO);
        let stored = u128::from(self.bucket.interval()) * u128::from(rate.count());
        let loss = stored.saturating_sub(written) * 100 / written.max(1);
        (loss >= 1).then(|| Imprecision {
            description: format!("{rate} is enforced as {loss}% less: the rate is too high for exact counting"),
            remedy: "raise the rate by this percentage if it matters",
        })
    }
}

impl Describe for TokenBucket {
    const DESCRIPTION: &'static Description = &Description {
        name: "token_bucket",
        title: "a token bucket",
        doc: "Rate with a burst: at most burst + rate x T in any time T.",
        code: 1,
        unit: LimitUnit::Requests,
        pacing: Pacing::None,
        refundable: true,
        reservable: true,
        parameters: &[
            Parameter {
                name: "token_bucket",
                doc: "Refill rate.",
                kind: ParameterKind::Rate,
                default: None,
                example: "10/s",
                notation: " {}",
            },
            Parameter {
                name: "burst",
                doc: "Capacity of the bucket, in tokens.",
                kind: ParameterKind::Count(1, u64::MAX),
                default: Some("the count of the rate"),
                example: "20",
                notation: ", burst {}",
            },
        ],
    };

    fn from_arguments(arguments: &LimitArguments) -> Result<Self, LimitError> {
        let rate = arguments.rate()?;
        Self::new(rate, arguments.count(1).unwrap_or(rate.count()))
    }

    fn arguments(&self) -> LimitArguments {
        LimitArguments::of([ParameterValue::Rate(self.rate), ParameterValue::Count(self.burst())])
    }

    fn capacity(&self) -> u64 {
        self.burst()
    }

    fn window(&self) -> Option<Duration> {
        Some(self.rate.time_for(self.burst()))
    }

    fn share(&self, nodes: NodeShare) -> Result<Share<Self>, LimitError> {
        Self::new(nodes.rate(self.rate)?, nodes.part(self.burst())).map(Share::Limit)
    }

    fn store_form(&self) -> Result<StoreForm, StoreFormError> {
        Ok(StoreForm::new("tb".to_owned(), self.bucket.store_numbers(false)?))
    }

    fn lease_form(&self) -> Option<LeaseForm> {
        Some(LeaseForm::Bucket(self.bucket))
    }

    fn token_bucket(&self) -> Option<&Gcra> {
        Some(&self.bucket)
    }

    fn with_reservations(self) -> Self {
        self.reservable()
    }

    fn implies(&self, other: &Self) -> bool {
        self.burst() <= other.burst() && self.bucket.interval() >= other.bucket.interval()
    }

    fn max_admitted(&self, span: Duration) -> Option<u128> {
        let refilled = span.as_nanos().checked_mul(u128::from(self.rate.count()))? / self.rate.period().as_nanos();
        Some(u128::from(self.burst()) + refilled)
    }

    fn imprecision(&self) -> Option<Imprecision> {
        self.rate_imprecision()
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

    fn merge_copies(&self, into: &mut [u64], from: &[u64]) {
        into.iter_mut().zip(from).for_each(|(into, from)| *into = (*into).max(*from));
    }

    fn holding(&self) -> Option<HoldingKind> {
        self.reservable.then_some(HoldingKind::Tokens)
    }

    /// Ends a reservation of `amount` tokens. Refill lost to the cap while they were outstanding stays lost.
    fn release(&self, state: &mut [u64], amount: u64, now: Timestamp) {
        let due = self.arrival(state, ticks(now));
        if let [arrival, out] = state {
            *arrival = due;
            *out = out.saturating_sub(amount);
        }
    }

    fn clear_unheld(&self, state: &mut [u64], now: Timestamp) {
        match state {
            [arrival, out] => *arrival = ticks(now).saturating_add(self.bucket.span(*out)),
            state => state.fill(0),
        }
    }

    fn clear_holdings(&self, state: &mut [u64]) {
        if let [_, out] = state {
            *out = 0;
        }
    }

    fn leftover(&self, state: &[u64], now: Timestamp) -> Leftover {
        Leftover {
            overdraft: self.bucket.overdraft(state[0], ticks(now)),
            outstanding: Self::outstanding(state),
            ..Leftover::of(self, state, now)
        }
    }

    fn start_with(&self, state: &mut [u64], leftover: Leftover, now: Timestamp) {
        leftover.charge(self, state, now);
        // Full but not fresh: the next change must not treat it as unused.
        state[0] = state[0].max(ticks(now));
        if let [_, out] = state {
            *out = leftover.outstanding;
        }
    }
}
