//! Fake store: counts with the engine's own limiters and replies as configured by the test.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use sluicegate_engine::algorithm::{Check, Status};
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::Rule;
use sluicegate_engine::store::{
    AcquireCall, LeaseToken, Store, StoreDecision, StoreLimits, StoreOutcome, StoreReceipt, StoreReply, StoreRequest,
    StoreRequests, StoreUnavailable,
};
use sluicegate_engine::{Decision, KeyedLimiter, Limit, LimitError, Limiter, Permit, Timestamp};

/// Reply mode of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    Now,
    /// On [`FakeStore::deliver`].
    Later,
    Lost,
}

/// Rule name, key and cost.
type RecordedCall = (String, Vec<u8>, u64);

/// The fake store.
pub(crate) struct FakeStore {
    clock: ManualClock,
    pub(crate) reply_mode: Mutex<ReplyMode>,
    pub(crate) nodes: AtomicU32,
    rules: Mutex<HashMap<String, Arc<FakeLimits>>>,
    pub(crate) calls: Mutex<Vec<Vec<RecordedCall>>>,
    /// Settled charges with their actual costs.
    pub(crate) ended: Arc<Mutex<Vec<Vec<u64>>>>,
    due: Arc<Mutex<DelayedReply>>,
}

#[derive(Debug, Default)]
struct DelayedReply {
    delivered: bool,
    wakers: Vec<Waker>,
    /// Calls dropped before their reply.
    dropped: u32,
    /// Calls with a polled reply.
    polled: u32,
}

#[derive(Debug)]
pub(crate) struct FakeLimits {
    name: String,
    has_permits: bool,
    counts: KeyedLimiter<Vec<u8>>,
    /// Tokens this process may spend locally (lease).
    pub(crate) slice: Mutex<Option<u64>>,
    pub(crate) settled: Mutex<Vec<(u64, u64)>>,
    /// Number of further immediate refusals, with a wait of a second each.
    pub(crate) refusals: AtomicU32,
}

impl fmt::Debug for FakeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PaperStore")
    }
}

impl FakeStore {
    pub(crate) fn new(clock: &ManualClock) -> Arc<Self> {
        Arc::new(Self {
            clock: clock.clone(),
            reply_mode: Mutex::new(ReplyMode::Now),
            nodes: AtomicU32::new(1),
            rules: Mutex::default(),
            calls: Mutex::default(),
            ended: Arc::default(),
            due: Arc::default(),
        })
    }

    pub(crate) fn set_reply_mode(&self, reply_mode: ReplyMode) {
        *self.reply_mode.lock().unwrap() = reply_mode;
    }

    /// Delivers the replies of all pending calls.
    pub(crate) fn deliver(&self) {
        let mut due = self.due.lock().unwrap();
        due.delivered = true;
        due.wakers.drain(..).for_each(Waker::wake);
    }

    pub(crate) fn dropped(&self) -> u32 {
        self.due.lock().unwrap().dropped
    }

    /// Number of calls that have been polled.
    pub(crate) fn poll_count(&self) -> u32 {
        self.due.lock().unwrap().polled
    }

    pub(crate) fn rule(&self, name: &str) -> Arc<FakeLimits> {
        Arc::clone(&self.rules.lock().unwrap()[name])
    }

    fn take(&self, requests: &StoreRequests) -> StoreOutcome {
        let limits = |request: &StoreRequest| {
            let limits: &dyn Any = &*request.limits;
            Arc::clone(&self.rules.lock().unwrap()[&limits.downcast_ref::<FakeLimits>().unwrap().name])
        };
        let entered: Vec<Result<Permit, Decision>> = requests
            .iter()
            .map(|request| {
                limits(request).counts.enter(&request.key.as_bytes().to_vec(), request.cost).map_err(|no| no.decision)
            })
            .collect();
        let decisions = entered.iter().map(|entered| match entered {
            Ok(permit) => StoreDecision::from_decision(*permit.decision()),
            Err(decision) => StoreDecision::from_decision(*decision),
        });
        let decisions = decisions.collect();
        let permits: Option<Vec<Permit>> = entered.into_iter().map(Result::ok).collect();
        let taken = permits.map(|permits| -> Box<dyn StoreReceipt> {
            let holds_resources = requests.iter().any(|request| limits(request).has_permits);
            Box::new(FakeReceipt { permits, holds_resources, ended: Arc::clone(&self.ended) })
        });
        StoreOutcome { decisions, receipt: taken }
    }
}

/// Converts a decision of the engine to a store decision.
trait FromDecision {
    fn from_decision(decision: Decision) -> Self;
}

impl FromDecision for StoreDecision {
    fn from_decision(decision: Decision) -> Self {
        Self { check: decision.verdict.into(), limit: decision.limit, status: decision.status }
    }
}

impl Store for FakeStore {
    fn open(&self, rule: &Rule, _seed: u64) -> Result<Arc<dyn StoreLimits>, LimitError> {
        if rule.limits.iter().any(|limit| matches!(limit, Limit::WarmUp(_))) {
            return Err(LimitError::NoLimits);
        }
        let mut rules = self.rules.lock().unwrap();
        if let Some(known) = rules.get(&rule.name) {
            known.counts.change(rule.limits.clone())?;
            return Ok(Arc::clone(known) as Arc<dyn StoreLimits>);
        }
        let builder = Limiter::builder().limits(rule.limits.clone()).clock(self.clock.clone());
        let counts = builder.build_keyed(1_000)?;
        let limits = Arc::new(FakeLimits {
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

    fn acquire(&self, requests: StoreRequests) -> AcquireCall {
        let names = requests.iter().map(|request| {
            let limits: &dyn Any = &*request.limits;
            let name = limits.downcast_ref::<FakeLimits>().unwrap().name.clone();
            (name, request.key.as_bytes().to_vec(), request.cost)
        });
        self.calls.lock().unwrap().push(names.collect());
        match *self.reply_mode.lock().unwrap() {
            ReplyMode::Now => AcquireCall::Ready(Ok(self.take(&requests))),
            ReplyMode::Lost => AcquireCall::Ready(Err(StoreUnavailable)),
            ReplyMode::Later => {
                self.due.lock().unwrap().delivered = false;
                let mut open = PendingReply { due: Arc::clone(&self.due), reply: Some(Ok(self.take(&requests))) };
                let mut is_first = true;
                AcquireCall::Pending(Box::pin(poll_fn(move |context| {
                    let due = Arc::clone(&open.due);
                    let mut due = due.lock().unwrap();
                    due.polled += u32::from(std::mem::take(&mut is_first));
                    if due.delivered {
                        return Poll::Ready(open.reply.take().unwrap());
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

/// Call in flight; if dropped without a reply, its charge is returned.
struct PendingReply {
    due: Arc<Mutex<DelayedReply>>,
    reply: Option<StoreReply>,
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        if let Some(Ok(granted)) = self.reply.take() {
            self.due.lock().unwrap().dropped += 1;
            if let Some(taken) = granted.receipt {
                taken.end(&[0, 0, 0, 0]);
            }
        }
    }
}

impl StoreLimits for FakeLimits {
    fn decide_locally(&self, _key: u64, cost: u64, _now: Timestamp) -> Option<(StoreDecision, LeaseToken)> {
        if self.refusals.load(Ordering::SeqCst) > 0 {
            self.refusals.fetch_sub(1, Ordering::SeqCst);
            let decisions =
                StoreDecision { check: Check::NotBefore(1_000_000_000), limit: 0, status: Status::default() };
            return Some((decisions, LeaseToken::default()));
        }
        let mut slice = self.slice.lock().unwrap();
        let left = (*slice)?.checked_sub(cost)?;
        *slice = Some(left);
        let status = Status { limit: 9, remaining: left, reset: 0 };
        Some((StoreDecision { check: Check::Now, limit: 0, status }, LeaseToken([7, left])))
    }

    fn settle(&self, _key: u64, taken: u64, actual: u64, mark: LeaseToken) {
        assert_eq!(mark.0[0], 7, "the token of the charge");
        self.settled.lock().unwrap().push((taken, actual));
        if let Some(slice) = &mut *self.slice.lock().unwrap() {
            *slice = (*slice + taken).saturating_sub(actual);
        }
    }
}

#[derive(Debug)]
struct FakeReceipt {
    permits: Vec<Permit>,
    holds_resources: bool,
    ended: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl StoreReceipt for FakeReceipt {
    fn holds_resources(&self) -> bool {
        self.holds_resources
    }

    fn end(self: Box<Self>, actual: &[u64]) {
        self.ended.lock().unwrap().push(actual[..self.permits.len()].to_vec());
        for (permit, actual) in self.permits.into_iter().zip(actual) {
            permit.settle(*actual);
        }
    }

    fn refund(self: Box<Self>, amounts: &[u64]) {
        self.ended.lock().unwrap().push(amounts.to_vec());
    }
}
