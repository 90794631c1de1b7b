//! Decision pipeline: the steps of every decision, in order.
//!
//! ```text
//! lists -> bans -> limits -> cluster -> delay -> gates -> count
//!                    |          |         |        |
//!                  queue      store     sleep    queue        suspended: only with `DecisionMode::Wait`, or for the store
//! ```
//!
//! Every entry point of the [`Sluice`](super::Sluice) runs this list; they differ in the [`DecisionMode`] and in the rules
//! that they select. A step decides the request, passes it on, or suspends it. A suspended request continues with
//! the step after its wait ([`Admission`](super::Admission)). Each request is counted once, in [`Pipeline::run`].
//!
//! The fast path ([`super::fast_path`]) is a specialization for rules that need no step but the limits.

use std::time::Duration;

use super::account::{RequestSource, capture_key_names};
use super::check::RuleCheck;
use super::cluster::{self, StoreQuery};
use super::evaluate::evaluate_in_turn;
use super::outcome::{Cause, Outcome};
use super::overload::GateProgress;
use super::queue::QueueChoice;
use super::select::select;
use crate::clock::ClockHandle;
use crate::decision::Verdict;
use crate::rule::ListHit;
use crate::time::Timestamp;

/// DecisionMode of a decision.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DecisionMode {
    /// Waits in queues, for the delay of a paced limit and at gates.
    Wait,
    /// Decides immediately; the verdict reports a delay. The outcome holds its gate permits.
    Immediate,
    /// Decides immediately on behalf of another process, which does not report the end of the request: gates are
    /// passed without a permit.
    Remote,
}

/// Step of the pipeline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Allow and deny lists.
    Lists,
    /// Selection of the rules, and bans of their keys.
    Bans,
    /// Queues and local limits.
    Limits,
    /// Limits shared by a cluster: leases, then the store.
    Cluster,
    /// Delay of a paced limit before the gates.
    Delay,
    /// Overload gates.
    Gates,
    /// Counters. The delay of a request without gates starts here, as nothing can refuse it any more.
    Count,
    /// Nothing is left to do.
    Done,
}

/// Reason to suspend a request.
pub(super) enum Suspension {
    /// Waits in the queue of a local limit.
    Queue(QueueChoice),
    /// Queries the store.
    Store,
    /// Refused from a lease; waits until the store may admit it.
    StoreRetry,
    /// Admitted after this delay; continues with this step.
    Delay(Duration, Step),
    /// Waits at an overload gate.
    Gates(GateProgress),
}

/// Progress after a step.
enum Progress {
    Continue(Step),
    Suspend(Suspension),
}

/// One run through the steps, until the request is decided or suspended.
pub(super) struct Pipeline<'a> {
    pub(super) mode: DecisionMode,
    pub(super) clock: &'a ClockHandle,
    /// The request; `None` after a suspension.
    pub(super) source: RequestSource<'a>,
    pub(super) now: Timestamp,
}

impl Pipeline<'_> {
    /// Runs the steps from `step` on. `None`: the request is decided and counted.
    #[inline]
    pub(super) fn run(&mut self, outcome: &mut Outcome, mut step: Step) -> Option<Suspension> {
        loop {
            let progress = match step {
                Step::Lists => self.check_lists(outcome),
                Step::Bans => self.check_bans(outcome),
                Step::Limits => self.check_limits(outcome),
                Step::Cluster => self.check_cluster(outcome),
                Step::Delay => self.delay_before_gates(outcome),
                Step::Gates => self.pass_gates(outcome),
                Step::Count => {
                    outcome.count(self.now, self.source);
                    self.delay(outcome, Step::Done)
                }
                Step::Done => return None,
            };
            match progress {
                Progress::Continue(next) => step = next,
                Progress::Suspend(suspension) => return Some(suspension),
            }
        }
    }

    /// Prepares a suspended request for the time after its request is gone. Returns the queries for the store, in
    /// case it is needed later.
    #[cold]
    pub(super) fn detach(&mut self, outcome: &mut Outcome) -> Vec<StoreQuery> {
        let Some((selection, request)) = self.source.take() else { return Vec::new() };
        capture_key_names(outcome, selection, request);
        cluster::store_queries(outcome, selection, request)
    }

    #[inline]
    fn check_lists(&self, outcome: &mut Outcome) -> Progress {
        let hit = self.source.and_then(|(_, request)| outcome.snapshot.lists().check(request));
        let Some(hit) = hit else { return Progress::Continue(Step::Bans) };
        (outcome.verdict, outcome.cause) = match hit {
            ListHit::Allow(entry) => (Verdict::Allowed, Cause::AllowList(entry)),
            ListHit::Deny(entry) => (Verdict::Denied { retry_after: None }, Cause::DenyList(entry)),
        };
        Progress::Continue(Step::Count)
    }

    #[inline]
    fn check_bans(&mut self, outcome: &mut Outcome) -> Progress {
        if let Some((selection, request)) = self.source {
            select(&outcome.snapshot, selection, request, &mut outcome.checks, |_, _| {});
        }
        // After the selection, which prefetches the states: the clock is read while they arrive.
        self.now = self.clock.now();
        let Some((rule, remaining)) = outcome.banned(self.now) else { return Progress::Continue(Step::Limits) };
        outcome.verdict = Verdict::Denied { retry_after: Some(remaining) };
        outcome.cause = Cause::Ban(rule);
        Progress::Continue(Step::Count)
    }

    #[inline]
    fn check_limits(&self, outcome: &mut Outcome) -> Progress {
        evaluate_in_turn(outcome, self.now, self.mode);
        if outcome.is_admitted() {
            return Progress::Continue(Step::Cluster);
        }
        match self.may_wait(outcome).then(|| QueueChoice::of(outcome)).flatten() {
            Some(choice) => Progress::Suspend(Suspension::Queue(choice)),
            None => Progress::Continue(Step::Count),
        }
    }

    #[inline]
    fn check_cluster(&self, outcome: &mut Outcome) -> Progress {
        if cluster::decide_from_leases(outcome, self.now) {
            return Progress::Suspend(Suspension::Store);
        }
        if outcome.is_admitted() {
            return Progress::Continue(Step::Delay);
        }
        match self.may_wait(outcome) {
            true => Progress::Suspend(Suspension::StoreRetry),
            false => Progress::Continue(Step::Count),
        }
    }

    /// A request with gates is delayed before them: it is in flight only afterwards.
    #[inline]
    fn delay_before_gates(&self, outcome: &Outcome) -> Progress {
        if !outcome.is_gated() {
            return Progress::Continue(Step::Count);
        }
        self.delay(outcome, Step::Gates)
    }

    #[inline]
    fn delay(&self, outcome: &Outcome, next: Step) -> Progress {
        match outcome.verdict {
            // A request that has passed its gates was delayed before them.
            Verdict::Wait(delay) if self.mode == DecisionMode::Wait && (next == Step::Gates || !outcome.is_gated()) => {
                Progress::Suspend(Suspension::Delay(delay, next))
            }
            _ => Progress::Continue(next),
        }
    }

    #[cold]
    fn pass_gates(&mut self, outcome: &mut Outcome) -> Progress {
        if self.mode != DecisionMode::Wait {
            outcome.pass_gates(self.mode);
            return Progress::Continue(Step::Count);
        }
        let mut progress = GateProgress::default();
        match progress.start(outcome, self.clock) {
            true => Progress::Continue(Step::Count),
            false => Progress::Suspend(Suspension::Gates(progress)),
        }
    }

    fn may_wait(&self, outcome: &Outcome) -> bool {
        self.mode == DecisionMode::Wait && outcome.may_wait()
    }
}

impl Outcome {
    /// Ban of a key of the request: its rule and its remaining duration.
    fn banned(&self, now: Timestamp) -> Option<(usize, Duration)> {
        let enforced = self.checks.iter().filter(|check: &&RuleCheck| !check.shadow);
        enforced.into_iter().find_map(|check| {
            let bans = self.snapshot.state(check.rule).bans.as_ref()?;
            Some((check.rule, bans.remaining(check.key, now)?))
        })
    }
}
