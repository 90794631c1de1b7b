//! How a limiter is made.

use std::hash::Hash;
use std::sync::Arc;

use super::keyed::{Keyed, KeyedCore};
use super::unkeyed::Unkeyed;
use super::{Inner, KeyedLimiter, Limiter, SlicedLimiter, Store};
use crate::algorithm::TokenBucket;
use crate::clock::ClockHandle;
use crate::limit::{Limit, LimitError};
use crate::plan::Plan;
use crate::table::{Table, random_seed};
use crate::wait::{Bounds, WaitRoom};

/// Collects what a limiter needs.
///
/// ```
/// use sluicegate_engine::{Limiter, Limit, Rate};
///
/// let limiter = Limiter::builder()
///     .limit(Limit::token_bucket(Rate::per_second(100)?, 200)?)
///     .limit(Limit::concurrency(50)?)
///     .max_waiting(1_000)
///     .build()?;
/// let pass = limiter.enter(1)?;
/// drop(pass); // leaves: the permit goes back
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Builder {
    limits: Vec<Limit>,
    clock: ClockHandle,
    bounds: Bounds,
    reservable: bool,
    seed: Option<u64>,
    lenient: bool,
}

impl Builder {
    /// Adds a limit; all of them must admit a request.
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Adds several limits.
    pub fn limits(mut self, limits: impl IntoIterator<Item = Limit>) -> Self {
        self.limits.extend(limits);
        self
    }

    /// Takes the time from another clock than the system's.
    pub fn clock(mut self, clock: impl Into<ClockHandle>) -> Self {
        self.clock = clock.into();
        self
    }

    /// How many may wait on one key in [`Limiter::acquire`]; 1,024 unless told otherwise.
    pub fn max_waiting(mut self, callers: usize) -> Self {
        self.bounds.per_key = callers;
        self
    }

    /// How many may wait over all keys; 65,536 unless told otherwise.
    pub fn max_waiting_total(mut self, callers: usize) -> Self {
        self.bounds.total = callers;
        self
    }

    /// Counts what passes have taken as out until they are settled or dropped, so that an estimate
    /// can be given back in full however long it was out. Costs one more word per key and token
    /// bucket.
    pub fn reservable(mut self) -> Self {
        self.reservable = true;
        self
    }

    /// A limiter that counts everything together.
    pub fn build(self) -> Result<Limiter, LimitError> {
        Ok(Limiter { inner: self.build_inner()? })
    }

    /// A limiter that counts each key apart and remembers `capacity` of them, and never more.
    pub fn build_keyed<K: Hash + ?Sized>(self, capacity: usize) -> Result<KeyedLimiter<K>, LimitError> {
        Ok(KeyedLimiter::from_inner(self.build_keyed_inner(Table::buckets_for(capacity)?)?))
    }

    /// A token bucket handed out to threads in slices of `slice` tokens.
    pub fn build_sliced(self, bucket: TokenBucket, slice: u64) -> Result<SlicedLimiter, LimitError> {
        SlicedLimiter::new(bucket, slice, self.clock)
    }

    /// Hashes keys with this seed, so that several limiters can share a hash.
    pub(crate) fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Forgets keys without a trace when there is no room, instead of being strict with strangers.
    pub(crate) fn lenient(mut self) -> Self {
        self.lenient = true;
        self
    }

    pub(crate) fn build_inner(self) -> Result<Arc<Inner>, LimitError> {
        let plan = Self::plan(self.limits.clone(), self.reservable)?;
        Ok(self.finish(plan))
    }

    pub(crate) fn build_keyed_inner(self, buckets: usize) -> Result<Arc<Inner>, LimitError> {
        let plan = Self::plan(self.limits.clone(), self.reservable)?;
        let table = self.table(&plan, buckets, self.seed.unwrap_or_else(random_seed))?;
        Ok(self.inner(Store::Keyed(Keyed::with_core(KeyedCore::new(plan, table)))))
    }

    pub(super) fn table(&self, plan: &Plan, buckets: usize, seed: u64) -> Result<Table, LimitError> {
        let table = Table::with_buckets(plan, buckets, seed)?;
        Ok(if self.lenient { table.lenient() } else { table })
    }

    pub(super) fn finish(self, plan: Plan) -> Arc<Inner> {
        let zero = vec![0; plan.words()];
        let state = Unkeyed::new(plan, &zero);
        self.inner(Store::Unkeyed(state))
    }

    pub(super) fn inner(self, store: Store) -> Arc<Inner> {
        Inner::new(store, self.clock, WaitRoom::new(self.bounds), self.reservable)
    }

    /// The limits asked for, as a limiter keeps them.
    pub(super) fn wanted(&self) -> Vec<Limit> {
        let reservable = |limit: &Limit| if self.reservable { limit.reservable() } else { *limit };
        self.limits.iter().map(reservable).collect()
    }

    pub(super) fn now(&self) -> crate::time::Timestamp {
        self.clock.now()
    }

    pub(crate) fn plan(limits: Vec<Limit>, reservable: bool) -> Result<Plan, LimitError> {
        Plan::new(limits.into_iter().map(|limit| if reservable { limit.reservable() } else { limit }))
    }
}
