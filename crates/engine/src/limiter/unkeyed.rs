//! The state of an unkeyed limiter: one atomic word where that is enough, a locked row of words else.

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::batch::Share;
use super::word::{Moved, Take, Word};
use crate::algorithm::Check;
use crate::algorithm::gcra::{Gcra, nanos_covering, ticks};
use crate::clock::ClockHandle;
use crate::decision::Decision;
use crate::plan::Plan;
use crate::time::Timestamp;
use std::sync::Arc;

/// One state, replaceable while in use.
pub(crate) struct Unkeyed {
    first: Core,
    /// The state that counts once the first has been replaced.
    latest: ArcSwapOption<Core>,
    changing: Mutex<()>,
}

/// A plan with its state.
struct Core {
    plan: Arc<Plan>,
    state: State,
}

enum State {
    /// One token bucket, and what tells it from one that others had batches of.
    Word(Gcra, Word, u64),
    /// Anything else.
    Row(Mutex<Row>),
}

struct Row {
    words: SmallVec<[u64; 8]>,
    moved: bool,
}

impl Core {
    fn new(plan: Arc<Plan>, words: &[u64]) -> Self {
        let origin = plan.id();
        Self::succeeding(plan, words, 0, origin)
    }

    /// Takes over from a bucket of this origin, with the tokens that are out in batches. Limits of
    /// another kind do not count them.
    fn succeeding(plan: Arc<Plan>, words: &[u64], out: u64, origin: u64) -> Self {
        let state = match plan.single_bucket() {
            Some(bucket) => State::Word(bucket, Word::new(words[0], out), origin),
            None => State::Row(Mutex::new(Row { words: SmallVec::from_slice(words), moved: false })),
        };
        Self { plan, state }
    }

    /// Works on the state alone. Answers how many tokens are out in batches.
    fn visit(&self, now: Timestamp, act: &mut dyn FnMut(&Arc<Plan>, &mut [u64]) -> bool) -> Result<u64, Moved> {
        match &self.state {
            State::Word(bucket, word, _) => {
                let mut held = word.lock()?;
                held.catch_up(bucket, ticks(now));
                act(&self.plan, std::slice::from_mut(&mut held.arrival));
                Ok(held.out)
            }
            State::Row(row) => {
                let mut row = row.lock();
                if row.moved {
                    return Err(Moved);
                }
                act(&self.plan, &mut row.words);
                Ok(0)
            }
        }
    }

    /// Ends a batch and takes another. Only a single token bucket can be taken ahead of.
    fn exchange(&self, now: Timestamp, share: &mut Share, want: Option<u64>) -> Result<bool, Moved> {
        let State::Word(bucket, word, origin) = &self.state else {
            share.void();
            return Ok(false);
        };
        let mut held = word.lock()?;
        held.catch_up(bucket, ticks(now));
        share.end(bucket, &mut held, *origin);
        Ok(want.is_some_and(|cost| share.begin(bucket, &mut held, ticks(now), cost)))
    }

    fn decide(&self, now: Timestamp, cost: u64) -> Result<Decision, Moved> {
        match &self.state {
            State::Word(bucket, word, _) => decide_word(bucket, word, now, cost),
            State::Row(_) => {
                let mut decision = Err(Moved);
                self.visit(now, &mut |plan, state| {
                    decision = Ok(plan.decide(state, now, cost));
                    true
                })?;
                decision
            }
        }
    }
}

/// The fast path. Inlined into the caller, so that what it does not look at is not computed.
#[inline(always)]
fn decide_word(bucket: &Gcra, word: &Word, now: Timestamp, cost: u64) -> Result<Decision, Moved> {
    let now = ticks(now);
    if cost == 0 || cost > bucket.burst() {
        let check = if cost == 0 { Check::Now } else { Check::Never };
        return Ok(bucket.decision(check, word.read(bucket, now)?, now));
    }
    Ok(match word.take(bucket, now, cost)? {
        Take::Taken(arrival) => bucket.decision(Check::Now, arrival, now),
        Take::Early { arrival, .. } if is_out(bucket, word, cost) => bucket.decision(Check::Held, arrival, now),
        Take::Early { arrival, early } => bucket.decision(Check::NotBefore(nanos_covering(early)), arrival, now),
    })
}

/// Whether `cost`, at most a burst, has to wait for tokens that are out and not for the clock.
fn is_out(bucket: &Gcra, word: &Word, cost: u64) -> bool {
    word.out() > bucket.burst().saturating_sub(cost)
}

impl Unkeyed {
    pub(crate) fn new(plan: Plan, words: &[u64]) -> Self {
        Self { first: Core::new(Arc::new(plan), words), latest: ArcSwapOption::empty(), changing: Mutex::new(()) }
    }

    /// Runs `act` on the state that counts now.
    fn current<R>(&self, mut act: impl FnMut(&Core) -> Result<R, Moved>) -> R {
        if let Ok(result) = act(&self.first) {
            return result;
        }
        loop {
            // A successor is in place before the one before it says that it has moved.
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
        if let State::Word(bucket, word, _) = &self.first.state
            && let Ok(decision) = decide_word(bucket, word, now, cost)
        {
            return decision;
        }
        self.decide_current(now, cost)
    }

    #[inline(never)]
    fn decide_current(&self, now: Timestamp, cost: u64) -> Decision {
        self.current(|core| core.decide(now, cost))
    }

    /// Works on the state alone. Answers how many tokens are out in batches.
    pub(crate) fn visit(&self, now: Timestamp, act: &mut dyn FnMut(&Arc<Plan>, &mut [u64]) -> bool) -> u64 {
        self.current(|core| core.visit(now, act))
    }

    /// Ends a batch and takes another, if one is wanted and can be had.
    pub(super) fn exchange(&self, now: Timestamp, share: &mut Share, want: Option<u64>) -> bool {
        self.current(|core| core.exchange(now, share, want))
    }

    /// Whether `cost` has to wait for tokens that are out in batches and not for the clock.
    pub(super) fn is_out(&self, cost: u64) -> bool {
        self.current(|core| match &core.state {
            State::Word(bucket, word, _) => word.read(bucket, 0).map(|_| is_out(bucket, word, cost)),
            State::Row(_) => Ok(false),
        })
    }

    pub(crate) fn plan(&self) -> Arc<Plan> {
        match &*self.latest.load() {
            Some(core) => Arc::clone(&core.plan),
            None => Arc::clone(&self.first.plan),
        }
    }

    /// Replaces the plan; the state is carried over.
    pub(crate) fn change(&self, plan: Plan, clock: &ClockHandle) {
        let _alone = self.changing.lock();
        let latest = self.latest.load_full();
        let old = latest.as_deref().unwrap_or(&self.first);
        let plan = Arc::new(plan.succeeding(&old.plan));
        let succeed = |words: &[u64], now: Timestamp, out: u64, origin: u64| {
            let words = plan.adopt(&old.plan, words, now);
            self.latest.store(Some(Arc::new(Core::succeeding(Arc::clone(&plan), &words, out, origin))));
        };
        // The time is read with the state in hand: nothing can be taken after it.
        match &old.state {
            State::Word(bucket, word, origin) => {
                if let Ok(mut held) = word.lock() {
                    let now = clock.now();
                    held.catch_up(bucket, ticks(now));
                    succeed(&[held.arrival], now, held.out, *origin);
                    held.retire();
                }
            }
            State::Row(row) => {
                let mut row = row.lock();
                succeed(&row.words, clock.now(), 0, plan.id());
                row.moved = true;
            }
        }
    }
}
