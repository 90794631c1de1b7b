//! State of a keyed limiter: a hash table that can be replaced bucket by bucket while in use.

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;

use crate::algorithm::Check;
use crate::algorithm::gcra::{Gcra, nanos_covering, ticks};
use crate::clock::ClockHandle;
use crate::decision::{Decision, Verdict};
use crate::limit::LimitError;
use crate::limit_set::{LimitSet, SlotLocation};
use crate::table::{KeyHash, StateAccess, Table};
use crate::time::Timestamp;
use std::sync::Arc;

/// Limit set with the states of its keys.
pub(crate) struct KeyedCore {
    pub(crate) limit_set: Arc<LimitSet>,
    pub(crate) table: Table,
    /// The only limit, if it is a plain token bucket: the common case, decided without the limit set.
    bucket: Option<Gcra>,
    /// The next core, while this one is being replaced. Afterwards, holders of this core have to load the current
    /// one.
    successor: ArcSwapOption<KeyedCore>,
}

impl KeyedCore {
    /// Prefetches a key's state.
    #[inline]
    pub(crate) fn prefetch(&self, key: KeyHash) {
        self.table.prefetch(key);
    }

    pub(crate) fn new(limit_set: LimitSet, table: Table) -> Self {
        let bucket = limit_set.single_bucket();
        Self { limit_set: Arc::new(limit_set), table, bucket, successor: ArcSwapOption::empty() }
    }

    /// Decides by limits that [hold and delay nothing](LimitSet::is_plain). Returns `None`, and takes nothing, if the
    /// cost is zero, can never be admitted, or the key has moved to another table.
    #[inline]
    pub(crate) fn decide_plain(&self, key: KeyHash, now: Timestamp, cost: u64) -> Option<Decision> {
        if self.bucket.is_some() {
            return self.decide_single_bucket(key, now, cost);
        }
        if cost == 0 {
            return None;
        }
        let mut decision = super::STATE_UNREACHABLE;
        let access = self.table.with_state(&self.limit_set, key, now, |state| {
            decision = self.limit_set.decide(state, now, cost);
            decision.is_admitted()
        });
        (access != StateAccess::Moved && decision.verdict != Verdict::Never).then_some(decision)
    }

    /// Decides by a key's single token bucket. Returns `None`, and takes nothing, if there is no single
    /// bucket, the cost is out of its range, or the key has moved to another table.
    #[inline(always)]
    pub(crate) fn decide_single_bucket(&self, key: KeyHash, now: Timestamp, cost: u64) -> Option<Decision> {
        let bucket = self.bucket.as_ref().filter(|bucket| cost > 0 && cost <= bucket.burst())?;
        let ticks = ticks(now);
        let mut take = Err((0, 0));
        let visit = self.table.with_word(&self.limit_set, key, now, |arrival| {
            take = match bucket.admit(*arrival, ticks, cost) {
                Ok(next) => {
                    *arrival = next;
                    Ok(next)
                }
                Err(early) => Err((*arrival, early)),
            };
            take.is_ok()
        });
        if visit == StateAccess::Moved {
            return None;
        }
        Some(match take {
            Ok(arrival) => bucket.decision(Check::Now, arrival, ticks),
            Err((arrival, early)) => bucket.decision(Check::NotBefore(nanos_covering(early)), arrival, ticks),
        })
    }
}

/// Per-key states.
pub(crate) struct KeyedState {
    core: ArcSwap<KeyedCore>,
    seed: u64,
    change_lock: Mutex<()>,
}

impl KeyedState {
    pub(crate) fn with_core(core: KeyedCore) -> Self {
        let seed = core.table.seed();
        Self { core: ArcSwap::from_pointee(core), seed, change_lock: Mutex::new(()) }
    }

    #[inline]
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn core(&self) -> Arc<KeyedCore> {
        self.core.load_full()
    }

    /// Runs `act` on the core whose table holds the key now.
    #[inline]
    fn with_current(&self, mut act: impl FnMut(&KeyedCore) -> StateAccess) -> SlotLocation {
        let core = self.core.load();
        match act(&core) {
            StateAccess::Done(location) => location,
            StateAccess::Moved => self.follow_moved(&core, &mut act),
        }
    }

    /// Follows a moved bucket: to the table's successor during a replacement, to the current table after it.
    #[cold]
    fn follow_moved(&self, core: &KeyedCore, act: &mut dyn FnMut(&KeyedCore) -> StateAccess) -> SlotLocation {
        let mut successor = core.successor.load_full();
        loop {
            let core = successor.unwrap_or_else(|| self.core.load_full());
            if let StateAccess::Done(location) = act(&core) {
                return location;
            }
            successor = core.successor.load_full();
        }
    }

    #[inline(always)]
    pub(crate) fn decide(&self, key: KeyHash, clock: &ClockHandle, cost: u64) -> Decision {
        let core = self.core.load();
        core.table.prefetch(key);
        let now = clock.now();
        if let Some(decision) = core.decide_single_bucket(key, now, cost) {
            return decision;
        }
        drop(core);
        self.decide_general(key, now, cost)
    }

    #[inline(never)]
    fn decide_general(&self, key: KeyHash, now: Timestamp, cost: u64) -> Decision {
        let mut decision = super::STATE_UNREACHABLE;
        self.with_state(key, now, |limit_set, state| {
            decision = limit_set.decide(state, now, cost);
            decision.is_admitted() && cost > 0
        });
        decision
    }

    /// [`KeyedState::with_state`] for callers that hold the core; falls back if it was replaced.
    pub(crate) fn with_state_in(
        &self,
        core: &KeyedCore,
        key: KeyHash,
        now: Timestamp,
        act: &mut dyn FnMut(&Arc<LimitSet>, &mut [u64]) -> bool,
    ) -> SlotLocation {
        match core.table.with_state(&core.limit_set, key, now, |state| act(&core.limit_set, state)) {
            StateAccess::Done(location) => location,
            StateAccess::Moved => self.with_state(key, now, act),
        }
    }

    pub(crate) fn with_state(
        &self,
        key: KeyHash,
        now: Timestamp,
        mut act: impl FnMut(&Arc<LimitSet>, &mut [u64]) -> bool,
    ) -> SlotLocation {
        self.with_current(|core| core.table.with_state(&core.limit_set, key, now, |state| act(&core.limit_set, state)))
    }

    pub(crate) fn with_state_at(
        &self,
        key: KeyHash,
        location: SlotLocation,
        act: &mut dyn FnMut(&Arc<LimitSet>, &mut [u64]),
    ) {
        self.with_current(|core| core.table.with_state_at(key, location, |state| act(&core.limit_set, state)));
    }

    /// Replaces the limit set and the table size. Every key's state is carried over one bucket at a time, so
    /// that a decision waits for at most one bucket.
    pub(crate) fn change(&self, limit_set: LimitSet, buckets: usize, clock: &ClockHandle) -> Result<(), LimitError> {
        let _guard = self.change_lock.lock();
        let old = self.core.load_full();
        let limit_set = limit_set.with_lineage_of(&old.limit_set);
        let mut table = Table::with_buckets(&limit_set, buckets, old.table.seed())?;
        if old.table.drops_evicted() {
            table = table.drop_evicted();
        }
        let new = Arc::new(KeyedCore::new(limit_set, table));
        old.successor.store(Some(Arc::clone(&new)));
        for bucket in 0..old.table.buckets() {
            old.table.move_bucket(bucket, &new.table, &new.limit_set, &old.limit_set, clock);
        }
        new.table.add_early_evictions(old.table.early_evictions());
        self.core.store(new);
        // A holder of the old table must not keep all later tables alive.
        old.successor.store(None);
        Ok(())
    }

    /// Calls `read` with the core while no change can run.
    pub(crate) fn with_stable_core<R>(&self, read: impl FnOnce(&KeyedCore) -> R) -> R {
        let _guard = self.change_lock.lock();
        read(&self.core.load())
    }
}
