//! A store on paper: counts with the engine's own limiters, and answers when and how the test says.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use sluicegate_engine::algorithm::{Check, Status};
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::fleet::{
    Answer, Asked, FleetLimits, FleetMark, FleetSaid, FleetStore, FleetTaken, Granted, StoreLost, Want, Wants,
};
use sluicegate_engine::rule::Rule;
use sluicegate_engine::{Decision, KeyedLimiter, Limit, LimitError, Limiter, Pass, Timestamp};

/// How the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Now,
    /// When [`PaperStore::deliver`] is called.
    Later,
    Lost,
}

/// A rule's name, a key and a cost.
type AskedFor = (String, Vec<u8>, u64);

/// What the test sees of the store.
pub(crate) struct PaperStore {
    clock: ManualClock,
    pub(crate) manner: Mutex<Manner>,
    pub(crate) nodes: AtomicU32,
    rules: Mutex<HashMap<String, Arc<PaperLimits>>>,
    pub(crate) asked: Mutex<Vec<Vec<AskedFor>>>,
    /// What was ended, with its actual costs.
    pub(crate) ended: Arc<Mutex<Vec<Vec<u64>>>>,
    due: Arc<Mutex<Due>>,
}

#[derive(Debug, Default)]
struct Due {
    delivered: bool,
    wakers: Vec<Waker>,
    /// Questions dropped before they were answered.
    dropped: u32,
    /// Questions whose answers somebody waits for.
    looked_at: u32,
}

#[derive(Debug)]
pub(crate) struct PaperLimits {
    name: String,
    has_permits: bool,
    counts: KeyedLimiter<Vec<u8>>,
    /// Tokens this process may spend at once, by nobody's leave.
    pub(crate) slice: Mutex<Option<u64>>,
    pub(crate) settled: Mutex<Vec<(u64, u64)>>,
    /// How many more times it is refused at once, for a second.
    pub(crate) refusals: AtomicU32,
}

impl fmt::Debug for PaperStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PaperStore")
    }
}

impl PaperStore {
    pub(crate) fn new(clock: &ManualClock) -> Arc<Self> {
        Arc::new(Self {
            clock: clock.clone(),
            manner: Mutex::new(Manner::Now),
            nodes: AtomicU32::new(1),
            rules: Mutex::default(),
            asked: Mutex::default(),
            ended: Arc::default(),
            due: Arc::default(),
        })
    }

    pub(crate) fn answers(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    /// Lets every open question be answered.
    pub(crate) fn deliver(&self) {
        let mut due = self.due.lock().unwrap();
        due.delivered = true;
        due.wakers.drain(..).for_each(Waker::wake);
    }

    pub(crate) fn dropped(&self) -> u32 {
        self.due.lock().unwrap().dropped
    }

    /// How many questions somebody has begun to wait for.
    pub(crate) fn looked_at(&self) -> u32 {
        self.due.lock().unwrap().looked_at
    }

    pub(crate) fn rule(&self, name: &str) -> Arc<PaperLimits> {
        Arc::clone(&self.rules.lock().unwrap()[name])
    }

    fn take(&self, wants: &Wants) -> Granted {
        let limits = |want: &Want| {
            let limits: &dyn Any = &*want.limits;
            Arc::clone(&self.rules.lock().unwrap()[&limits.downcast_ref::<PaperLimits>().unwrap().name])
        };
        let entered: Vec<Result<Pass, Decision>> = wants
            .iter()
            .map(|want| limits(want).counts.enter(&want.key.as_bytes().to_vec(), want.cost).map_err(|no| no.decision))
            .collect();
        let said = entered.iter().map(|entered| match entered {
            Ok(pass) => FleetSaid::from_decision(*pass.decision()),
            Err(decision) => FleetSaid::from_decision(*decision),
        });
        let said = said.collect();
        let passes: Option<Vec<Pass>> = entered.into_iter().map(Result::ok).collect();
        let taken = passes.map(|passes| -> Box<dyn FleetTaken> {
            let held = wants.iter().any(|want| limits(want).has_permits);
            Box::new(PaperTaken { passes, held, ended: Arc::clone(&self.ended) })
        });
        Granted { said, taken }
    }
}

/// From a decision of the engine to what a store says.
trait FromDecision {
    fn from_decision(decision: Decision) -> Self;
}

impl FromDecision for FleetSaid {
    fn from_decision(decision: Decision) -> Self {
        Self { check: decision.verdict.into(), limit: decision.limit, status: decision.status }
    }
}

impl FleetStore for PaperStore {
    fn open(&self, rule: &Rule, _seed: u64) -> Result<Arc<dyn FleetLimits>, LimitError> {
        if rule.limits.iter().any(|limit| matches!(limit, Limit::WarmUp(_))) {
            return Err(LimitError::NoLimits);
        }
        let mut rules = self.rules.lock().unwrap();
        if let Some(known) = rules.get(&rule.name) {
            known.counts.change(rule.limits.clone())?;
            return Ok(Arc::clone(known) as Arc<dyn FleetLimits>);
        }
        let builder = Limiter::builder().limits(rule.limits.clone()).clock(self.clock.clone());
        let counts = builder.build_keyed(1_000)?;
        let limits = Arc::new(PaperLimits {
            name: rule.name.clone(),
            has_permits: rule.limits.iter().any(Limit::is_concurrency),
            counts,
            slice: Mutex::default(),
            settled: Mutex::default(),
            refusals: AtomicU32::new(0),
        });
        rules.insert(rule.name.clone(), Arc::clone(&limits));
        Ok(limits)
    }

    fn ask(&self, wants: Wants) -> Asked {
        let names = wants.iter().map(|want| {
            let limits: &dyn Any = &*want.limits;
            let name = limits.downcast_ref::<PaperLimits>().unwrap().name.clone();
            (name, want.key.as_bytes().to_vec(), want.cost)
        });
        self.asked.lock().unwrap().push(names.collect());
        match *self.manner.lock().unwrap() {
            Manner::Now => Asked::Now(Ok(self.take(&wants))),
            Manner::Lost => Asked::Now(Err(StoreLost)),
            Manner::Later => {
                self.due.lock().unwrap().delivered = false;
                let mut open = Open { due: Arc::clone(&self.due), answer: Some(Ok(self.take(&wants))) };
                let mut is_first = true;
                Asked::Later(Box::pin(poll_fn(move |context| {
                    let due = Arc::clone(&open.due);
                    let mut due = due.lock().unwrap();
                    due.looked_at += u32::from(std::mem::take(&mut is_first));
                    if due.delivered {
                        return Poll::Ready(open.answer.take().unwrap());
                    }
                    due.wakers.push(context.waker().clone());
                    Poll::Pending
                })))
            }
        }
    }

    fn nodes(&self) -> u32 {
        self.nodes.load(Ordering::SeqCst)
    }
}

/// A question on its way; dropped unanswered, what it took goes back.
struct Open {
    due: Arc<Mutex<Due>>,
    answer: Option<Answer>,
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(Ok(granted)) = self.answer.take() {
            self.due.lock().unwrap().dropped += 1;
            if let Some(taken) = granted.taken {
                taken.end(&[0, 0, 0, 0]);
            }
        }
    }
}

impl FleetLimits for PaperLimits {
    fn at_once(&self, _key: u64, cost: u64, _now: Timestamp) -> Option<(FleetSaid, FleetMark)> {
        if self.refusals.load(Ordering::SeqCst) > 0 {
            self.refusals.fetch_sub(1, Ordering::SeqCst);
            let said = FleetSaid { check: Check::NotBefore(1_000_000_000), limit: 0, status: Status::default() };
            return Some((said, FleetMark::default()));
        }
        let mut slice = self.slice.lock().unwrap();
        let left = (*slice)?.checked_sub(cost)?;
        *slice = Some(left);
        let status = Status { limit: 9, remaining: left, reset: 0 };
        Some((FleetSaid { check: Check::Now, limit: 0, status }, FleetMark([7, left])))
    }

    fn settle(&self, _key: u64, taken: u64, actual: u64, mark: FleetMark) {
        assert_eq!(mark.0[0], 7, "the mark it was taken with");
        self.settled.lock().unwrap().push((taken, actual));
        if let Some(slice) = &mut *self.slice.lock().unwrap() {
            *slice = (*slice + taken).saturating_sub(actual);
        }
    }
}

#[derive(Debug)]
struct PaperTaken {
    passes: Vec<Pass>,
    held: bool,
    ended: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl FleetTaken for PaperTaken {
    fn is_held(&self) -> bool {
        self.held
    }

    fn end(self: Box<Self>, actual: &[u64]) {
        self.ended.lock().unwrap().push(actual[..self.passes.len()].to_vec());
        for (pass, actual) in self.passes.into_iter().zip(actual) {
            pass.settle(*actual);
        }
    }

    fn refund(self: Box<Self>, amounts: &[u64]) {
        self.ended.lock().unwrap().push(amounts.to_vec());
    }
}
