//! The state of a keyed limiter: a table, replaceable bucket by bucket while in use.

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::algorithm::Check;
use crate::algorithm::gcra::{Gcra, nanos_covering, ticks};
use crate::clock::ClockHandle;
use crate::decision::Decision;
use crate::limit::LimitError;
use crate::plan::Plan;
use crate::table::{KeyHash, Place, Table, Visit};
use crate::time::Timestamp;
use std::sync::Arc;

/// A plan with the states of its keys.
pub(crate) struct KeyedCore {
    pub(crate) plan: Arc<Plan>,
    pub(crate) table: Table,
    /// The plan's only limit, if that is a plain token bucket: the common case, decided without going
    /// through the plan.
    bucket: Option<Gcra>,
}

impl KeyedCore {
    /// Starts fetching a key's state from memory.
    #[inline]
    pub(crate) fn prefetch(&self, key: KeyHash) {
        self.table.prefetch(key);
    }

    pub(crate) fn new(plan: Plan, table: Table) -> Self {
        let bucket = plan.single_bucket();
        Self { plan: Arc::new(plan), table, bucket }
    }

    /// Whether a plain token bucket is all there is for a key.
    pub(crate) const fn is_plain(&self) -> bool {
        self.bucket.is_some()
    }

    /// Decides by a key's plain token bucket. `None`: it has none, or the cost is not one for it, or it lives in another
    /// table by now; then nothing was taken.
    #[inline(always)]
    pub(crate) fn decide_plain(&self, key: KeyHash, now: Timestamp, cost: u64) -> Option<Decision> {
        let bucket = self.bucket.as_ref().filter(|bucket| cost > 0 && cost <= bucket.burst())?;
        let ticks = ticks(now);
        let mut take = Err((0, 0));
        let visit = self.table.visit_word(&self.plan, key, now, |arrival| {
            take = match bucket.admit(*arrival, ticks, cost) {
                Ok(next) => {
                    *arrival = next;
                    Ok(next)
                }
                Err(early) => Err((*arrival, early)),
            };
            take.is_ok()
        });
        if visit == Visit::Moved {
            return None;
        }
        Some(match take {
            Ok(arrival) => bucket.decision(Check::Now, arrival, ticks),
            Err((arrival, early)) => bucket.decision(Check::NotBefore(nanos_covering(early)), arrival, ticks),
        })
    }
}

/// States by key.
pub(crate) struct Keyed {
    core: ArcSwap<KeyedCore>,
    seed: u64,
    changing: Mutex<()>,
}

impl Keyed {
    pub(crate) fn with_core(core: KeyedCore) -> Self {
        let seed = core.table.seed();
        Self { core: ArcSwap::from_pointee(core), seed, changing: Mutex::new(()) }
    }

    #[inline]
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn core(&self) -> Arc<KeyedCore> {
        self.core.load_full()
    }

    /// Runs `act` on the core whose buckets hold the key now.
    #[inline]
    fn current(&self, mut act: impl FnMut(&KeyedCore) -> Visit) -> Place {
        let core = self.core.load();
        match act(&core) {
            Visit::Done(place) => place,
            Visit::Moved => self.follow(&core, &mut act),
        }
    }

    /// Goes where a bucket has moved to: to the table's successor while it is being replaced, and to the
    /// present one afterwards.
    #[cold]
    fn follow(&self, core: &KeyedCore, act: &mut dyn FnMut(&KeyedCore) -> Visit) -> Place {
        let mut successor = core.table.successor.load_full();
        loop {
            let core = successor.unwrap_or_else(|| self.core.load_full());
            if let Visit::Done(place) = act(&core) {
                return place;
            }
            successor = core.table.successor.load_full();
        }
    }

    #[inline(always)]
    pub(crate) fn decide(&self, key: KeyHash, clock: &ClockHandle, cost: u64) -> Decision {
        let core = self.core.load();
        core.table.prefetch(key);
        let now = clock.now();
        if let Some(decision) = core.decide_plain(key, now, cost) {
            return decision;
        }
        drop(core);
        self.decide_any(key, now, cost)
    }

    #[inline(never)]
    fn decide_any(&self, key: KeyHash, now: Timestamp, cost: u64) -> Decision {
        let mut decision = super::NO_STATE;
        self.visit(key, now, |plan, state| {
            decision = plan.decide(state, now, cost);
            decision.is_admitted() && cost > 0
        });
        decision
    }

    /// [`Keyed::visit`] for callers that know the core, as long as it is the present one.
    pub(crate) fn visit_known(
        &self,
        core: &KeyedCore,
        key: KeyHash,
        now: Timestamp,
        act: &mut dyn FnMut(&Arc<Plan>, &mut [u64]) -> bool,
    ) -> Place {
        match core.table.visit(&core.plan, key, now, |state| act(&core.plan, state)) {
            Visit::Done(place) => place,
            Visit::Moved => self.visit(key, now, act),
        }
    }

    pub(crate) fn visit(
        &self,
        key: KeyHash,
        now: Timestamp,
        mut act: impl FnMut(&Arc<Plan>, &mut [u64]) -> bool,
    ) -> Place {
        self.current(|core| core.table.visit(&core.plan, key, now, |state| act(&core.plan, state)))
    }

    pub(crate) fn at_place(&self, key: KeyHash, place: Place, act: &mut dyn FnMut(&Arc<Plan>, &mut [u64])) {
        self.current(|core| core.table.at_place(key, place, |state| act(&core.plan, state)));
    }

    /// Replaces the plan and the size of the table; every key's state is carried over, one bucket at a
    /// time, so that no decision waits for more than one bucket.
    pub(crate) fn change(&self, plan: Plan, buckets: usize, clock: &ClockHandle) -> Result<(), LimitError> {
        let _alone = self.changing.lock();
        let old = self.core.load_full();
        let plan = plan.succeeding(&old.plan);
        let mut table = Table::with_buckets(&plan, buckets, old.table.seed())?;
        if old.table.is_lenient() {
            table = table.lenient();
        }
        let new = Arc::new(KeyedCore::new(plan, table));
        old.table.successor.store(Some(Arc::clone(&new)));
        for bucket in 0..old.table.buckets() {
            old.table.move_bucket(bucket, &new.table, &new.plan, &old.plan, clock);
        }
        new.table.add_forgotten(old.table.forgotten());
        self.core.store(new);
        // Whoever keeps the old table must not keep all that came after it.
        old.table.successor.store(None);
        Ok(())
    }

    /// The core, with nobody changing it while `look` does.
    pub(crate) fn with_still_core<R>(&self, look: impl FnOnce(&KeyedCore) -> R) -> R {
        let _alone = self.changing.lock();
        look(&self.core.load())
    }
}
