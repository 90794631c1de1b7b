//! The last thing a request meets: the gates of rules that protect the process.
//!
//! By now lists, bans, limits and the store have let it pass, and what it costs has been taken. A gate is asked last,
//! so that nobody is counted there who would have been refused anyway. If it is shut, everything goes back.
//!
//! A request that meets several gates goes through one after the other, and waits at each for as long as that one
//! lets it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::counts::CountedWait;
use super::decide::{Asking, Check, Said, Source};
use super::outcome::{Cause, Outcome};
use crate::algorithm::{self, Status};
use crate::clock::ClockHandle;
use crate::decision::Verdict;
use crate::gate::{Enter, Gate, Orders, Pass, Shut};
use crate::plan::Ruling;
use crate::time::saturating_nanos;

/// When to try again if no clock can tell: places become free all the time, but others wait for them too.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How a request comes to its gates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Coming {
    /// It is kept until it has been answered, and waits where it must.
    ToWait,
    /// It is kept until it has been answered, and does not wait.
    AtOnce,
    /// Nobody will tell when it ends.
    Untimed,
}

impl From<Asking> for Coming {
    /// Of those who do not wait, nobody tells when they end: they ask for others.
    fn from(asking: Asking) -> Self {
        match asking {
            Asking::ToWait => Self::ToWait,
            Asking::AtOnce => Self::Untimed,
        }
    }
}

impl Outcome {
    /// Whether it has been let pass so far, and has gates before it.
    pub(super) fn is_gated(&self) -> bool {
        self.snapshot.is_gated() && self.is_admitted() && (0..self.checks.len()).any(|index| self.gate(index).is_some())
    }

    fn gate(&self, index: usize) -> Option<&Gate> {
        self.snapshot.state(self.checks.get(index)?.rule).gate.as_ref()
    }

    /// The gates of rules that do not only watch.
    fn gates_in_force(&self) -> impl Iterator<Item = (usize, &Gate)> {
        let in_force = (0..self.checks.len()).filter(|index| !self.checks[*index].shadow);
        in_force.filter_map(|index| Some((index, self.gate(index)?)))
    }

    /// The rate of one of several gates is used up: whoever went through another one first would use up its rate for
    /// nothing. Answers whether it is refused there.
    fn is_refused_by_rate(&mut self, coming: Coming) -> bool {
        let class = self.priority();
        let is_shut = |gate: &Gate| matches!(gate.look(class), Err(Shut { retry_after: Some(_) }));
        if self.gates_in_force().nth(1).is_none() {
            return false;
        }
        let Some(index) = self.gates_in_force().find_map(|(index, gate)| is_shut(gate).then_some(index)) else {
            return false;
        };
        match self.pass_gate(index, coming) {
            Some(Err(shut)) => {
                self.refuse_at_gate(index, shut);
                true
            }
            // Somebody has made room for it just now.
            Some(Ok(pass)) => {
                pass.give_back();
                false
            }
            None => false,
        }
    }

    /// Goes through all gates without waiting.
    pub(super) fn pass_gates(&mut self, coming: Coming) {
        if self.is_refused_by_rate(coming) {
            return;
        }
        for index in 0..self.checks.len() {
            match self.pass_gate(index, coming) {
                None => {}
                Some(Ok(pass)) => self.passes.push(pass),
                Some(Err(shut)) => return self.refuse_at_gate(index, shut),
            }
        }
    }

    /// Goes through one gate; `None`: nothing stands in the way there, and nothing is to be kept.
    fn pass_gate(&mut self, index: usize, coming: Coming) -> Option<Result<Pass, Shut>> {
        let class = self.priority();
        let gate = self.gate(index)?;
        match (self.checks[index].shadow, coming) {
            (false, Coming::Untimed) => gate.try_pass(class).err().map(Err),
            (false, _) => Some(gate.try_enter(class)),
            (true, _) => {
                let (pass, held_back) = gate.watch(class);
                if held_back {
                    let status = status(&gate.orders());
                    self.checks[index].would_be_refused(TRY_AGAIN, status);
                }
                match coming {
                    Coming::Untimed => {
                        pass.give_back();
                        None
                    }
                    Coming::ToWait | Coming::AtOnce => Some(Ok(pass)),
                }
            }
        }
    }

    /// One of its gates is shut: what was taken goes back.
    fn refuse_at_gate(&mut self, index: usize, shut: Shut) {
        self.end(|_, _| 0);
        self.passes.drain(..).for_each(Pass::give_back);
        let status = self.gate(index).map(|gate| status(&gate.orders())).unwrap_or_default();
        let wait = shut.retry_after.unwrap_or(TRY_AGAIN);
        let Some(refusing) = self.checks.get_mut(index) else { return };
        refusing.would_be_refused(wait, status);
        self.cause = Cause::Strain(refusing.rule);
        self.verdict = Verdict::Denied { retry_after: Some(wait) };
    }
}

impl Check {
    /// Its rule says no by its gate. What its limits have given stays taken until it is given back.
    fn would_be_refused(&mut self, wait: Duration, status: Status) {
        let check = algorithm::Check::NotBefore(saturating_nanos(wait).max(1));
        let taken = self.said.take().and_then(|said| said.taken);
        self.said = Some(Said { ruling: Ruling { check, limit: 0 }, status, taken, source: Source::Local });
    }
}

/// How much there would have been, for headers.
fn status(orders: &Orders) -> Status {
    let (limit, reset) = match (orders.rate, orders.places) {
        (Some(height), _) => (height.count as u64, saturating_nanos(height.window)),
        (None, Some(places)) => (places as u64, saturating_nanos(TRY_AGAIN)),
        (None, None) => (0, 0),
    };
    Status { limit, remaining: 0, reset }
}

/// A request on its way through its gates. Dropped on the way, it is as if it had never come.
pub(super) struct Gating {
    outcome: Option<Outcome>,
    /// The gate it stands at.
    at: usize,
    entering: Option<(Enter, CountedWait)>,
    clock: ClockHandle,
}

impl Gating {
    /// Begins, and goes as far as it can.
    pub(super) fn begin(outcome: Outcome, clock: &ClockHandle) -> Self {
        let mut gating = Self { outcome: Some(outcome), at: 0, entering: None, clock: clock.clone() };
        if gating.outcome.as_mut().is_some_and(|outcome| outcome.is_refused_by_rate(Coming::AtOnce)) {
            return gating;
        }
        gating.go_on();
        gating
    }

    /// Goes on until it has to wait, is refused, or is through.
    fn go_on(&mut self) {
        let Some(outcome) = &mut self.outcome else { return };
        while self.at < outcome.checks.len() && outcome.is_admitted() {
            let Check { rule, shadow, .. } = outcome.checks[self.at];
            match outcome.gate(self.at) {
                Some(gate) if !shadow => {
                    let mut entering = gate.enter(outcome.priority());
                    let Some(entered) = entering.take() else {
                        let counted = outcome.count_wait(rule, self.clock.now(), &self.clock);
                        self.entering = Some((entering, counted));
                        return;
                    };
                    outcome.hear_gate(self.at, entered);
                }
                Some(_) => {
                    if let Some(Ok(pass)) = outcome.pass_gate(self.at, Coming::ToWait) {
                        outcome.passes.push(pass);
                    }
                }
                None => {}
            }
            self.at += 1;
        }
    }

    /// What became of it, if there is nothing more to wait for. It has yet to be counted.
    pub(super) fn take(&mut self) -> Option<Outcome> {
        if self.entering.is_some() { None } else { self.outcome.take() }
    }

    /// The request that waits.
    pub(super) const fn outcome_mut(&mut self) -> Option<&mut Outcome> {
        self.outcome.as_mut()
    }
}

impl Outcome {
    fn hear_gate(&mut self, index: usize, entered: Result<Pass, Shut>) {
        match entered {
            Ok(pass) => self.passes.push(pass),
            Err(shut) => self.refuse_at_gate(index, shut),
        }
    }
}

impl Future for Gating {
    /// What was decided, counted.
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some((entering, _)) = &mut self.entering {
            let Poll::Ready(entered) = Pin::new(entering).poll(context) else { return Poll::Pending };
            self.entering = None;
            let at = self.at;
            if let Some(outcome) = &mut self.outcome {
                outcome.hear_gate(at, entered);
            }
            self.at += 1;
            self.go_on();
        }
        // Polled again after it was ready: there is nothing more to come.
        let Some(mut outcome) = self.take() else { return Poll::Pending };
        outcome.count(self.clock.now(), None);
        Poll::Ready(outcome)
    }
}

impl Drop for Gating {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome.take() {
            outcome.give_back();
        }
    }
}
