//! State of an unkeyed limiter: one atomic token bucket if possible, else words behind a lock.

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::atomic_bucket::{AtomicBucket, BucketMoved, TakeOutcome};
use super::batch::BatchTokens;
use crate::algorithm::Check;
use crate::algorithm::gcra::{Gcra, nanos_covering, ticks};
use crate::clock::ClockHandle;
use crate::decision::Decision;
use crate::limit_set::LimitSet;
use crate::time::Timestamp;
use std::sync::Arc;

/// State that can be replaced while in use.
pub(crate) struct UnkeyedState {
    initial: UnkeyedCore,
    /// Current state once the initial one has been replaced.
    latest: ArcSwapOption<UnkeyedCore>,
    change_lock: Mutex<()>,
}

/// Limit set with its state.
struct UnkeyedCore {
    limit_set: Arc<LimitSet>,
    state: CoreState,
}

enum CoreState {
    /// Single token bucket; the number identifies the bucket that batches were taken from.
    Atomic(Gcra, AtomicBucket, u64),
    /// Any other limit set.
    Locked(Mutex<LockedWords>),
}

struct LockedWords {
    words: SmallVec<[u64; 8]>,
    moved: bool,
}

impl UnkeyedCore {
    fn new(limit_set: Arc<LimitSet>, words: &[u64]) -> Self {
        let origin = limit_set.id();
        Self::succeed(limit_set, words, 0, origin)
    }

    /// Replaces a bucket of this origin and takes over its outstanding tokens. Limits of another kind do not
    /// count them.
    fn succeed(limit_set: Arc<LimitSet>, words: &[u64], outstanding: u64, origin: u64) -> Self {
        let state = match limit_set.single_bucket() {
            Some(bucket) => CoreState::Atomic(bucket, AtomicBucket::new(words[0], outstanding), origin),
            None => CoreState::Locked(Mutex::new(LockedWords { words: SmallVec::from_slice(words), moved: false })),
        };
        Self { limit_set, state }
    }

    /// Calls `act` with exclusive access to the state. Returns the number of tokens outstanding in batches.
    fn with_state(
        &self,
        now: Timestamp,
        act: &mut dyn FnMut(&Arc<LimitSet>, &mut [u64]) -> bool,
    ) -> Result<u64, BucketMoved> {
        match &self.state {
            CoreState::Atomic(bucket, word, _) => {
                let mut locked = word.lock()?;
                locked.catch_up(bucket, ticks(now));
                act(&self.limit_set, std::slice::from_mut(&mut locked.arrival));
                Ok(locked.outstanding)
            }
            CoreState::Locked(row) => {
                let mut row = row.lock();
                if row.moved {
                    return Err(BucketMoved);
                }
                act(&self.limit_set, &mut row.words);
                Ok(0)
            }
        }
    }

    /// Settles a batch and takes another. Only a single token bucket supports batches.
    fn exchange(&self, now: Timestamp, tokens: &mut BatchTokens, requested: Option<u64>) -> Result<bool, BucketMoved> {
        let CoreState::Atomic(bucket, word, origin) = &self.state else {
            tokens.clear();
            return Ok(false);
        };
        let mut locked = word.lock()?;
        locked.catch_up(bucket, ticks(now));
        tokens.settle(bucket, &mut locked, *origin);
        Ok(requested.is_some_and(|cost| tokens.reserve(bucket, &mut locked, ticks(now), cost)))
    }

    fn decide(&self, now: Timestamp, cost: u64) -> Result<Decision, BucketMoved> {
        match &self.state {
            CoreState::Atomic(bucket, word, _) => decide_atomic(bucket, word, now, cost),
            CoreState::Locked(_) => {
                let mut decision = Err(BucketMoved);
                self.with_state(now, &mut |limit_set, state| {
                    decision = Ok(limit_set.decide(state, now, cost));
                    true
                })?;
                decision
            }
        }
    }
}

/// Fast path. Inlined, so that parts of the decision the caller ignores are not computed.
#[inline(always)]
fn decide_atomic(bucket: &Gcra, word: &AtomicBucket, now: Timestamp, cost: u64) -> Result<Decision, BucketMoved> {
    let now = ticks(now);
    if cost == 0 || cost > bucket.burst() {
        let check = if cost == 0 { Check::Now } else { Check::Never };
        return Ok(bucket.decision(check, word.read(bucket, now)?, now));
    }
    Ok(match word.take(bucket, now, cost)? {
        TakeOutcome::Taken(arrival) => bucket.decision(Check::Now, arrival, now),
        TakeOutcome::TooEarly { arrival, .. } if waits_for_batches(bucket, word, cost) => {
            bucket.decision(Check::Held, arrival, now)
        }
        TakeOutcome::TooEarly { arrival, early } => {
            bucket.decision(Check::NotBefore(nanos_covering(early)), arrival, now)
        }
    })
}

/// True if `cost`, at most a burst, has to wait for outstanding tokens and not for the refill.
fn waits_for_batches(bucket: &Gcra, word: &AtomicBucket, cost: u64) -> bool {
    word.outstanding() > bucket.burst().saturating_sub(cost)
}

impl UnkeyedState {
    pub(crate) fn new(limit_set: LimitSet, words: &[u64]) -> Self {
        Self {
            initial: UnkeyedCore::new(Arc::new(limit_set), words),
            latest: ArcSwapOption::empty(),
            change_lock: Mutex::new(()),
        }
    }

    /// Runs `act` on the current state.
    fn with_current<R>(&self, mut act: impl FnMut(&UnkeyedCore) -> Result<R, BucketMoved>) -> R {
        if let Ok(result) = act(&self.initial) {
            return result;
        }
        loop {
            // A successor is stored before its predecessor reports that it has moved.
            if let Some(core) = &*self.latest.load()
                && let Ok(result) = act(core)
            {
                return result;
            }
            std::hint::spin_loop();
        }
    }

    #[inline(always)]
    pub(crate) fn decide(&self, now: Timestamp, cost: u64) -> Decision {
        if let CoreState::Atomic(bucket, word, _) = &self.initial.state
            && let Ok(decision) = decide_atomic(bucket, word, now, cost)
        {
            return decision;
        }
        self.decide_current(now, cost)
    }

    #[inline(never)]
    fn decide_current(&self, now: Timestamp, cost: u64) -> Decision {
        self.with_current(|core| core.decide(now, cost))
    }

    /// Calls `act` with exclusive access to the state. Returns the number of tokens outstanding in batches.
    pub(crate) fn with_state(&self, now: Timestamp, act: &mut dyn FnMut(&Arc<LimitSet>, &mut [u64]) -> bool) -> u64 {
        self.with_current(|core| core.with_state(now, act))
    }

    /// Settles a batch and takes another if one is wanted and available.
    pub(super) fn exchange(&self, now: Timestamp, tokens: &mut BatchTokens, requested: Option<u64>) -> bool {
        self.with_current(|core| core.exchange(now, tokens, requested))
    }

    /// True if `cost` has to wait for tokens outstanding in batches and not for the refill.
    pub(super) fn waits_for_batches(&self, cost: u64) -> bool {
        self.with_current(|core| match &core.state {
            CoreState::Atomic(bucket, word, _) => word.read(bucket, 0).map(|_| waits_for_batches(bucket, word, cost)),
            CoreState::Locked(_) => Ok(false),
        })
    }

    pub(crate) fn limit_set(&self) -> Arc<LimitSet> {
        match &*self.latest.load() {
            Some(core) => Arc::clone(&core.limit_set),
            None => Arc::clone(&self.initial.limit_set),
        }
    }

    /// Replaces the limit set; the state is carried over.
    pub(crate) fn change(&self, limit_set: LimitSet, clock: &ClockHandle) {
        let _guard = self.change_lock.lock();
        let latest = self.latest.load_full();
        let old = latest.as_deref().unwrap_or(&self.initial);
        let limit_set = Arc::new(limit_set.with_lineage_of(&old.limit_set));
        let succeed = |words: &[u64], now: Timestamp, out: u64, origin: u64| {
            let words = limit_set.migrate(&old.limit_set, words, now);
            self.latest.store(Some(Arc::new(UnkeyedCore::succeed(Arc::clone(&limit_set), &words, out, origin))));
        };
        // Read the time while holding the state: nothing can be taken after it.
        match &old.state {
            CoreState::Atomic(bucket, word, origin) => {
                if let Ok(mut locked) = word.lock() {
                    let now = clock.now();
                    locked.catch_up(bucket, ticks(now));
                    succeed(&[locked.arrival], now, locked.outstanding, *origin);
                    locked.retire();
                }
            }
            CoreState::Locked(row) => {
                let mut row = row.lock();
                succeed(&row.words, clock.now(), 0, limit_set.id());
                row.moved = true;
            }
        }
    }
}
