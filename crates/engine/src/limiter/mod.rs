//! Limiters: limits with their state.
//!
//! [`Limiter`] has one state for all requests; [`KeyedLimiter`] has one state per key in a fixed-size table.
//! Both decide all their limits all or nothing, with three kinds of calls:
//!
//! | call | returns | use |
//! |---|---|---|
//! | `check` | a [`Decision`], immediately | refuse requests over the limit |
//! | `enter` | a [`Permit`], immediately, or [`AcquireError`] | concurrency permits; costs settled later |
//! | `acquire` | a [`Permit`] after queueing | pace the caller instead of refusing |
//!
//! Limits can be replaced while in use with `change`; no key gets a new burst by that.
//!
//! ```
//! use sluicegate_engine::{KeyedLimiter, Limiter};
//!
//! let per_client: KeyedLimiter<str> = Limiter::builder()
//!     .limit("300/1m".parse()?)
//!     .limit("100/5s".parse()?)
//!     .build_keyed(100_000)?;
//! assert!(per_client.check("203.0.113.9").is_allowed());
//! assert!(per_client.check("198.51.100.7").is_allowed());
//! # Ok::<(), sluicegate_engine::LimitError>(())
//! ```

mod acquire;
mod atomic_bucket;
mod batch;
mod builder;
mod keyed;
mod limiter_core;
mod permit;
mod saved;
mod sharded;
mod unkeyed;
mod waiter;

use std::collections::VecDeque;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

pub use acquire::{Acquire, AcquireFuture};
pub use batch::TokenBatch;
pub use builder::Builder;
pub(crate) use keyed::KeyedCore;
pub(crate) use limiter_core::{LimiterCore, STATE_UNREACHABLE};
use limiter_core::{LimiterState, NO_KEY};
pub use permit::{AcquireError, OwnedPermit, Permit, RefusalReason};
pub(crate) use saved::checksum;
pub use saved::{RestoreError, SavedState};
pub use sharded::{LocalTokens, ShardedLimiter};
pub(crate) use waiter::{AcquireResult, QueueWaiter, QueuedAcquire};

use crate::algorithm::Status;
use crate::decision::Decision;
use crate::limit::{Limit, LimitError};
use crate::limit_set::LimitSet;
use crate::table::KeyHash;

/// Limiter with one state for all requests.
///
/// Clones share the state.
///
/// ```
/// use sluicegate_engine::{Limiter, Limit, Rate};
///
/// let limiter = Limiter::new(Limit::token_bucket(Rate::per_second(10)?, 20)?);
/// assert!(limiter.check().is_allowed());
/// assert_eq!(limiter.status()[0].remaining, 19);
/// # Ok::<(), sluicegate_engine::LimitError>(())
/// ```
#[derive(Clone)]
pub struct Limiter {
    inner: Arc<LimiterCore>,
}

/// Limiter with one state per key.
///
/// Keys are hashed and never stored; any hashable type can be a key. Clones share the state.
///
/// ```
/// use sluicegate_engine::{KeyedLimiter, Limiter};
///
/// let limiter: KeyedLimiter<str> = Limiter::builder().limit("1/1m".parse()?).build_keyed(1_000)?;
/// assert!(limiter.check("alice").is_allowed());
/// assert!(!limiter.check("alice").is_allowed());
/// assert!(limiter.check("bob").is_allowed());
/// # Ok::<(), sluicegate_engine::LimitError>(())
/// ```
pub struct KeyedLimiter<K: ?Sized> {
    inner: Arc<LimiterCore>,
    key: PhantomData<fn(&K)>,
}

impl Limiter {
    /// Creates a limiter with one limit and default settings.
    pub fn new(limit: Limit) -> Self {
        Self { inner: Builder::default().finish(LimitSet::single(limit)) }
    }

    /// Builder for several limits, keys, another clock, or queue bounds.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Decides one request.
    #[inline]
    pub fn check(&self) -> Decision {
        self.check_cost(1)
    }

    /// Decides a request of cost `cost`. A cost of zero only reads the state.
    ///
    /// Permits of a concurrency limit are taken and released immediately: to hold them, use
    /// [`Limiter::enter`].
    #[inline]
    pub fn check_cost(&self, cost: u64) -> Decision {
        self.inner.decide_unkeyed(cost)
    }

    /// Takes `cost` and returns a guard that holds the permits and can settle the cost.
    pub fn enter(&self, cost: u64) -> Result<Permit, AcquireError> {
        permit::enter(&self.inner, NO_KEY, cost)
    }

    /// Acquires a permit with FIFO queueing. See [`Acquire`].
    pub fn acquire(&self) -> Acquire {
        Acquire::new(Arc::clone(&self.inner), NO_KEY)
    }

    /// Creates a batch for taking tokens ahead. See [`TokenBatch`].
    pub fn batch(&self) -> TokenBatch {
        TokenBatch::new(Arc::clone(&self.inner))
    }

    /// Current status of each limit.
    pub fn status(&self) -> Vec<Status> {
        self.inner.statuses(NO_KEY)
    }

    /// The limits.
    pub fn limits(&self) -> Vec<Limit> {
        self.inner.limit_set().limits().to_vec()
    }

    /// Replaces the limits while in use. Usage of a window carries over to a window of the same length; for any
    /// other limit, the remaining quota carries over. No change gives extra quota.
    pub fn change(&self, limits: impl Into<Vec<Limit>>) -> Result<(), LimitError> {
        self.inner.change(limits.into())
    }

    /// Resets all state except held permits and reservations. Giving back a permit taken before the reset
    /// returns quota a second time.
    pub fn reset(&self) {
        self.inner.reset(NO_KEY);
    }

    /// Number of queued callers.
    pub fn waiting(&self) -> usize {
        self.inner.queue.waiting()
    }
}

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    pub(crate) fn from_core(inner: Arc<LimiterCore>) -> Self {
        Self { inner, key: PhantomData }
    }

    /// Decides one request of `key`.
    #[inline]
    pub fn check(&self, key: &K) -> Decision {
        self.check_cost(key, 1)
    }

    /// Decides a request of `key` of cost `cost`. A cost of zero only reads the state.
    ///
    /// Permits of a concurrency limit are taken and released immediately: to hold them, use
    /// [`KeyedLimiter::enter`].
    #[inline]
    pub fn check_cost(&self, key: &K, cost: u64) -> Decision {
        self.inner.decide_keyed(key, cost)
    }

    /// Decides one request for each of several keys, in order: the same as [`Self::check`] on each, but with
    /// the states of the next few keys prefetched. On a table larger than the CPU cache, memory latency is most
    /// of the cost of a decision.
    ///
    /// ```
    /// use sluicegate_engine::{KeyedLimiter, Limiter};
    ///
    /// let limiter: KeyedLimiter<str> = Limiter::builder().limit("1/1m".parse()?).build_keyed(1_000)?;
    /// let mut allowed = Vec::new();
    /// limiter.check_each(["alice", "bob", "alice"], |decision| allowed.push(decision.is_allowed()));
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), sluicegate_engine::LimitError>(())
    /// ```
    pub fn check_each<'k>(&self, keys: impl IntoIterator<Item = &'k K>, mut each: impl FnMut(Decision))
    where
        K: 'k,
    {
        /// Enough keys for memory to respond while earlier keys are decided.
        const PREFETCH_DISTANCE: usize = 8;
        let core = self.inner.keyed_core();
        let mut hashes = keys.into_iter().map(|key| {
            let hash = self.inner.hash(key);
            if let Some(core) = &core {
                core.prefetch(hash);
            }
            hash
        });
        let mut ahead: VecDeque<KeyHash> = hashes.by_ref().take(PREFETCH_DISTANCE).collect();
        while let Some(hash) = ahead.pop_front() {
            ahead.extend(hashes.next());
            each(self.inner.decide_hashed(hash, 1));
        }
    }

    /// Takes `cost` and returns a guard that holds the permits and can settle the cost.
    pub fn enter(&self, key: &K, cost: u64) -> Result<Permit, AcquireError> {
        permit::enter(&self.inner, self.inner.hash(key), cost)
    }

    /// Acquires a permit with FIFO queueing per key. See [`Acquire`].
    pub fn acquire(&self, key: &K) -> Acquire {
        Acquire::new(Arc::clone(&self.inner), self.inner.hash(key))
    }

    /// Current status of each limit for `key`.
    pub fn status(&self, key: &K) -> Vec<Status> {
        self.inner.statuses(self.inner.hash(key))
    }

    /// The limits.
    pub fn limits(&self) -> Vec<Limit> {
        self.inner.limit_set().limits().to_vec()
    }

    /// Replaces the limits of all keys while in use, like [`Limiter::change`].
    pub fn change(&self, limits: impl Into<Vec<Limit>>) -> Result<(), LimitError> {
        self.inner.change(limits.into())
    }

    /// Resets one key except for held permits and reservations. A key in an overflow slot, which it shares
    /// with others, is not reset.
    pub fn reset(&self, key: &K) {
        self.inner.reset(self.inner.hash(key));
    }

    /// Number of evictions of keys that had not recovered yet. More than a few mean that the capacity is too
    /// small or that a client floods the table with keys.
    pub fn early_evictions(&self) -> u64 {
        self.inner.early_evictions()
    }

    /// Memory of the table in bytes, independent of its use.
    pub fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    /// Number of queued callers over all keys.
    pub fn waiting(&self) -> usize {
        self.inner.queue.waiting()
    }
}

impl<K: ?Sized> Clone for KeyedLimiter<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), key: PhantomData }
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("limits", &self.limits()).finish_non_exhaustive()
    }
}

impl<K: ?Sized> fmt::Debug for KeyedLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.inner.limit_set();
        f.debug_struct("KeyedLimiter").field("limits", &limits.limits()).finish_non_exhaustive()
    }
}
