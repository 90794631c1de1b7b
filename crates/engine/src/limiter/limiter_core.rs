//! Core shared by keyed and unkeyed limiters: state, clock and wait queue.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::Builder;
use super::keyed::{KeyedCore, KeyedState};
use super::unkeyed::UnkeyedState;
use crate::algorithm::{AdmitMode, Status};
use crate::clock::ClockHandle;
use crate::decision::{Decision, Verdict};
use crate::limit::{Limit, LimitError};
use crate::limit_set::{Charge, Holdings, LimitSet, SlotLocation};
use crate::table::KeyHash;
use crate::time::Timestamp;
use crate::wait::WaitQueue;

/// Limits with their state, keyed or not, and their wait queue.
pub(crate) struct LimiterCore {
    /// Unique id; callers that lock several limiters lock them in this order.
    id: u64,
    pub(super) state: LimiterState,
    pub(crate) clock: ClockHandle,
    pub(crate) queue: WaitQueue,
    /// Set if the cost of a permit counts as reserved until it ends.
    reservable: AtomicBool,
    /// Permits held by callers, over all keys.
    permits: AtomicU64,
}

#[expect(clippy::large_enum_variant, reason = "one per limiter; boxing adds an indirection to the fast path")]
pub(super) enum LimiterState {
    Unkeyed(UnkeyedState),
    Keyed(KeyedState),
}

/// Key hash of an unkeyed limiter.
pub(crate) const NO_KEY: KeyHash = KeyHash(0);

/// Result of one attempt to take from a limiter.
pub(crate) struct TakeResult {
    pub(crate) decision: Decision,
    /// The charge, if the request was admitted.
    pub(crate) charge: Option<Charge>,
}

impl LimiterCore {
    pub(super) fn new(state: LimiterState, clock: ClockHandle, queue: WaitQueue, reservable: bool) -> Arc<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { id, state, clock, queue, reservable: AtomicBool::new(reservable), permits: AtomicU64::new(0) })
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn limit_set(&self) -> Arc<LimitSet> {
        match &self.state {
            LimiterState::Unkeyed(state) => state.limit_set(),
            LimiterState::Keyed(states) => Arc::clone(&states.core().limit_set),
        }
    }

    #[inline]
    pub(crate) fn hash(&self, key: &(impl Hash + ?Sized)) -> KeyHash {
        match &self.state {
            LimiterState::Unkeyed(_) => NO_KEY,
            LimiterState::Keyed(states) => crate::table::hash_with(states.seed(), key),
        }
    }

    /// Calls `act` with exclusive access to one key's state; `act` returns true if it changed the state.
    pub(crate) fn with_state(
        &self,
        key: KeyHash,
        now: Timestamp,
        act: &mut dyn FnMut(&Arc<LimitSet>, &mut [u64]) -> bool,
    ) -> SlotLocation {
        match &self.state {
            LimiterState::Unkeyed(state) => match state.with_state(now, act) {
                0 => SlotLocation::Own,
                // A settled batch moves the arrival time back, which hides later charges of other callers.
                // Only reservations can be returned in that case.
                _ => SlotLocation::Overflow,
            },
            LimiterState::Keyed(states) => states.with_state(key, now, act),
        }
    }

    /// Calls `act` with the state that an earlier charge was taken from.
    pub(crate) fn with_state_at(
        &self,
        key: KeyHash,
        location: SlotLocation,
        now: Timestamp,
        act: &mut dyn FnMut(&Arc<LimitSet>, &mut [u64]),
    ) {
        match &self.state {
            LimiterState::Unkeyed(state) => {
                state.with_state(now, &mut |limit_set, words| {
                    act(limit_set, words);
                    true
                });
            }
            LimiterState::Keyed(states) => states.with_state_at(key, location, act),
        }
    }

    /// True if callers are queued for this key; no request may bypass them.
    #[inline]
    pub(crate) fn has_waiters(&self, key: KeyHash) -> bool {
        self.queue.is_occupied() && self.queue.has_waiters(key)
    }

    /// Decides for an unkeyed limiter without holding permits.
    #[inline(always)]
    pub(super) fn decide_unkeyed(&self, cost: u64) -> Decision {
        // Read the clock first: the CPU does the rest while that read is in progress.
        let now = self.clock.now();
        match &self.state {
            LimiterState::Unkeyed(state) if !self.queue.is_occupied() => state.decide(now, cost),
            _ => self.decide_behind_queue(NO_KEY, cost),
        }
    }

    /// Decides for one key without holding permits.
    #[inline(always)]
    pub(super) fn decide_keyed(&self, key: &(impl Hash + ?Sized), cost: u64) -> Decision {
        match &self.state {
            LimiterState::Keyed(states) if !self.queue.is_occupied() => {
                let key = crate::table::hash_with(states.seed(), key);
                states.decide(key, &self.clock, cost)
            }
            _ => self.decide_behind_queue(self.hash(key), cost),
        }
    }

    /// [`LimiterCore::decide_keyed`] for a hashed key.
    pub(super) fn decide_hashed(&self, key: KeyHash, cost: u64) -> Decision {
        match &self.state {
            LimiterState::Keyed(states) if !self.queue.is_occupied() => states.decide(key, &self.clock, cost),
            _ => self.decide_behind_queue(key, cost),
        }
    }

    /// Decides while callers may be queued.
    #[cold]
    #[inline(never)]
    fn decide_behind_queue(&self, key: KeyHash, cost: u64) -> Decision {
        if cost > 0 && self.has_waiters(key) {
            return self.denial_behind_queue(key, self.clock.now(), cost);
        }
        match &self.state {
            LimiterState::Unkeyed(state) => state.decide(self.clock.now(), cost),
            LimiterState::Keyed(states) => states.decide(key, &self.clock, cost),
        }
    }

    /// Decides and returns the charge, which must be settled.
    pub(crate) fn take(&self, key: KeyHash, now: Timestamp, cost: u64, entry: AdmitMode) -> TakeResult {
        let mut result = TakeResult { decision: STATE_UNREACHABLE, charge: None };
        let location = self.with_state(key, now, &mut |limit_set, state| {
            let evaluation = limit_set.check(state, now, cost, entry);
            if evaluation.admits() {
                limit_set.take(state, now, cost, self.is_reservable(), &mut result.charge);
            }
            result.decision = limit_set.decision(evaluation, state, now);
            result.charge.is_some() && cost > 0
        });
        match &mut result.charge {
            Some(charge) => {
                charge.slot = location;
                self.record_charge(charge);
            }
            None => self.adjust_for_batches(cost, &mut result.decision),
        }
        result
    }

    /// Counts the permits of a charge until it is [settled](Self::settle).
    #[inline]
    pub(crate) fn record_charge(&self, charge: &Charge) {
        if charge.holds_resources() {
            self.permits.fetch_add(charge.permits(), Ordering::Relaxed);
        }
    }

    /// Number of permits held by callers, over all keys.
    pub(crate) fn permits(&self) -> u64 {
        self.permits.load(Ordering::Relaxed)
    }

    /// Utilization of the tightest limit of an unkeyed limiter, from 0 to 1.
    pub(crate) fn utilization(&self, now: Timestamp) -> f64 {
        let (limit_set, state) = self.snapshot(NO_KEY, now);
        let share = |it: &Status| it.limit.saturating_sub(it.remaining) as f64 / it.limit.max(1) as f64;
        limit_set.statuses(&state, now).iter().map(share).fold(0.0, f64::max)
    }

    /// Removes the retry time if the cost has to wait for tokens in batches: their return time is unknown.
    fn adjust_for_batches(&self, cost: u64, decision: &mut Decision) {
        if let (LimiterState::Unkeyed(state), Verdict::Denied { retry_after: Some(_) }) =
            (&self.state, decision.verdict)
            && state.waits_for_batches(cost)
        {
            decision.verdict = Verdict::Denied { retry_after: None };
        }
    }

    /// Ends a charge with its actual cost.
    pub(crate) fn settle(&self, key: KeyHash, charge: &Charge, actual: u64) {
        let now = self.clock.now();
        if charge.holds_resources() {
            self.permits.fetch_sub(charge.permits(), Ordering::Relaxed);
        }
        // If the state is gone, the full difference is charged to the key's current state.
        let mut extra = actual.saturating_sub(charge.cost);
        self.with_state_at(key, charge.slot, now, &mut |limit_set, state| {
            extra = limit_set.end(state, charge, actual, now);
        });
        if extra > 0 {
            self.with_state(key, now, &mut |limit_set, state| {
                limit_set.charge(state, now, extra);
                true
            });
        }
        self.wake_waiters(key, charge.slot);
    }

    /// Releases the permits and reservations of a charge; consumed quota stays consumed.
    pub(crate) fn release(&self, key: KeyHash, location: SlotLocation, holdings: &Holdings) {
        self.permits.fetch_sub(holdings.permits(), Ordering::Relaxed);
        let now = self.clock.now();
        self.with_state_at(key, location, now, &mut |limit_set, state| limit_set.release(state, holdings, now));
        self.wake_waiters(key, location);
    }

    /// Wakes the queued callers that may fit after a release.
    fn wake_waiters(&self, key: KeyHash, location: SlotLocation) {
        match location {
            SlotLocation::Own => self.queue.wake(key),
            // Other keys share that state, and their callers may wait for it.
            SlotLocation::Overflow => self.queue.invalidate_forecasts(),
        }
    }

    /// Refunds an amount taken at an unknown earlier time. An unknown key has nothing to refund.
    pub(crate) fn refund(&self, key: KeyHash, amount: u64) {
        let now = self.clock.now();
        self.with_state_at(key, SlotLocation::Own, now, &mut |limit_set, state| limit_set.refund(state, now, amount));
        self.queue.wake(key);
    }

    /// Current core of a keyed limiter, for frequent callers that tolerate its replacement.
    pub(crate) fn keyed_core(&self) -> Option<Arc<KeyedCore>> {
        match &self.state {
            LimiterState::Unkeyed(_) => None,
            LimiterState::Keyed(states) => Some(states.core()),
        }
    }

    /// [`LimiterCore::with_state`] for callers that hold the core.
    pub(crate) fn with_state_in(
        &self,
        core: Option<&KeyedCore>,
        key: KeyHash,
        now: Timestamp,
        act: &mut dyn FnMut(&Arc<LimitSet>, &mut [u64]) -> bool,
    ) -> SlotLocation {
        match (&self.state, core) {
            (LimiterState::Keyed(states), Some(core)) => states.with_state_in(core, key, now, act),
            _ => self.with_state(key, now, act),
        }
    }

    pub(crate) fn is_reservable(&self) -> bool {
        self.reservable.load(Ordering::Relaxed)
    }

    /// Denial for a caller that does not wait while others are queued.
    #[cold]
    pub(crate) fn denial_behind_queue(&self, key: KeyHash, now: Timestamp, cost: u64) -> Decision {
        let (limit_set, mut state) = self.snapshot(key, now);
        let evaluation = limit_set.check(&state, now, cost, AdmitMode::Immediate);
        let mut decision = limit_set.decision(evaluation, &state, now);
        if !matches!(decision.verdict, Verdict::Never) {
            let admitted_at = self.queue.forecast(key, &limit_set, &mut state, now, cost);
            decision.verdict = Verdict::Denied { retry_after: admitted_at.map(|admitted_at| admitted_at - now) };
        }
        decision
    }

    /// Copy of a key's state with the limit set it belongs to.
    pub(crate) fn snapshot(&self, key: KeyHash, now: Timestamp) -> (Arc<LimitSet>, Vec<u64>) {
        let mut copy = None;
        self.with_state(key, now, &mut |limit_set, state| {
            copy = Some((Arc::clone(limit_set), state.to_vec()));
            false
        });
        copy.unwrap_or_else(|| {
            let limit_set = self.limit_set();
            let words = limit_set.words();
            (limit_set, vec![0; words])
        })
    }

    pub(super) fn statuses(&self, key: KeyHash) -> Vec<Status> {
        let now = self.clock.now();
        let (limit_set, state) = self.snapshot(key, now);
        limit_set.statuses(&state, now)
    }

    /// Replaces the limits; the number of keys stays.
    pub(crate) fn change(&self, limits: Vec<Limit>) -> Result<(), LimitError> {
        self.rebuild(limits, self.is_reservable(), self.buckets())
    }

    /// Replaces the limits, the reservable flag and the number of buckets.
    pub(crate) fn rebuild(&self, limits: Vec<Limit>, reservable: bool, buckets: usize) -> Result<(), LimitError> {
        let limit_set = Builder::build_limit_set(limits, reservable)?;
        match &self.state {
            LimiterState::Unkeyed(state) => state.change(limit_set, &self.clock),
            LimiterState::Keyed(states) => states.change(limit_set, buckets, &self.clock)?,
        }
        self.reservable.store(reservable, Ordering::Relaxed);
        self.queue.invalidate_forecasts();
        Ok(())
    }

    pub(crate) fn early_evictions(&self) -> u64 {
        match &self.state {
            LimiterState::Unkeyed(_) => 0,
            LimiterState::Keyed(states) => states.core().table.early_evictions(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.state {
            LimiterState::Unkeyed(_) => size_of::<Self>(),
            LimiterState::Keyed(states) => states.core().table.bytes(),
        }
    }

    /// Number of hash buckets; 0 for an unkeyed limiter.
    pub(crate) fn buckets(&self) -> usize {
        match &self.state {
            LimiterState::Unkeyed(_) => 0,
            LimiterState::Keyed(states) => states.core().table.buckets(),
        }
    }

    /// Resets one key except for permits and reservations.
    pub(crate) fn reset(&self, key: KeyHash) {
        let now = self.clock.now();
        self.with_state_at(key, SlotLocation::Own, now, &mut |limit_set, state| limit_set.clear_unheld(state, now));
        self.queue.invalidate_forecasts();
    }

    /// Longest wait imposed by time alone, regardless of permits held by others.
    pub(crate) fn min_wait(&self, key: KeyHash, now: Timestamp, cost: u64) -> Duration {
        let (limit_set, state) = self.snapshot(key, now);
        limit_set.min_wait(&state, now, cost)
    }
}

/// Decision for an unreachable state, which the table's construction rules out: refuse.
pub(crate) const STATE_UNREACHABLE: Decision = Decision {
    verdict: Verdict::Denied { retry_after: None },
    limit: 0,
    status: Status { limit: 0, remaining: 0, reset: 0 },
};
