//! Queue of a local limit: a refused request waits until its rules admit it.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::counts::WaitTimer;
use super::evaluate::{WakeRegistration, evaluate};
use super::outcome::{Cause, Outcome};
use super::pipeline::DecisionMode;
use crate::clock::ClockHandle;
use crate::decision::Decision;
use crate::limiter::{AcquireResult, QueueWaiter, QueuedAcquire};
use crate::limiter::{LimiterCore, RefusalReason, STATE_UNREACHABLE};
use crate::table::KeyHash;
use crate::time::Timestamp;

/// Queue chosen for a refused request.
pub(super) struct QueueChoice {
    limiter: Arc<LimiterCore>,
    /// Rule that owns the limiter.
    rule: usize,
    key: KeyHash,
    cost: u64,
    /// Maximum wait: the shortest that any refusing rule allows.
    max_wait: Duration,
}

impl QueueChoice {
    /// Queue of the rule with the longest wait. `None` if that rule has no local limit.
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        let Cause::Limit(rule) = outcome.cause else { return None };
        let check = outcome.checks.iter().find(|check| check.rule == rule)?;
        let limiter = Arc::clone(outcome.snapshot.state(rule).limiter.as_ref()?);
        let max_wait = outcome.max_wait()?;
        Some(Self { limiter, rule, key: check.key, cost: check.cost, max_wait })
    }
}

/// Request in a wait queue.
pub(super) struct QueuedRequest {
    /// Current refusal, with everything needed to evaluate it again.
    refused: Option<Outcome>,
    queue: QueueChoice,
    clock: ClockHandle,
    wakeups: WakeRegistration,
    timer: Option<WaitTimer>,
}

impl QueuedRequest {
    /// Waiter for a refused request. It joins the queue when it is polled.
    pub(super) fn waiter(refused: Outcome, queue: QueueChoice, clock: ClockHandle) -> QueueWaiter<Self> {
        let max_wait = Some(queue.max_wait);
        let wakeups = WakeRegistration::new();
        QueueWaiter::new(Self { refused: Some(refused), queue, clock, wakeups, timer: None }, max_wait)
    }
}

impl Outcome {
    /// Maximum wait that every refusing rule allows.
    pub(super) fn max_wait(&self) -> Option<Duration> {
        self.refusing().filter_map(|rule| Some(rule.on_limit.queue?.max_wait)).min()
    }

    /// Starts to measure the wait of the request for this rule.
    pub(super) fn start_wait_timer(&self, rule: usize, now: Timestamp, clock: &ClockHandle) -> WaitTimer {
        WaitTimer::begin(&self.snapshot.state(rule).counters, clock, now)
    }
}

impl QueuedAcquire for QueuedRequest {
    type Permit = Outcome;
    type Refusal = Option<Outcome>;

    fn limiter(&self) -> &Arc<LimiterCore> {
        &self.queue.limiter
    }

    fn key(&self) -> KeyHash {
        self.queue.key
    }

    fn cost(&self) -> u64 {
        self.queue.cost
    }

    fn try_acquire(&mut self, now: Timestamp, waker: &Waker) -> AcquireResult<Outcome> {
        let Some(mut outcome) = self.refused.take() else { return AcquireResult::Refused(STATE_UNREACHABLE) };
        evaluate(&mut outcome, now, DecisionMode::Wait);
        outcome.conclude();
        while !outcome.is_admitted() && outcome.register_wakeups(&self.queue.limiter, waker, &mut self.wakeups) {
            // Permits may have been released before the wakeup was registered.
            evaluate(&mut outcome, now, DecisionMode::Wait);
            outcome.conclude();
        }
        if outcome.is_admitted() {
            return AcquireResult::Admitted(outcome);
        }
        let decision = Decision { verdict: outcome.verdict, ..STATE_UNREACHABLE };
        let may_wait = outcome.may_wait();
        self.refused = Some(outcome);
        if may_wait { AcquireResult::NotYet(decision) } else { AcquireResult::Refused(decision) }
    }

    fn max_wait(&self) -> Option<Duration> {
        self.refused.as_ref().and_then(Outcome::max_wait)
    }

    fn on_joined(&mut self, now: Timestamp) {
        let start_timer = |outcome: &Outcome| outcome.start_wait_timer(self.queue.rule, now, &self.clock);
        self.timer = self.refused.as_ref().map(start_timer);
    }

    fn refuse(&mut self, decision: Decision, _reason: RefusalReason) -> Option<Outcome> {
        let mut outcome = self.refused.take()?;
        outcome.verdict = decision.verdict;
        Some(outcome)
    }
}
