//! Waiting for a turn where the rule says so.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::decide::{self, Check};
use super::outcome::{Cause, Outcome};
use crate::algorithm::Entry;
use crate::clock::ClockHandle;
use crate::decision::Decision;
use crate::limiter::{Inner, NO_STATE, Reason};
use crate::table::KeyHash;
use crate::time::Timestamp;
use crate::wait::{Asked, InLine, Turn};

/// A request that is decided, or waits to be. Await it for the [`Outcome`].
///
/// A request that several rules refuse waits in the line of the one with the longest wait, provided
/// that every one of them lets it wait. Dropping it leaves the line.
#[must_use = "futures do nothing unless polled"]
pub struct Admission(State);

enum State {
    Decided(Option<Outcome>),
    Waiting(InLine<RuleTurn>),
}

/// A request in line.
struct RuleTurn {
    /// The refusal so far, with everything needed to ask again.
    refused: Option<Outcome>,
    limiter: Arc<Inner>,
    key: KeyHash,
    cost: u64,
    clock: ClockHandle,
}

impl Admission {
    pub(super) fn new(outcome: Outcome, clock: ClockHandle) -> Self {
        let Some((turn, within)) = line_of(&outcome) else {
            return Self(State::Decided(Some(outcome)));
        };
        let (limiter, check) = turn;
        let turn = RuleTurn { key: check.0, cost: check.1, limiter, refused: Some(outcome), clock };
        Self(State::Waiting(InLine::new(turn, Some(within))))
    }
}

type Line = (Arc<Inner>, (KeyHash, u64));

/// The line a refused request may wait in, and how long.
fn line_of(outcome: &Outcome) -> Option<(Line, std::time::Duration)> {
    let Cause::Limit(rule) = outcome.cause else { return None };
    if !outcome.may_wait() {
        return None;
    }
    let queue = outcome.rule()?.on_limit.queue?;
    let check: &Check = outcome.checks.iter().find(|check| check.rule == rule)?;
    let limiter = outcome.snapshot.state(rule).limiter.as_ref()?;
    Some(((Arc::clone(limiter), (check.key, check.cost)), queue.max_wait))
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

    fn ask(&mut self, now: Timestamp) -> Asked<Outcome> {
        let Some(mut outcome) = self.refused.take() else { return Asked::Refused(NO_STATE) };
        decide::rule_on(&mut outcome, now, Entry::Depart);
        outcome.conclude();
        if outcome.is_admitted() {
            outcome.count(now);
            return Asked::Admitted(outcome);
        }
        let decision = Decision { verdict: outcome.verdict, ..NO_STATE };
        let waits = outcome.may_wait();
        self.refused = Some(outcome);
        if waits { Asked::NotYet(decision) } else { Asked::Refused(decision) }
    }

    fn refuse(&mut self, decision: Decision, _reason: Reason) -> Option<Outcome> {
        let mut outcome = self.refused.take()?;
        outcome.verdict = decision.verdict;
        outcome.count(self.clock.now());
        Some(outcome)
    }
}

impl Future for Admission {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = match &mut self.0 {
            State::Decided(outcome) => outcome.take(),
            State::Waiting(line) => match Pin::new(line).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(outcome)) => Some(outcome),
                Poll::Ready(Err(outcome)) => outcome,
            },
        };
        // Polled again after it was ready: there is nothing more to come.
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}
