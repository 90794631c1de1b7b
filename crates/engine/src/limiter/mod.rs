//! Limiters: limits with their state, ready to be asked.
//!
//! [`Limiter`] counts everything together; [`KeyedLimiter`] counts each key apart in a table of fixed
//! size. Both decide all their limits at once, all or nothing, and both can be asked in three ways:
//!
//! | call | answers | for |
//! |---|---|---|
//! | `check` | a [`Decision`], at once | refuse what is over |
//! | `enter` | a [`Pass`], at once, or [`Refused`] | permits; costs that are settled later |
//! | `acquire` | a [`Pass`] when the turn comes | pace the caller instead of refusing |
//!
//! Limits can be exchanged while in use with `change`: no key gets a new burst by it.
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
mod batch;
mod builder;
mod inner;
mod keyed;
mod pass;
mod saved;
mod sliced;
mod unkeyed;
mod word;

use std::collections::VecDeque;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

pub use acquire::{Acquire, Acquiring};
pub use batch::Batch;
pub use builder::Builder;
pub(crate) use inner::{Inner, NO_STATE};
use inner::{NO_KEY, Store};
pub(crate) use keyed::KeyedCore;
pub use pass::{Held, Pass, Reason, Refused};
pub(crate) use saved::checksum;
pub use saved::{RestoreError, SavedState};
pub use sliced::{Slice, SlicedLimiter};

use crate::algorithm::Status;
use crate::decision::Decision;
use crate::limit::{Limit, LimitError};
use crate::plan::Plan;
use crate::table::KeyHash;

/// Limits that count everything together.
///
/// Clones share one state.
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
    inner: Arc<Inner>,
}

/// Limits that count each key apart.
///
/// Keys are hashed and never stored; anything that can be hashed can be one. Clones share one state.
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
    inner: Arc<Inner>,
    key: PhantomData<fn(&K)>,
}

impl Limiter {
    /// A limiter with one limit and everything else as usual.
    pub fn new(limit: Limit) -> Self {
        Self { inner: Builder::default().finish(Plan::of_one(limit)) }
    }

    /// Several limits, keys, an own clock, bounds on waiting.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Decides about one request.
    #[inline]
    pub fn check(&self) -> Decision {
        self.check_cost(1)
    }

    /// Decides about a request that costs `cost`. A cost of zero looks and takes nothing.
    ///
    /// Permits of a concurrency limit are taken and given back at once: to hold them, use
    /// [`Limiter::enter`].
    #[inline]
    pub fn check_cost(&self, cost: u64) -> Decision {
        self.inner.decide_unkeyed(cost)
    }

    /// Takes `cost` and answers the guard that can settle it and holds the permits.
    pub fn enter(&self, cost: u64) -> Result<Pass, Refused> {
        pass::enter(&self.inner, NO_KEY, cost)
    }

    /// Waits for a turn, first in, first out. See [`Acquire`].
    pub fn acquire(&self) -> Acquire {
        Acquire::new(Arc::clone(&self.inner), NO_KEY)
    }

    /// A way to take tokens ahead and spend them one by one without asking again. See [`Batch`].
    pub fn batch(&self) -> Batch {
        Batch::new(Arc::clone(&self.inner))
    }

    /// What is left of each limit.
    pub fn status(&self) -> Vec<Status> {
        self.inner.statuses(NO_KEY)
    }

    /// The limits.
    pub fn limits(&self) -> Vec<Limit> {
        self.inner.plan().limits().to_vec()
    }

    /// Exchanges the limits while in use. What was taken from a window stays taken if the new one is as long; of
    /// anything else, what was left stays left. Nothing is given for free.
    pub fn change(&self, limits: impl Into<Vec<Limit>>) -> Result<(), LimitError> {
        self.inner.change(limits.into())
    }

    /// Forgets everything but permits and reservations that are out: the limits are as if never used. A
    /// pass from before that is given back afterwards gives back once more what was forgotten.
    pub fn reset(&self) {
        self.inner.forget(NO_KEY);
    }

    /// How many callers wait.
    pub fn waiting(&self) -> usize {
        self.inner.room.waiting()
    }
}

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    pub(crate) fn from_inner(inner: Arc<Inner>) -> Self {
        Self { inner, key: PhantomData }
    }

    /// Decides about one request of `key`.
    #[inline]
    pub fn check(&self, key: &K) -> Decision {
        self.check_cost(key, 1)
    }

    /// Decides about a request of `key` that costs `cost`. A cost of zero looks and takes nothing.
    ///
    /// Permits of a concurrency limit are taken and given back at once: to hold them, use
    /// [`KeyedLimiter::enter`].
    #[inline]
    pub fn check_cost(&self, key: &K, cost: u64) -> Decision {
        self.inner.decide_keyed(key, cost)
    }

    /// Decides about one request of each of several keys, in their order: the same as [`Self::check`] on
    /// each, but the states of a few keys ahead are fetched from memory meanwhile. On a table larger than
    /// the processor's cache that is most of what a decision waits for.
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
        /// Enough for memory to answer while the others are decided.
        const AHEAD: usize = 8;
        let core = self.inner.core();
        let mut hashes = keys.into_iter().map(|key| {
            let hash = self.inner.hash(key);
            if let Some(core) = &core {
                core.prefetch(hash);
            }
            hash
        });
        let mut ahead: VecDeque<KeyHash> = hashes.by_ref().take(AHEAD).collect();
        while let Some(hash) = ahead.pop_front() {
            ahead.extend(hashes.next());
            each(self.inner.decide_hashed(hash, 1));
        }
    }

    /// Takes `cost` and answers the guard that can settle it and holds the permits.
    pub fn enter(&self, key: &K, cost: u64) -> Result<Pass, Refused> {
        pass::enter(&self.inner, self.inner.hash(key), cost)
    }

    /// Waits for a turn, first in, first out per key. See [`Acquire`].
    pub fn acquire(&self, key: &K) -> Acquire {
        Acquire::new(Arc::clone(&self.inner), self.inner.hash(key))
    }

    /// What is left of each limit for `key`.
    pub fn status(&self, key: &K) -> Vec<Status> {
        self.inner.statuses(self.inner.hash(key))
    }

    /// The limits.
    pub fn limits(&self) -> Vec<Limit> {
        self.inner.plan().limits().to_vec()
    }

    /// Exchanges the limits of all keys while in use, as [`Limiter::change`] does.
    pub fn change(&self, limits: impl Into<Vec<Limit>>) -> Result<(), LimitError> {
        self.inner.change(limits.into())
    }

    /// Forgets one key, which then is as if never seen, but for what it holds. A key that shares the
    /// strict slot with others stays as it is.
    pub fn reset(&self, key: &K) {
        self.inner.forget(self.inner.hash(key));
    }

    /// How often a key was forgotten before it had recovered, because its place was needed. More than
    /// a few mean that the capacity is too small or that somebody floods it with keys.
    pub fn forgotten_early(&self) -> u64 {
        self.inner.forgotten()
    }

    /// Memory taken by the keys' states, whether used or not.
    pub fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    /// How many callers wait, over all keys.
    pub fn waiting(&self) -> usize {
        self.inner.room.waiting()
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
        let limits = self.inner.plan();
        f.debug_struct("KeyedLimiter").field("limits", &limits.limits()).finish_non_exhaustive()
    }
}
