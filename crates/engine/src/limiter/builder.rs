//! Builder of limiters.

use std::hash::Hash;
use std::sync::Arc;

use super::keyed::{KeyedCore, KeyedState};
use super::unkeyed::UnkeyedState;
use super::{KeyedLimiter, Limiter, LimiterCore, LimiterState, ShardedLimiter};
use crate::algorithm::TokenBucket;
use crate::clock::ClockHandle;
use crate::limit::{Limit, LimitError};
use crate::limit_set::LimitSet;
use crate::table::{Table, random_seed};
use crate::wait::{QueueCapacity, WaitQueue};

/// Builds a [`Limiter`], a [`KeyedLimiter`] or a [`ShardedLimiter`].
///
/// ```
/// use sluicegate_engine::{Limiter, Limit, Rate};
///
/// let limiter = Limiter::builder()
///     .limit(Limit::token_bucket(Rate::per_second(100)?, 200)?)
///     .limit(Limit::concurrency(50)?)
///     .max_waiting(1_000)
///     .build()?;
/// let permit = limiter.enter(1)?;
/// drop(permit); // releases the concurrency permit
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Builder {
    limits: Vec<Limit>,
    clock: ClockHandle,
    bounds: QueueCapacity,
    reservable: bool,
    seed: Option<u64>,
    drop_evicted: bool,
}

impl Builder {
    /// Adds a limit; a request must be admitted by all limits.
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Adds several limits.
    pub fn limits(mut self, limits: impl IntoIterator<Item = Limit>) -> Self {
        self.limits.extend(limits);
        self
    }

    /// Sets the clock; the system clock by default.
    pub fn clock(mut self, clock: impl Into<ClockHandle>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Maximum number of callers queued on one key in [`Limiter::acquire`]; 1,024 by default.
    pub fn max_waiting(mut self, callers: usize) -> Self {
        self.bounds.per_key = callers;
        self
    }

    /// Maximum number of queued callers over all keys; 65,536 by default.
    pub fn max_waiting_total(mut self, callers: usize) -> Self {
        self.bounds.total = callers;
        self
    }

    /// Counts the cost of a permit as reserved until it is settled or dropped, so that an estimate can be
    /// returned in full after any time. Costs one more word per key and token bucket.
    pub fn reservable(mut self) -> Self {
        self.reservable = true;
        self
    }

    /// Builds a limiter with one state for all requests.
    pub fn build(self) -> Result<Limiter, LimitError> {
        Ok(Limiter { inner: self.build_core()? })
    }

    /// Builds a limiter with one state per key, for at most `capacity` keys.
    pub fn build_keyed<K: Hash + ?Sized>(self, capacity: usize) -> Result<KeyedLimiter<K>, LimitError> {
        Ok(KeyedLimiter::from_core(self.build_keyed_core(Table::buckets_for(capacity)?)?))
    }

    /// Builds a token bucket that threads take tokens from in shares of `slice` tokens.
    pub fn build_sharded(self, bucket: TokenBucket, slice: u64) -> Result<ShardedLimiter, LimitError> {
        ShardedLimiter::new(bucket, slice, self.clock)
    }

    /// Hashes keys with this seed, so that several limiters can share a hash.
    pub(crate) fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Drops the state of evicted keys instead of merging it into the bucket's overflow slot.
    pub(crate) fn drop_evicted(mut self) -> Self {
        self.drop_evicted = true;
        self
    }

    pub(crate) fn build_core(self) -> Result<Arc<LimiterCore>, LimitError> {
        let limit_set = Self::build_limit_set(self.limits.clone(), self.reservable)?;
        Ok(self.finish(limit_set))
    }

    pub(crate) fn build_keyed_core(self, buckets: usize) -> Result<Arc<LimiterCore>, LimitError> {
        let limit_set = Self::build_limit_set(self.limits.clone(), self.reservable)?;
        let table = self.table(&limit_set, buckets, self.seed.unwrap_or_else(random_seed))?;
        Ok(self.build_with_state(LimiterState::Keyed(KeyedState::with_core(KeyedCore::new(limit_set, table)))))
    }

    pub(super) fn table(&self, limit_set: &LimitSet, buckets: usize, seed: u64) -> Result<Table, LimitError> {
        let table = Table::with_buckets(limit_set, buckets, seed)?;
        Ok(if self.drop_evicted { table.drop_evicted() } else { table })
    }

    pub(super) fn finish(self, limit_set: LimitSet) -> Arc<LimiterCore> {
        let zero = vec![0; limit_set.words()];
        let state = UnkeyedState::new(limit_set, &zero);
        self.build_with_state(LimiterState::Unkeyed(state))
    }

    pub(super) fn build_with_state(self, store: LimiterState) -> Arc<LimiterCore> {
        LimiterCore::new(store, self.clock, WaitQueue::new(self.bounds), self.reservable)
    }

    /// The configured limits, reservable if the limiter is.
    pub(super) fn configured_limits(&self) -> Vec<Limit> {
        let reservable = |limit: &Limit| if self.reservable { limit.reservable() } else { *limit };
        self.limits.iter().map(reservable).collect()
    }

    pub(super) fn now(&self) -> crate::time::Timestamp {
        self.clock.now()
    }

    pub(crate) fn build_limit_set(limits: Vec<Limit>, reservable: bool) -> Result<LimitSet, LimitError> {
        LimitSet::new(limits.into_iter().map(|limit| if reservable { limit.reservable() } else { limit }))
    }
}
