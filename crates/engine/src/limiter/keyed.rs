//! The state of a keyed limiter: a table, replaceable bucket by bucket while in use.

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::limit::LimitError;
use crate::plan::Plan;
use crate::table::{KeyHash, Place, Table, Visit, random_seed};
use crate::time::Timestamp;
use std::sync::Arc;

/// A plan with the states of its keys.
pub(crate) struct KeyedCore {
    pub(crate) plan: Arc<Plan>,
    pub(crate) table: Table,
}

/// States by key.
pub(crate) struct Keyed {
    core: ArcSwap<KeyedCore>,
    seed: u64,
    changing: Mutex<()>,
}

impl Keyed {
    pub(crate) fn new(plan: Plan, capacity: usize) -> Result<Self, LimitError> {
        let seed = random_seed();
        let table = Table::new(&plan, capacity, seed)?;
        Ok(Self::with_core(KeyedCore { plan: Arc::new(plan), table }))
    }

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
            Visit::Moved => Self::successors(&core, &mut act),
        }
    }

    #[cold]
    fn successors(core: &KeyedCore, act: &mut dyn FnMut(&KeyedCore) -> Visit) -> Place {
        let mut next = core.table.successor.get();
        while let Some(core) = next {
            if let Visit::Done(place) = act(core) {
                return place;
            }
            next = core.table.successor.get();
        }
        // A bucket moves only after its table has a successor.
        Place::Own
    }

    #[inline]
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

    pub(crate) fn clear(&self, key: KeyHash) {
        self.core().table.clear(key);
    }

    /// Replaces the plan; every key's state is carried over, one bucket at a time, so that no decision
    /// waits for more than one bucket.
    pub(crate) fn change(&self, plan: Plan, now: Timestamp) {
        let _alone = self.changing.lock();
        let old = self.core.load_full();
        let table = Table::with_buckets(&plan, old.table.buckets(), old.table.seed());
        table.add_forgotten(old.table.forgotten());
        let new = Arc::new(KeyedCore { plan: Arc::new(plan), table });
        if old.table.successor.set(Arc::clone(&new)).is_err() {
            return;
        }
        for bucket in 0..old.table.buckets() {
            old.table.move_bucket(bucket, &new.table, &new.plan, &old.plan, now);
        }
        self.core.store(new);
    }
}
