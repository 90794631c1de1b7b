//! Concurrency limit: maximum number of requests in flight.
//!
//! **Guarantee.** Held permits never exceed `limit`. A permit is released exactly once, by its guard. Time
//! releases none, so there is no exact wait to promise ([`Check::Held`]).
//!
//! **State.** Word 0: held permits. A key with held permits is never evicted.

use super::{AdmitMode, Algorithm, Check, LimitCharge, NEVER_FULL, Status};
use crate::limit::LimitError;
use crate::time::Timestamp;

/// Concurrency limit. See the [module documentation](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    limit: u64,
}

impl Concurrency {
    /// At most `limit` requests in flight.
    pub fn new(limit: u64) -> Result<Self, LimitError> {
        if limit == 0 {
            return Err(LimitError::zero("concurrency"));
        }
        Ok(Self { limit })
    }

    /// Maximum number of requests in flight.
    pub const fn limit(&self) -> u64 {
        self.limit
    }
}

impl Algorithm for Concurrency {
    fn words(&self) -> usize {
        1
    }

    #[inline]
    fn check(&self, state: &[u64], _now: Timestamp, cost: u64, _mode: AdmitMode) -> Check {
        if cost > self.limit {
            Check::Never
        } else if cost == 0 || cost <= self.limit.saturating_sub(state[0]) {
            Check::Now
        } else {
            Check::Held
        }
    }

    #[inline]
    fn commit(&self, state: &mut [u64], _now: Timestamp, cost: u64, _hold: bool) -> u64 {
        state[0] = state[0].saturating_add(cost);
        0
    }

    fn settle(&self, state: &mut [u64], taken: LimitCharge, actual: u64, _now: Timestamp) {
        state[0] = state[0].saturating_sub(taken.cost).saturating_add(actual);
    }

    /// Does nothing: only the holder can release a permit.
    fn refund(&self, _state: &mut [u64], _now: Timestamp, _amount: u64) {}

    fn status(&self, state: &[u64], _now: Timestamp) -> Status {
        Status { limit: self.limit, remaining: self.limit.saturating_sub(state[0]), reset: 0 }
    }

    fn full_at(&self, state: &[u64]) -> Timestamp {
        if state[0] == 0 { Timestamp::ZERO } else { NEVER_FULL }
    }

    fn merge(&self, into: &mut [u64], from: &[u64]) {
        into[0] = into[0].saturating_add(from[0]);
    }
}
