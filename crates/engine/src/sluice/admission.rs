//! Admission of a request: queueing, paced delays, the store and overload gates.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use super::cluster::{self, PendingCheck, StoreQuery};
use super::counts::WaitTimer;
use super::decide::{self, RuleCheck, Selection, WaitMode, WakeRegistration, capture_ban_keys, capture_keys};
use super::outcome::{Cause, Outcome};
use super::overload::{GateMode, GateWait};
use super::snapshot::Snapshot;
use crate::algorithm;
use crate::clock::{ClockHandle, Sleep};
use crate::decision::{Decision, Verdict};
use crate::limiter::{LimiterCore, RefusalReason, STATE_UNREACHABLE};
use crate::rule::Request;
use crate::table::KeyHash;
use crate::time::Timestamp;
use crate::wait::{AcquireResult, QueueWaiter, QueuedAcquire, block_on};

/// Pending or completed decision of a request. Await it for the [`Outcome`], or block with
/// [`Admission::blocking`].
///
/// A request refused by several rules waits in the queue of the rule with the longest wait, provided that every
/// refusing rule allows waiting, and no longer than the shortest of their maximum waits. The queue is first in,
/// first out. Its head may overtake requests queued for the key of another rule; otherwise two requests queued
/// behind each other would deadlock. Dropping the admission leaves the queue and gives back the slot reserved
/// in a leaky bucket.
#[must_use = "futures do nothing unless polled"]
pub struct Admission(AdmissionState);

#[expect(clippy::large_enum_variant, reason = "nearly all are decided immediately; boxing adds an indirection")]
enum AdmissionState {
    Decided(Option<Outcome>),
    /// Admitted after a delay.
    Pausing(Box<Pause>),
    Waiting(Box<QueueWaiter<QueuedRequest>>),
    /// Waiting for the store to decide cluster-wide rules.
    QueryingStore(Box<PendingCheck>),
    /// Admitted by everything but the overload gates.
    AtGates(Box<GateWait>),
}

impl AdmissionState {
    /// State after a decision at `now`; already counted unless the request has gates to pass.
    fn from_outcome(outcome: Outcome, now: Timestamp, clock: &ClockHandle) -> Self {
        match outcome.verdict {
            Verdict::Wait(pause) => {
                let timer = outcome.slowest_rule().map(|rule| outcome.start_wait_timer(rule, now, clock));
                let (reservation, sleep) = (PendingReservation(Some(outcome)), clock.sleep_until(now + pause));
                Self::Pausing(Box::new(Pause { reservation, sleep, clock: clock.clone(), _timer: timer }))
            }
            _ => Self::after_pause(outcome, clock),
        }
    }

    /// State after the delay, if there was one.
    fn after_pause(outcome: Outcome, clock: &ClockHandle) -> Self {
        if !outcome.is_gated() {
            return Self::Decided(Some(outcome));
        }
        let mut gate_wait = GateWait::begin(outcome, clock);
        match gate_wait.take() {
            Some(mut outcome) => {
                outcome.count(clock.now(), None);
                Self::Decided(Some(outcome))
            }
            None => Self::AtGates(Box::new(gate_wait)),
        }
    }
}

/// Delay before an admitted request proceeds.
struct Pause {
    reservation: PendingReservation,
    sleep: Sleep,
    clock: ClockHandle,
    _timer: Option<WaitTimer>,
}

/// Admitted outcome with a start time in the future. Dropping it cancels the reservation.
struct PendingReservation(Option<Outcome>);

impl Drop for PendingReservation {
    fn drop(&mut self) {
        if let Some(outcome) = self.0.take() {
            outcome.give_back();
        }
    }
}

/// Request in a wait queue.
struct QueuedRequest {
    /// Current refusal, with everything needed to evaluate it again.
    refused: Option<Outcome>,
    limiter: Arc<LimiterCore>,
    /// Rule that owns the limiter.
    rule: usize,
    key: KeyHash,
    cost: u64,
    clock: ClockHandle,
    wakeups: WakeRegistration,
    timer: Option<WaitTimer>,
    /// Queries for the store once the local rules admit the request.
    store_queries: Vec<StoreQuery>,
}

impl Admission {
    pub(super) fn new(
        snapshot: Arc<Snapshot>,
        selection: Selection,
        request: &Request<'_>,
        clock: &ClockHandle,
        wait_mode: WaitMode,
    ) -> Self {
        // Decided in place: an outcome is large, and most need not be moved.
        let mut admission = Self(AdmissionState::Decided(Some(Outcome::new(snapshot))));
        if let AdmissionState::Decided(Some(outcome)) = &mut admission.0 {
            let now = decide::decide_uncounted(outcome, selection, request, clock, wait_mode);
            let needs_store = cluster::decide_from_leases(outcome, now);
            if !outcome.is_admitted() {
                capture_ban_keys(outcome, selection, request);
            }
            let may_wait = wait_mode == WaitMode::MayWait;
            if needs_store || (may_wait && !outcome.is_admitted() && outcome.may_wait()) {
                capture_keys(outcome, selection, request);
                let store_queries = cluster::store_queries(outcome, selection, request);
                admission.suspend(store_queries, needs_store, wait_mode, now, clock);
            } else if outcome.is_gated() {
                admission.enter_gates(selection, request, wait_mode, now, clock);
            } else {
                outcome.count(now, Some((selection, request)));
                if may_wait && matches!(outcome.verdict, Verdict::Wait(_)) {
                    admission.pause(now, clock);
                }
            }
        }
        admission
    }

    /// Suspends a request until it is admitted here or the store replies.
    #[cold]
    fn suspend(
        &mut self,
        store_queries: Vec<StoreQuery>,
        needs_store: bool,
        wait_mode: WaitMode,
        now: Timestamp,
        clock: &ClockHandle,
    ) {
        let Some(mut outcome) = self.take() else { return };
        self.0 = if needs_store {
            AdmissionState::QueryingStore(Box::new(PendingCheck::begin(outcome, store_queries, wait_mode, clock)))
        } else if outcome.is_refused_by_cluster() {
            AdmissionState::QueryingStore(Box::new(PendingCheck::after_refusal(outcome, store_queries, clock)))
        } else if let Some(QueueChoice { limiter, rule, key, cost, max_wait }) = choose_queue(&outcome) {
            let (refused, clock, wakeups) = (Some(outcome), clock.clone(), WakeRegistration::new());
            let queued =
                QueuedRequest { refused, limiter, rule, key, cost, clock, wakeups, timer: None, store_queries };
            AdmissionState::Waiting(Box::new(QueueWaiter::new(queued, Some(max_wait))))
        } else {
            outcome.count(now, None);
            AdmissionState::Decided(Some(outcome))
        };
    }

    /// Passes a request that everything else has admitted to its overload gates.
    #[cold]
    fn enter_gates(
        &mut self,
        selection: Selection,
        request: &Request<'_>,
        wait_mode: WaitMode,
        now: Timestamp,
        clock: &ClockHandle,
    ) {
        let Some(mut outcome) = self.take() else { return };
        let count_decided = |outcome: &mut Outcome| {
            if !outcome.is_admitted() {
                capture_ban_keys(outcome, selection, request);
            }
            outcome.count(now, Some((selection, request)));
        };
        if wait_mode == WaitMode::Immediate {
            outcome.pass_gates(wait_mode.into());
            count_decided(&mut outcome);
            self.0 = AdmissionState::Decided(Some(outcome));
            return;
        }
        if matches!(outcome.verdict, Verdict::Wait(_)) {
            capture_keys(&mut outcome, selection, request);
            self.0 = AdmissionState::from_outcome(outcome, now, clock);
            return;
        }
        let mut gate_wait = GateWait::begin(outcome, clock);
        self.0 = match gate_wait.take() {
            Some(mut outcome) => {
                count_decided(&mut outcome);
                AdmissionState::Decided(Some(outcome))
            }
            None => {
                if let Some(outcome) = gate_wait.outcome_mut() {
                    capture_keys(outcome, selection, request);
                }
                AdmissionState::AtGates(Box::new(gate_wait))
            }
        };
    }

    /// Delays an admitted request.
    #[cold]
    fn pause(&mut self, now: Timestamp, clock: &ClockHandle) {
        if let Some(outcome) = self.take() {
            self.0 = AdmissionState::from_outcome(outcome, now, clock);
        }
    }
}

impl Admission {
    /// Outcome, if it is already decided.
    pub fn decided(&self) -> Option<&Outcome> {
        match &self.0 {
            AdmissionState::Decided(outcome) => outcome.as_ref(),
            AdmissionState::Pausing(_)
            | AdmissionState::Waiting(_)
            | AdmissionState::QueryingStore(_)
            | AdmissionState::AtGates(_) => None,
        }
    }

    /// Takes the outcome if it is already decided. The future then never resolves.
    pub fn take(&mut self) -> Option<Outcome> {
        match &mut self.0 {
            AdmissionState::Decided(outcome) => outcome.take(),
            AdmissionState::Pausing(_)
            | AdmissionState::Waiting(_)
            | AdmissionState::QueryingStore(_)
            | AdmissionState::AtGates(_) => None,
        }
    }

    /// Blocks the thread until the request is decided.
    pub fn blocking(self) -> Outcome {
        block_on(self)
    }
}

/// Queue chosen for a refused request.
struct QueueChoice {
    limiter: Arc<LimiterCore>,
    rule: usize,
    key: KeyHash,
    cost: u64,
    /// Maximum wait: the shortest that any refusing rule allows.
    max_wait: Duration,
}

fn choose_queue(outcome: &Outcome) -> Option<QueueChoice> {
    let Cause::Limit(rule) = outcome.cause else { return None };
    if !outcome.may_wait() {
        return None;
    }
    let check: &RuleCheck = outcome.checks.iter().find(|check| check.rule == rule)?;
    let limiter = Arc::clone(outcome.snapshot.state(rule).limiter.as_ref()?);
    let max_wait = outcome.max_wait()?;
    Some(QueueChoice { limiter, rule, key: check.key, cost: check.cost, max_wait })
}

impl Outcome {
    /// Maximum wait that every refusing rule allows.
    pub(super) fn max_wait(&self) -> Option<Duration> {
        self.refusing().filter_map(|rule| Some(rule.on_limit.queue?.max_wait)).min()
    }

    /// Rule that imposes the longest delay.
    fn slowest_rule(&self) -> Option<usize> {
        let pause = |check: &RuleCheck| match check.result.as_ref()?.evaluation.check {
            algorithm::Check::After(pause) => Some((pause, check.rule)),
            _ => None,
        };
        let longest_pause = self.checks.iter().filter(|check| !check.shadow).filter_map(pause).max();
        longest_pause.map(|(_, rule)| rule)
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
        &self.limiter
    }

    fn key(&self) -> KeyHash {
        self.key
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn try_acquire(&mut self, now: Timestamp, waker: &Waker) -> AcquireResult<Outcome> {
        let Some(mut outcome) = self.refused.take() else { return AcquireResult::Refused(STATE_UNREACHABLE) };
        decide::evaluate(&mut outcome, now, WaitMode::MayWait);
        outcome.conclude();
        while !outcome.is_admitted() && outcome.register_wakeups(&self.limiter, waker, &mut self.wakeups) {
            // Permits may have been released before the wakeup was registered.
            decide::evaluate(&mut outcome, now, WaitMode::MayWait);
            outcome.conclude();
        }
        if outcome.is_admitted() {
            if self.store_queries.is_empty() && !outcome.is_gated() {
                outcome.count(now, None);
            }
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
        let start_timer = |outcome: &Outcome| outcome.start_wait_timer(self.rule, now, &self.clock);
        self.timer = self.refused.as_ref().map(start_timer);
    }

    fn refuse(&mut self, decision: Decision, _reason: RefusalReason) -> Option<Outcome> {
        let mut outcome = self.refused.take()?;
        outcome.verdict = decision.verdict;
        outcome.count(self.clock.now(), None);
        Some(outcome)
    }
}

impl Future for Admission {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            match &mut self.0 {
                AdmissionState::Decided(outcome) => {
                    // Polled after completion: never resolves again.
                    return outcome.take().map_or(Poll::Pending, Poll::Ready);
                }
                AdmissionState::Pausing(pause) => match Pin::new(&mut pause.sleep).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => {
                        let clock = pause.clock.clone();
                        let reservation = pause.reservation.0.take();
                        self.0 = reservation.map_or(AdmissionState::Decided(None), |outcome| {
                            AdmissionState::after_pause(outcome, &clock)
                        });
                    }
                },
                AdmissionState::Waiting(waiter) => match Pin::new(&mut **waiter).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(outcome)) => {
                        let QueuedRequest { clock, store_queries, .. } = waiter.acquire_mut();
                        self.0 = after_queue(outcome, std::mem::take(store_queries), &clock.clone());
                    }
                    Poll::Ready(Err(outcome)) => self.0 = AdmissionState::Decided(outcome),
                },
                AdmissionState::AtGates(gate_wait) => {
                    let outcome = ready!(Pin::new(&mut **gate_wait).poll(context));
                    self.0 = AdmissionState::Decided(Some(outcome));
                }
                AdmissionState::QueryingStore(pending) => match Pin::new(&mut **pending).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready((outcome, now)) => {
                        self.0 = match pending.may_wait() {
                            true => AdmissionState::from_outcome(outcome, now, &pending.clock().clone()),
                            false => AdmissionState::Decided(Some(pass_gates_untimed(outcome, now))),
                        };
                    }
                },
            }
        }
    }
}

/// Passes the gates without waiting and without a permit.
fn pass_gates_untimed(mut outcome: Outcome, now: Timestamp) -> Outcome {
    if outcome.is_gated() {
        outcome.pass_gates(GateMode::Untimed);
        outcome.count(now, None);
    }
    outcome
}

/// State after the local queue: queries the store if a rule is counted there.
fn after_queue(mut outcome: Outcome, store_queries: Vec<StoreQuery>, clock: &ClockHandle) -> AdmissionState {
    let now = clock.now();
    if store_queries.is_empty() {
        return AdmissionState::from_outcome(outcome, now, clock);
    }
    if cluster::decide_from_leases(&mut outcome, now) {
        return AdmissionState::QueryingStore(Box::new(PendingCheck::begin(
            outcome,
            store_queries,
            WaitMode::MayWait,
            clock,
        )));
    }
    if !outcome.is_admitted() {
        return AdmissionState::QueryingStore(Box::new(PendingCheck::after_refusal(outcome, store_queries, clock)));
    }
    if !outcome.is_gated() {
        outcome.count(now, None);
    }
    AdmissionState::from_outcome(outcome, now, clock)
}
