//! Waiting for a turn where the rule says so.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use super::counts::CountedWait;
use super::decide::{self, Asking, Check, Deciding, Watched, name_for_bans, name_for_later};
use super::fleet::{self, FleetAsking, Question};
use super::gating::{Coming, Gating};
use super::outcome::{Cause, Outcome};
use super::snapshot::Snapshot;
use crate::algorithm;
use crate::clock::{ClockHandle, Sleep};
use crate::decision::{Decision, Verdict};
use crate::limiter::{Inner, NO_STATE, Reason};
use crate::rule::Request;
use crate::table::KeyHash;
use crate::time::Timestamp;
use crate::wait::{Asked, InLine, Turn, block_on};

/// A request that is decided, or waits to be. Await it for the [`Outcome`], or wait for it with
/// [`Admission::blocking`].
///
/// A request that several rules refuse waits in the line of the one with the longest wait, provided
/// that every one of them lets it wait, and no longer than any of them lets it. First in, first out
/// holds within that line: whoever is first in it may pass callers who wait for another rule's key, as
/// two who waited for each other's line would otherwise never move. Dropping it leaves the line, and
/// gives back the place that a leaky bucket has promised.
#[must_use = "futures do nothing unless polled"]
pub struct Admission(State);

#[expect(clippy::large_enum_variant, reason = "nearly all are decided at once, and a box would be a detour")]
enum State {
    Decided(Option<Outcome>),
    /// Admitted, but for a pause.
    Pausing(Box<Pause>),
    Waiting(Box<InLine<RuleTurn>>),
    /// The store is asked about the rules of the whole fleet.
    Asking(Box<FleetAsking>),
    /// Everything else has let it pass.
    Gating(Box<Gating>),
}

impl State {
    /// Of what was decided at `now`, and counted unless there are gates before it.
    fn of(outcome: Outcome, now: Timestamp, clock: &ClockHandle) -> Self {
        match outcome.verdict {
            Verdict::Wait(pause) => {
                let counted = outcome.longest_pause().map(|rule| outcome.count_wait(rule, now, clock));
                let (promised, sleep) = (Promised(Some(outcome)), clock.sleep_until(now + pause));
                Self::Pausing(Box::new(Pause { promised, sleep, clock: clock.clone(), _counted: counted }))
            }
            _ => Self::past_pause(outcome, clock),
        }
    }

    /// Of what has no pause to sit out any more.
    fn past_pause(outcome: Outcome, clock: &ClockHandle) -> Self {
        if !outcome.is_gated() {
            return Self::Decided(Some(outcome));
        }
        let mut gating = Gating::begin(outcome, clock);
        match gating.take() {
            Some(mut outcome) => {
                outcome.count(clock.now(), None);
                Self::Decided(Some(outcome))
            }
            None => Self::Gating(Box::new(gating)),
        }
    }
}

/// A pause that is sat out.
struct Pause {
    promised: Promised,
    sleep: Sleep,
    clock: ClockHandle,
    _counted: Option<CountedWait>,
}

/// An outcome whose moment has not come yet; dropped before, it is as if it had never been.
struct Promised(Option<Outcome>);

impl Drop for Promised {
    fn drop(&mut self) {
        if let Some(outcome) = self.0.take() {
            outcome.give_back();
        }
    }
}

/// A request in line.
struct RuleTurn {
    /// The refusal so far, with everything needed to ask again.
    refused: Option<Outcome>,
    limiter: Arc<Inner>,
    /// The rule whose limiter that is.
    rule: usize,
    key: KeyHash,
    cost: u64,
    clock: ClockHandle,
    watched: Watched,
    counted: Option<CountedWait>,
    /// What the store is to be asked once it is this request's turn here.
    questions: Vec<Question>,
}

impl Admission {
    pub(super) fn new(
        snapshot: Arc<Snapshot>,
        deciding: Deciding,
        request: &Request<'_>,
        clock: &ClockHandle,
        asking: Asking,
    ) -> Self {
        // Decided where it stays: an outcome is large, and most need not be moved.
        let mut admission = Self(State::Decided(Some(Outcome::new(snapshot))));
        if let State::Decided(Some(outcome)) = &mut admission.0 {
            let now = decide::decide_uncounted(outcome, deciding, request, clock, asking);
            let is_open = fleet::decide_at_once(outcome, now);
            if !outcome.is_admitted() {
                name_for_bans(outcome, deciding, request);
            }
            let waits = asking == Asking::ToWait;
            if is_open || (waits && !outcome.is_admitted() && outcome.may_wait()) {
                name_for_later(outcome, deciding, request);
                let questions = fleet::questions(outcome, deciding, request);
                admission.hold_up(questions, is_open, asking, now, clock);
            } else if outcome.is_gated() {
                admission.go_to_gates(deciding, request, asking, now, clock);
            } else {
                outcome.count(now, Some((deciding, request)));
                if waits && matches!(outcome.verdict, Verdict::Wait(_)) {
                    admission.pause(now, clock);
                }
            }
        }
        admission
    }

    /// Lets a decided request wait for its turn here, or for what the store says.
    #[cold]
    fn hold_up(
        &mut self,
        questions: Vec<Question>,
        is_open: bool,
        asking: Asking,
        now: Timestamp,
        clock: &ClockHandle,
    ) {
        let Some(mut outcome) = self.take() else { return };
        self.0 = if is_open {
            State::Asking(Box::new(FleetAsking::begin(outcome, questions, asking, clock)))
        } else if outcome.is_refused_by_fleet() {
            State::Asking(Box::new(FleetAsking::refused(outcome, questions, clock)))
        } else if let Some(Line { limiter, rule, key, cost, longest }) = line_of(&outcome) {
            let (refused, clock, watched) = (Some(outcome), clock.clone(), Watched::new());
            let turn = RuleTurn { refused, limiter, rule, key, cost, clock, watched, counted: None, questions };
            State::Waiting(Box::new(InLine::new(turn, Some(longest))))
        } else {
            outcome.count(now, None);
            State::Decided(Some(outcome))
        };
    }

    /// Brings a request to its gates that everything else has admitted.
    #[cold]
    fn go_to_gates(
        &mut self,
        deciding: Deciding,
        request: &Request<'_>,
        asking: Asking,
        now: Timestamp,
        clock: &ClockHandle,
    ) {
        let Some(mut outcome) = self.take() else { return };
        let decided = |outcome: &mut Outcome| {
            if !outcome.is_admitted() {
                name_for_bans(outcome, deciding, request);
            }
            outcome.count(now, Some((deciding, request)));
        };
        if asking == Asking::AtOnce {
            outcome.pass_gates(asking.into());
            decided(&mut outcome);
            self.0 = State::Decided(Some(outcome));
            return;
        }
        if matches!(outcome.verdict, Verdict::Wait(_)) {
            name_for_later(&mut outcome, deciding, request);
            self.0 = State::of(outcome, now, clock);
            return;
        }
        let mut gating = Gating::begin(outcome, clock);
        self.0 = match gating.take() {
            Some(mut outcome) => {
                decided(&mut outcome);
                State::Decided(Some(outcome))
            }
            None => {
                if let Some(outcome) = gating.outcome_mut() {
                    name_for_later(outcome, deciding, request);
                }
                State::Gating(Box::new(gating))
            }
        };
    }

    /// Lets an admitted request sit out its pause.
    #[cold]
    fn pause(&mut self, now: Timestamp, clock: &ClockHandle) {
        if let Some(outcome) = self.take() {
            self.0 = State::of(outcome, now, clock);
        }
    }
}

impl Admission {
    /// The outcome, if there is nothing to wait for.
    pub fn decided(&self) -> Option<&Outcome> {
        match &self.0 {
            State::Decided(outcome) => outcome.as_ref(),
            State::Pausing(_) | State::Waiting(_) | State::Asking(_) | State::Gating(_) => None,
        }
    }

    /// Takes the outcome out, if there is nothing to wait for. Then this is done and never resolves.
    pub fn take(&mut self) -> Option<Outcome> {
        match &mut self.0 {
            State::Decided(outcome) => outcome.take(),
            State::Pausing(_) | State::Waiting(_) | State::Asking(_) | State::Gating(_) => None,
        }
    }

    /// Waits on this thread.
    pub fn blocking(self) -> Outcome {
        block_on(self)
    }
}

/// Where a refused request waits.
struct Line {
    limiter: Arc<Inner>,
    rule: usize,
    key: KeyHash,
    cost: u64,
    /// How long at most: the shortest time any refusing rule allows.
    longest: Duration,
}

fn line_of(outcome: &Outcome) -> Option<Line> {
    let Cause::Limit(rule) = outcome.cause else { return None };
    if !outcome.may_wait() {
        return None;
    }
    let check: &Check = outcome.checks.iter().find(|check| check.rule == rule)?;
    let limiter = Arc::clone(outcome.snapshot.state(rule).limiter.as_ref()?);
    let longest = outcome.longest_wait()?;
    Some(Line { limiter, rule, key: check.key, cost: check.cost, longest })
}

impl Outcome {
    /// The longest that every rule which refuses lets the request wait.
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        self.refusing().filter_map(|rule| Some(rule.on_limit.queue?.max_wait)).min()
    }

    /// The rule that asks for the longest pause.
    fn longest_pause(&self) -> Option<usize> {
        let pause = |check: &Check| match check.said.as_ref()?.ruling.check {
            algorithm::Check::After(pause) => Some((pause, check.rule)),
            _ => None,
        };
        let longest = self.checks.iter().filter(|check| !check.shadow).filter_map(pause).max();
        longest.map(|(_, rule)| rule)
    }

    /// Counts from now on how long this rule lets the request wait.
    pub(super) fn count_wait(&self, rule: usize, now: Timestamp, clock: &ClockHandle) -> CountedWait {
        CountedWait::begin(&self.snapshot.state(rule).counters, clock, now)
    }
}

impl Turn for RuleTurn {
    type Pass = Outcome;
    type Refusal = Option<Outcome>;

    fn limiter(&self) -> &Arc<Inner> {
        &self.limiter
    }

    fn key(&self) -> KeyHash {
        self.key
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn ask(&mut self, now: Timestamp, waker: &Waker) -> Asked<Outcome> {
        let Some(mut outcome) = self.refused.take() else { return Asked::Refused(NO_STATE) };
        decide::rule_on(&mut outcome, now, Asking::ToWait);
        outcome.conclude();
        while !outcome.is_admitted() && outcome.watch_other_holders(&self.limiter, waker, &mut self.watched) {
            // What is held elsewhere may have been given back before anybody knew that we wait for it.
            decide::rule_on(&mut outcome, now, Asking::ToWait);
            outcome.conclude();
        }
        if outcome.is_admitted() {
            if self.questions.is_empty() && !outcome.is_gated() {
                outcome.count(now, None);
            }
            return Asked::Admitted(outcome);
        }
        let decision = Decision { verdict: outcome.verdict, ..NO_STATE };
        let waits = outcome.may_wait();
        self.refused = Some(outcome);
        if waits { Asked::NotYet(decision) } else { Asked::Refused(decision) }
    }

    fn longest(&self) -> Option<Duration> {
        self.refused.as_ref().and_then(Outcome::longest_wait)
    }

    fn joined(&mut self, now: Timestamp) {
        let counted = |outcome: &Outcome| outcome.count_wait(self.rule, now, &self.clock);
        self.counted = self.refused.as_ref().map(counted);
    }

    fn refuse(&mut self, decision: Decision, _reason: Reason) -> Option<Outcome> {
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
                State::Decided(outcome) => {
                    // Polled again after it was ready: there is nothing more to come.
                    return outcome.take().map_or(Poll::Pending, Poll::Ready);
                }
                State::Pausing(pause) => match Pin::new(&mut pause.sleep).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => {
                        let clock = pause.clock.clone();
                        let promised = pause.promised.0.take();
                        self.0 = promised.map_or(State::Decided(None), |outcome| State::past_pause(outcome, &clock));
                    }
                },
                State::Waiting(line) => match Pin::new(&mut **line).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(outcome)) => {
                        let RuleTurn { clock, questions, .. } = line.turn_mut();
                        self.0 = go_on(outcome, std::mem::take(questions), &clock.clone());
                    }
                    Poll::Ready(Err(outcome)) => self.0 = State::Decided(outcome),
                },
                State::Gating(gating) => {
                    let outcome = ready!(Pin::new(&mut **gating).poll(context));
                    self.0 = State::Decided(Some(outcome));
                }
                State::Asking(asking) => match Pin::new(&mut **asking).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready((outcome, now)) => {
                        self.0 = match asking.waits() {
                            true => State::of(outcome, now, &asking.clock().clone()),
                            false => State::Decided(Some(past_gates(outcome, now))),
                        };
                    }
                },
            }
        }
    }
}

/// The request past its gates, if it has any, without waiting there.
fn past_gates(mut outcome: Outcome, now: Timestamp) -> Outcome {
    if outcome.is_gated() {
        outcome.pass_gates(Coming::Untimed);
        outcome.count(now, None);
    }
    outcome
}

/// What comes after a request's turn here: the store, if a rule is counted there.
fn go_on(mut outcome: Outcome, questions: Vec<Question>, clock: &ClockHandle) -> State {
    let now = clock.now();
    if questions.is_empty() {
        return State::of(outcome, now, clock);
    }
    if fleet::decide_at_once(&mut outcome, now) {
        return State::Asking(Box::new(FleetAsking::begin(outcome, questions, Asking::ToWait, clock)));
    }
    if !outcome.is_admitted() {
        return State::Asking(Box::new(FleetAsking::refused(outcome, questions, clock)));
    }
    if !outcome.is_gated() {
        outcome.count(now, None);
    }
    State::of(outcome, now, clock)
}
