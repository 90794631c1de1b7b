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
mod builder;
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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub use acquire::{Acquire, Acquiring};
pub use builder::Builder;
pub(crate) use keyed::KeyedCore;
pub use pass::{Pass, Reason, Refused};
pub(crate) use saved::checksum;
pub use saved::{RestoreError, SavedState};
pub use sliced::{Slice, SlicedLimiter};

use crate::algorithm::{Entry, Status};
use crate::clock::ClockHandle;
use crate::decision::{Decision, Verdict};
use crate::limit::{Limit, LimitError};
use crate::plan::{Plan, Taking};
use crate::table::{KeyHash, Place};
use crate::time::Timestamp;
use crate::wait::WaitRoom;
use keyed::Keyed;
use unkeyed::Unkeyed;

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

/// What both kinds of limiter are inside.
pub(crate) struct Inner {
    /// Orders limiters, so that those who need several take them in one order.
    id: u64,
    store: Store,
    pub(crate) clock: ClockHandle,
    pub(crate) room: WaitRoom,
    /// Whether what passes have taken counts as out until they end.
    reservable: AtomicBool,
}

#[expect(clippy::large_enum_variant, reason = "one per limiter, and a box would be a detour on the fastest path")]
enum Store {
    Unkeyed(Unkeyed),
    Keyed(Keyed),
}

/// The key of a limiter without keys.
pub(crate) const NO_KEY: KeyHash = KeyHash(0);

/// How one try to take from a limiter went.
pub(crate) struct Tried {
    pub(crate) decision: Decision,
    /// What was taken, if it was admitted.
    pub(crate) taken: Option<Taking>,
}

impl Inner {
    fn new(store: Store, clock: ClockHandle, room: WaitRoom, reservable: bool) -> Arc<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let id = MADE.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { id, store, clock, room, reservable: AtomicBool::new(reservable) })
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn plan(&self) -> Arc<Plan> {
        match &self.store {
            Store::Unkeyed(state) => state.plan(),
            Store::Keyed(states) => Arc::clone(&states.core().plan),
        }
    }

    #[inline]
    pub(crate) fn hash(&self, key: &(impl Hash + ?Sized)) -> KeyHash {
        match &self.store {
            Store::Unkeyed(_) => NO_KEY,
            Store::Keyed(states) => crate::table::hash_with(states.seed(), key),
        }
    }

    /// Works on one key's state alone; `act` says whether it changed it.
    pub(crate) fn visit(
        &self,
        key: KeyHash,
        now: Timestamp,
        act: &mut dyn FnMut(&Arc<Plan>, &mut [u64]) -> bool,
    ) -> Place {
        match &self.store {
            Store::Unkeyed(state) => {
                state.visit(act);
                Place::Own
            }
            Store::Keyed(states) => states.visit(key, now, act),
        }
    }

    /// Works on the state something was taken from before.
    pub(crate) fn at_place(&self, key: KeyHash, place: Place, act: &mut dyn FnMut(&Arc<Plan>, &mut [u64])) {
        match &self.store {
            Store::Unkeyed(state) => state.visit(&mut |plan, words| {
                act(plan, words);
                true
            }),
            Store::Keyed(states) => states.at_place(key, place, act),
        }
    }

    /// Whether callers wait for this key; then nobody may pass them.
    #[inline]
    pub(crate) fn has_line(&self, key: KeyHash) -> bool {
        self.room.is_occupied() && self.room.has_line(key)
    }

    /// Decides without keeping hold of anything, for a limiter without keys.
    #[inline(always)]
    fn decide_unkeyed(&self, cost: u64) -> Decision {
        // The clock first: everything else is done while it is being read.
        let now = self.clock.now();
        match &self.store {
            Store::Unkeyed(state) if !self.room.is_occupied() => state.decide(now, cost),
            _ => self.decide_with_line(NO_KEY, cost),
        }
    }

    /// Decides without keeping hold of anything, for one key.
    #[inline(always)]
    fn decide_keyed(&self, key: &(impl Hash + ?Sized), cost: u64) -> Decision {
        match &self.store {
            Store::Keyed(states) if !self.room.is_occupied() => {
                let key = crate::table::hash_with(states.seed(), key);
                states.decide(key, &self.clock, cost)
            }
            _ => self.decide_with_line(self.hash(key), cost),
        }
    }

    /// [`Inner::decide_keyed`] for a key that has been hashed.
    fn decide_hashed(&self, key: KeyHash, cost: u64) -> Decision {
        match &self.store {
            Store::Keyed(states) if !self.room.is_occupied() => states.decide(key, &self.clock, cost),
            _ => self.decide_with_line(key, cost),
        }
    }

    /// Decides where somebody may be waiting.
    #[cold]
    #[inline(never)]
    fn decide_with_line(&self, key: KeyHash, cost: u64) -> Decision {
        if cost > 0 && self.has_line(key) {
            return self.behind_line(key, self.clock.now(), cost);
        }
        match &self.store {
            Store::Unkeyed(state) => state.decide(self.clock.now(), cost),
            Store::Keyed(states) => states.decide(key, &self.clock, cost),
        }
    }

    /// Decides and keeps hold of what was taken.
    pub(crate) fn take(&self, key: KeyHash, now: Timestamp, cost: u64, entry: Entry) -> Tried {
        let mut tried = Tried { decision: NO_STATE, taken: None };
        let place = self.visit(key, now, &mut |plan, state| {
            let ruling = plan.check(state, now, cost, entry);
            if ruling.admits() {
                plan.take(state, now, cost, self.is_reservable(), &mut tried.taken);
            }
            tried.decision = plan.decision(ruling, state, now);
            tried.taken.is_some() && cost > 0
        });
        if let Some(taking) = &mut tried.taken {
            taking.place = place;
        }
        tried
    }

    /// Ends what was taken with what it really cost.
    pub(crate) fn end(&self, key: KeyHash, taking: &Taking, actual: u64) {
        let now = self.clock.now();
        self.at_place(key, taking.place, &mut |plan, state| plan.end(state, taking, actual, now));
        match taking.place {
            Place::Own => self.room.wake(key),
            // Other keys share that state, and their callers may wait for it.
            Place::Strict => self.room.disturb(),
        }
    }

    /// The present core of a keyed limiter, for callers who ask often and can live with its being
    /// replaced.
    pub(crate) fn core(&self) -> Option<Arc<KeyedCore>> {
        match &self.store {
            Store::Unkeyed(_) => None,
            Store::Keyed(states) => Some(states.core()),
        }
    }

    /// [`Inner::visit`] for callers that know the core.
    pub(crate) fn visit_known(
        &self,
        core: Option<&KeyedCore>,
        key: KeyHash,
        now: Timestamp,
        act: &mut dyn FnMut(&Arc<Plan>, &mut [u64]) -> bool,
    ) -> Place {
        match (&self.store, core) {
            (Store::Keyed(states), Some(core)) => states.visit_known(core, key, now, act),
            _ => self.visit(key, now, act),
        }
    }

    pub(crate) fn is_reservable(&self) -> bool {
        self.reservable.load(Ordering::Relaxed)
    }

    /// The answer to a caller who does not want to wait while others do.
    #[cold]
    pub(crate) fn behind_line(&self, key: KeyHash, now: Timestamp, cost: u64) -> Decision {
        let (plan, mut state) = self.snapshot(key, now);
        let ruling = plan.check(&state, now, cost, Entry::Depart);
        let mut decision = plan.decision(ruling, &state, now);
        if !matches!(decision.verdict, Verdict::Never) {
            let turn = self.room.forecast(key, &plan, &mut state, now, cost);
            decision.verdict = Verdict::Denied { retry_after: turn.map(|turn| turn - now) };
        }
        decision
    }

    /// A copy of a key's state with the plan it belongs to.
    pub(crate) fn snapshot(&self, key: KeyHash, now: Timestamp) -> (Arc<Plan>, Vec<u64>) {
        let mut copy = None;
        self.visit(key, now, &mut |plan, state| {
            copy = Some((Arc::clone(plan), state.to_vec()));
            false
        });
        copy.unwrap_or_else(|| {
            let plan = self.plan();
            let words = plan.words();
            (plan, vec![0; words])
        })
    }

    fn statuses(&self, key: KeyHash) -> Vec<Status> {
        let now = self.clock.now();
        let (plan, state) = self.snapshot(key, now);
        plan.statuses(&state, now)
    }

    /// Exchanges the limits; the number of keys stays.
    pub(crate) fn change(&self, limits: Vec<Limit>) -> Result<(), LimitError> {
        self.rebuild(limits, self.is_reservable(), self.buckets())
    }

    /// Exchanges the limits, whether they are reservable, and how many buckets of keys there are.
    pub(crate) fn rebuild(&self, limits: Vec<Limit>, reservable: bool, buckets: usize) -> Result<(), LimitError> {
        let plan = Builder::plan(limits, reservable)?;
        let now = self.clock.now();
        match &self.store {
            Store::Unkeyed(state) => state.change(plan, now),
            Store::Keyed(states) => states.change(plan, buckets, now)?,
        }
        self.reservable.store(reservable, Ordering::Relaxed);
        self.room.disturb();
        Ok(())
    }

    pub(crate) fn forgotten(&self) -> u64 {
        match &self.store {
            Store::Unkeyed(_) => 0,
            Store::Keyed(states) => states.core().table.forgotten(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.store {
            Store::Unkeyed(_) => size_of::<Self>(),
            Store::Keyed(states) => states.core().table.bytes(),
        }
    }

    /// How many buckets of keys there are; none without keys.
    pub(crate) fn buckets(&self) -> usize {
        match &self.store {
            Store::Unkeyed(_) => 0,
            Store::Keyed(states) => states.core().table.buckets(),
        }
    }

    /// Forgets one key, but for what is held.
    pub(crate) fn forget(&self, key: KeyHash) {
        let now = self.clock.now();
        self.at_place(key, Place::Own, &mut |plan, state| plan.forgive(state, now));
        self.room.disturb();
    }

    /// The longest wait the clock alone imposes on a caller, whatever others hold.
    pub(crate) fn least_wait(&self, key: KeyHash, now: Timestamp, cost: u64) -> Duration {
        let (plan, state) = self.snapshot(key, now);
        plan.least_wait(&state, now, cost)
    }
}

/// Answered where a state could not be reached, which the table's construction rules out: refuse.
pub(crate) const NO_STATE: Decision = Decision {
    verdict: Verdict::Denied { retry_after: None },
    limit: 0,
    status: Status { limit: 0, remaining: 0, reset: 0 },
};

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

    /// What is left of each limit.
    pub fn status(&self) -> Vec<Status> {
        self.inner.statuses(NO_KEY)
    }

    /// The limits.
    pub fn limits(&self) -> Vec<Limit> {
        self.inner.plan().limits().to_vec()
    }

    /// Exchanges the limits while in use. What was left stays left; nothing is given for free.
    pub fn change(&self, limits: impl Into<Vec<Limit>>) -> Result<(), LimitError> {
        self.inner.change(limits.into())
    }

    /// Forgets everything but permits and reservations that are out: the limits are as if never used.
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

    /// Exchanges the limits of all keys while in use. What was left stays left; nothing is given for
    /// free.
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
