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

use std::time::Duration;

use super::description::{
    Describe, Description, LimitArguments, LimitUnit, NodeShare, Pacing, Parameter, ParameterKind, ParameterValue,
    Share,
};
use super::gcra::{Gcra, nanos_covering, ticks};
use super::store_form::{StoreForm, StoreFormError};
use super::{AdmitMode, Algorithm, Check, Leftover, LimitCharge, Status};
use crate::quota::{LimitError, Rate};
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

    /// Drain rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Capacity of the queue.
    pub const fn queue(&self) -> u64 {
        self.bucket.burst()
    }
}

impl Describe for LeakyBucket {
    const DESCRIPTION: &'static Description = &Description {
        name: "leaky_bucket",
        title: "a leaky bucket",
        doc: "Bounded queue that drains at a constant rate.",
        code: 2,
        unit: LimitUnit::Requests,
        pacing: Pacing::Queue,
        refundable: false,
        reservable: false,
        parameters: &[
            Parameter {
                name: "leaky_bucket",
                doc: "Drain rate.",
                kind: ParameterKind::Rate,
                default: None,
                example: "5/s",
                notation: " {}",
            },
            Parameter {
                name: "queue",
                doc: "Capacity of the queue, including the request that is admitted immediately. With 1, no request \
                      waits.",
                kind: ParameterKind::Count(1, u64::MAX),
                default: Some("the count of the rate"),
                example: "15",
                notation: ", queue {}",
            },
        ],
    };

    fn from_arguments(arguments: &LimitArguments) -> Result<Self, LimitError> {
        let rate = arguments.rate()?;
        Self::new(rate, arguments.count(1).unwrap_or(rate.count()))
    }

    fn arguments(&self) -> LimitArguments {
        LimitArguments::of([ParameterValue::Rate(self.rate), ParameterValue::Count(self.queue())])
    }

    fn capacity(&self) -> u64 {
        self.queue()
    }

    fn window(&self) -> Option<Duration> {
        Some(self.rate.time_for(self.queue()))
    }

    fn share(&self, nodes: NodeShare) -> Result<Share<Self>, LimitError> {
        Self::new(nodes.rate(self.rate)?, nodes.part(self.queue())).map(Share::Limit)
    }

    fn store_form(&self) -> Result<StoreForm, StoreFormError> {
        Ok(StoreForm::new("lb".to_owned(), self.bucket.store_numbers(true)?))
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

    fn leftover(&self, state: &[u64], now: Timestamp) -> Leftover {
        Leftover { overdraft: self.bucket.overdraft(state[0], ticks(now)), ..Leftover::of(self, state, now) }
    }

    fn start_with(&self, state: &mut [u64], leftover: Leftover, now: Timestamp) {
        leftover.charge(self, state, now);
        // Full but not fresh: the next change must not treat it as unused.
        state[0] = state[0].max(ticks(now));
    }
}
