//! Pending decision: runs the pipeline and waits where it is suspended.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::check::RuleCheck;
use super::cluster::{PendingCheck, StoreQuery};
use super::counts::WaitTimer;
use super::outcome::Outcome;
use super::overload::GateProgress;
use super::pipeline::{DecisionMode, Pipeline, Step, Suspension};
use super::queue::QueuedRequest;
use super::select::Selection;
use super::snapshot::Snapshot;
use crate::algorithm;
use crate::clock::{ClockHandle, Sleep};
use crate::limiter::QueueWaiter;
use crate::rule::Request;
use crate::time::Timestamp;
use crate::wait::block_on;

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
    Suspended(Box<Suspended>),
}

impl Admission {
    #[inline]
    pub(super) fn new(
        snapshot: Arc<Snapshot>,
        selection: Selection,
        request: &Request<'_>,
        clock: &ClockHandle,
        mode: DecisionMode,
    ) -> Self {
        // Decided in place: an outcome is large, and most need not be moved.
        let mut admission = Self(AdmissionState::Decided(Some(Outcome::new(snapshot))));
        if let AdmissionState::Decided(Some(outcome)) = &mut admission.0
            && let Some(interruption) = run_from_start(outcome, selection, request, clock, mode)
            && let Some(outcome) = admission.take()
        {
            return Self::suspended(outcome, interruption, mode, clock);
        }
        admission
    }

    /// Decides a request, and blocks the thread while it is suspended. Like [`Admission::new`] and
    /// [`Admission::blocking`], without a move of the outcome: that takes a twentieth of a decision.
    #[inline]
    pub(super) fn decide_blocking(
        snapshot: Arc<Snapshot>,
        selection: Selection,
        request: &Request<'_>,
        clock: &ClockHandle,
        mode: DecisionMode,
    ) -> Outcome {
        let mut outcome = Outcome::new(snapshot);
        match run_from_start(&mut outcome, selection, request, clock, mode) {
            None => outcome,
            Some(interruption) => Self::suspended(outcome, interruption, mode, clock).blocking(),
        }
    }

    #[cold]
    fn suspended(outcome: Outcome, interruption: Interruption, mode: DecisionMode, clock: &ClockHandle) -> Self {
        let Interruption { suspension, queries, now } = interruption;
        let mut suspended = Suspended { wait: Wait::Completed, queries, mode, clock: clock.clone() };
        suspended.begin(suspension, outcome, now);
        Self(AdmissionState::Suspended(Box::new(suspended)))
    }

    /// Outcome, if it is already decided.
    pub const fn decided(&self) -> Option<&Outcome> {
        match &self.0 {
            AdmissionState::Decided(outcome) => outcome.as_ref(),
            AdmissionState::Suspended(_) => None,
        }
    }

    /// Takes the outcome if it is already decided. The future then never resolves.
    pub const fn take(&mut self) -> Option<Outcome> {
        match &mut self.0 {
            AdmissionState::Decided(outcome) => outcome.take(),
            AdmissionState::Suspended(_) => None,
        }
    }

    /// Blocks the thread until the request is decided.
    pub fn blocking(mut self) -> Outcome {
        match self.take() {
            Some(outcome) => outcome,
            None => block_on(self),
        }
    }
}

/// Suspension of a request during its first run through the pipeline.
struct Interruption {
    suspension: Suspension,
    /// Queries for the store, in case it is needed later.
    queries: Vec<StoreQuery>,
    now: Timestamp,
}

/// Runs the pipeline until the request is decided, or suspended for the first time.
#[inline]
fn run_from_start(
    outcome: &mut Outcome,
    selection: Selection,
    request: &Request<'_>,
    clock: &ClockHandle,
    mode: DecisionMode,
) -> Option<Interruption> {
    let mut pipeline = Pipeline { mode, clock, source: Some((selection, request)), now: Timestamp::ZERO };
    let suspension = pipeline.run(outcome, Step::Lists)?;
    let queries = pipeline.detach(outcome);
    Some(Interruption { suspension, queries, now: pipeline.now })
}

impl Future for Admission {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        if let AdmissionState::Suspended(suspended) = &mut self.0 {
            let outcome = ready!(suspended.poll(context));
            self.0 = AdmissionState::Decided(outcome);
        }
        // Polled after completion: never resolves again.
        self.take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// Suspended request.
struct Suspended {
    wait: Wait,
    /// Queries for the store once the local rules admit the request.
    queries: Vec<StoreQuery>,
    mode: DecisionMode,
    clock: ClockHandle,
}

/// Wait of a suspended request. It owns the outcome; dropping it cancels the request.
enum Wait {
    Queue(QueueWaiter<QueuedRequest>),
    Store(PendingCheck),
    Delay { outcome: CancelOnDrop, sleep: Sleep, next: Step, _timer: Option<WaitTimer> },
    Gates { outcome: CancelOnDrop, progress: GateProgress },
    Completed,
}

impl Suspended {
    /// Starts to wait.
    fn begin(&mut self, suspension: Suspension, outcome: Outcome, now: Timestamp) {
        let clock = &self.clock;
        self.wait = match suspension {
            Suspension::Queue(queue) => Wait::Queue(QueuedRequest::waiter(outcome, queue, clock.clone())),
            Suspension::Store => {
                Wait::Store(PendingCheck::begin(outcome, std::mem::take(&mut self.queries), self.mode, clock))
            }
            Suspension::StoreRetry => {
                Wait::Store(PendingCheck::after_refusal(outcome, std::mem::take(&mut self.queries), clock))
            }
            Suspension::Delay(delay, next) => {
                let timer = outcome.slowest_rule().map(|rule| outcome.start_wait_timer(rule, now, clock));
                let sleep = clock.sleep_until(now + delay);
                Wait::Delay { outcome: CancelOnDrop(Some(outcome)), sleep, next, _timer: timer }
            }
            Suspension::Gates(progress) => Wait::Gates { outcome: CancelOnDrop(Some(outcome)), progress },
        };
    }

    /// Polls until the request is decided, and counted by the pipeline.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Outcome>> {
        loop {
            let (outcome, step) = ready!(self.wait.poll(context, &self.clock));
            self.wait = Wait::Completed;
            let Some(mut outcome) = outcome else { return Poll::Ready(None) };
            let now = self.clock.now();
            let mut pipeline = Pipeline { mode: self.mode, clock: &self.clock, source: None, now };
            match pipeline.run(&mut outcome, step) {
                None => return Poll::Ready(Some(outcome)),
                Some(suspension) => self.begin(suspension, outcome, now),
            }
        }
    }
}

impl Wait {
    /// Polls for the outcome and the step to continue with.
    fn poll(&mut self, context: &mut Context<'_>, clock: &ClockHandle) -> Poll<(Option<Outcome>, Step)> {
        Poll::Ready(match self {
            Self::Queue(waiter) => match ready!(Pin::new(waiter).poll(context)) {
                Ok(outcome) => (Some(outcome), Step::Cluster),
                Err(outcome) => (outcome, Step::Count),
            },
            Self::Store(pending) => {
                let outcome = ready!(Pin::new(pending).poll(context));
                let step = if outcome.is_admitted() { Step::Delay } else { Step::Count };
                (Some(outcome), step)
            }
            Self::Delay { outcome, sleep, next, .. } => {
                ready!(Pin::new(sleep).poll(context));
                (outcome.0.take(), *next)
            }
            Self::Gates { outcome, progress } => {
                if let Some(outcome) = &mut outcome.0 {
                    ready!(progress.poll(outcome, clock, context));
                }
                (outcome.0.take(), Step::Count)
            }
            Self::Completed => (None, Step::Done),
        })
    }
}

/// Admitted outcome of a request that has not started. Dropping it gives back all charges.
struct CancelOnDrop(Option<Outcome>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(outcome) = self.0.take() {
            outcome.give_back();
        }
    }
}

impl Outcome {
    /// Rule that imposes the longest delay.
    fn slowest_rule(&self) -> Option<usize> {
        let delay = |check: &RuleCheck| match check.result.as_ref()?.evaluation.check {
            algorithm::Check::After(delay) => Some((delay, check.rule)),
            _ => None,
        };
        let longest_delay = self.checks.iter().filter(|check| !check.shadow).filter_map(delay).max();
        longest_delay.map(|(_, rule)| rule)
    }
}
