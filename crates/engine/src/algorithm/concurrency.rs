//! Concurrency limit: maximum number of requests in flight.
//!
//! **Guarantee.** Held permits never exceed `limit`. A permit is released exactly once, by its guard. Time
//! releases none, so there is no exact wait to promise ([`Check::Held`]).
//!
//! **State.** Word 0: held permits. A key with held permits is never evicted.

use std::time::Duration;

use super::description::{
    Describe, Description, LimitArguments, LimitUnit, NodeShare, Pacing, Parameter, ParameterKind, ParameterValue,
    Share, missing,
};
use super::store_form::{SecondaryKey, StoreForm, StoreFormError, exact};
use super::{AdmitMode, Algorithm, Check, HoldingKind, LimitCharge, NEVER_FULL, Status};
use crate::quota::LimitError;
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

impl Describe for Concurrency {
    const DESCRIPTION: &'static Description = &Description {
        name: "concurrency",
        title: "a concurrency limit",
        doc: "Limit for requests in flight.",
        code: 7,
        unit: LimitUnit::Permits,
        pacing: Pacing::None,
        refundable: false,
        reservable: false,
        parameters: &[Parameter {
            name: "concurrency",
            doc: "Maximum number of requests in flight.",
            kind: ParameterKind::Count(1, u64::MAX),
            default: None,
            example: "50",
            notation: " {}",
        }],
    };

    fn from_arguments(arguments: &LimitArguments) -> Result<Self, LimitError> {
        Self::new(arguments.count(0).ok_or_else(|| missing("concurrency"))?)
    }

    fn arguments(&self) -> LimitArguments {
        LimitArguments::of([ParameterValue::Count(self.limit)])
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn window(&self) -> Option<Duration> {
        None
    }

    fn share(&self, nodes: NodeShare) -> Result<Share<Self>, LimitError> {
        match nodes.divide(self.limit) {
            0 => Ok(Share::Nothing),
            permits => Self::new(permits).map(Share::Limit),
        }
    }

    fn store_form(&self) -> Result<StoreForm, StoreFormError> {
        let numbers = [exact(self.limit, "limit")? as f64];
        Ok(StoreForm { secondary: SecondaryKey::Permits, ..StoreForm::new("cc".to_owned(), numbers) })
    }

    /// Held permits stay held.
    fn carry_over(&self, state: &mut [u64], _old: &Self, old_state: &[u64]) -> bool {
        state.copy_from_slice(old_state);
        true
    }

    fn implies(&self, other: &Self) -> bool {
        self.limit <= other.limit
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

    fn merge_copies(&self, into: &mut [u64], from: &[u64]) {
        into[0] = into[0].max(from[0]);
    }

    fn holding(&self) -> Option<HoldingKind> {
        Some(HoldingKind::Permits)
    }

    fn release(&self, state: &mut [u64], amount: u64, _now: Timestamp) {
        state[0] = state[0].saturating_sub(amount);
    }

    /// Does nothing: all of the state is held.
    fn clear_unheld(&self, _state: &mut [u64], _now: Timestamp) {}

    fn clear_holdings(&self, state: &mut [u64]) {
        state.fill(0);
    }
}
