//! The state of an unkeyed limiter: one atomic word where that is enough, a locked row of words else.

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use smallvec::SmallVec;

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
    /// One token bucket.
    Word(Gcra, Word),
    /// Anything else.
    Row(Mutex<Row>),
}

struct Row {
    words: SmallVec<[u64; 8]>,
    moved: bool,
}

impl Core {
    fn new(plan: Arc<Plan>, words: &[u64]) -> Self {
        let state = match plan.single_bucket() {
            Some(bucket) => State::Word(bucket, Word::new(words[0])),
            None => State::Row(Mutex::new(Row { words: SmallVec::from_slice(words), moved: false })),
        };
        Self { plan, state }
    }

    /// Works on the state alone.
    fn visit(&self, act: &mut dyn FnMut(&Arc<Plan>, &mut [u64]) -> bool) -> Result<(), Moved> {
        match &self.state {
            State::Word(_, word) => {
                let mut held = word.lock()?;
                act(&self.plan, std::slice::from_mut(&mut held.arrival));
            }
            State::Row(row) => {
                let mut row = row.lock();
                if row.moved {
                    return Err(Moved);
                }
                act(&self.plan, &mut row.words);
            }
        }
        Ok(())
    }

    fn decide(&self, now: Timestamp, cost: u64) -> Result<Decision, Moved> {
        match &self.state {
            State::Word(bucket, word) => decide_word(bucket, word, now, cost),
            State::Row(_) => {
                let mut decision = Err(Moved);
                self.visit(&mut |plan, state| {
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
        return Ok(bucket.decision(check, word.read()?, now));
    }
    Ok(match word.take(bucket, now, cost)? {
        Take::Taken(arrival) => bucket.decision(Check::Now, arrival, now),
        Take::Early { arrival, early } => bucket.decision(Check::NotBefore(nanos_covering(early)), arrival, now),
    })
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
        if let State::Word(bucket, word) = &self.first.state
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

    pub(crate) fn visit(&self, act: &mut dyn FnMut(&Arc<Plan>, &mut [u64]) -> bool) {
        self.current(|core| core.visit(act));
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
        let succeed = |words: &[u64]| {
            // The time is read with the state in hand: nothing can be taken after it.
            let words = plan.adopt(&old.plan, words, clock.now());
            self.latest.store(Some(Arc::new(Core::new(Arc::clone(&plan), &words))));
        };
        match &old.state {
            State::Word(_, word) => {
                if let Ok(held) = word.lock() {
                    succeed(&[held.arrival]);
                    held.retire();
                }
            }
            State::Row(row) => {
                let mut row = row.lock();
                succeed(&row.words);
                row.moved = true;
            }
        }
    }
}
