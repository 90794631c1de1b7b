//! Overload gates, the last step of an admission.
//!
//! Lists, bans, limits and the store have admitted the request, and its cost is charged. Gates come last so
//! that requests refused anyway are not counted there. If a gate is closed, all charges are given back.
//!
//! A request with several gates passes them one after the other and waits at each for as long as that gate
//! allows.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::check::{DecisionSource, RuleCheck, RuleCheckResult};
use super::counts::WaitTimer;
use super::outcome::{Cause, Outcome};
use super::pipeline::DecisionMode;
use crate::algorithm::{self, Status};
use crate::clock::ClockHandle;
use crate::decision::Verdict;
use crate::limit_set::Evaluation;
use crate::overload::{Enter, Gate, GateClosed, GateLimits, GatePermit};
use crate::time::saturating_nanos;

/// Retry time if the clock alone does not decide: slots are freed all the time, but other requests compete for
/// them.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

impl Outcome {
    /// True if the request is admitted and has gates to pass.
    pub(super) fn is_gated(&self) -> bool {
        self.snapshot.is_gated() && self.is_admitted() && (0..self.checks.len()).any(|index| self.gate(index).is_some())
    }

    fn gate(&self, index: usize) -> Option<&Gate> {
        self.snapshot.state(self.checks.get(index)?.rule).gate.as_ref()
    }

    /// Gates of enforced rules.
    fn enforced_gates(&self) -> impl Iterator<Item = (usize, &Gate)> {
        let enforced = (0..self.checks.len()).filter(|index| !self.checks[*index].shadow);
        enforced.filter_map(|index| Some((index, self.gate(index)?)))
    }

    /// Refuses the request if the rate of one of several gates is used up, before it consumes the rate of another.
    /// Returns true if it was refused.
    fn is_refused_by_rate(&mut self, mode: DecisionMode) -> bool {
        let class = self.priority();
        let is_closed_by_rate = |gate: &Gate| matches!(gate.peek(class), Err(GateClosed { retry_after: Some(_) }));
        if self.enforced_gates().nth(1).is_none() {
            return false;
        }
        let Some(index) = self.enforced_gates().find_map(|(index, gate)| is_closed_by_rate(gate).then_some(index))
        else {
            return false;
        };
        match self.pass_gate(index, mode) {
            Some(Err(closed)) => {
                self.refuse_at_gate(index, closed);
                true
            }
            // The gate has opened in the meantime.
            Some(Ok(permit)) => {
                permit.give_back();
                false
            }
            None => false,
        }
    }

    /// Passes all gates without waiting.
    pub(super) fn pass_gates(&mut self, mode: DecisionMode) {
        if self.is_refused_by_rate(mode) {
            return;
        }
        for index in 0..self.checks.len() {
            match self.pass_gate(index, mode) {
                None => {}
                Some(Ok(permit)) => self.gate_permits.push(permit),
                Some(Err(closed)) => return self.refuse_at_gate(index, closed),
            }
        }
    }

    /// Passes one gate; `None` if there is no gate, or if it is open and there is no permit to keep.
    fn pass_gate(&mut self, index: usize, mode: DecisionMode) -> Option<Result<GatePermit, GateClosed>> {
        let class = self.priority();
        let gate = self.gate(index)?;
        match (self.checks[index].shadow, mode) {
            (false, DecisionMode::Remote) => gate.try_pass(class).err().map(Err),
            (false, _) => Some(gate.try_enter(class)),
            (true, _) => {
                let (permit, would_refuse) = gate.enter_shadow(class);
                if would_refuse {
                    let status = status(&gate.limits());
                    self.checks[index].set_refused(DEFAULT_RETRY_AFTER, status);
                }
                match mode {
                    DecisionMode::Remote => {
                        permit.give_back();
                        None
                    }
                    DecisionMode::Wait | DecisionMode::Immediate => Some(Ok(permit)),
                }
            }
        }
    }

    /// Refuses the request at a closed gate and gives back all charges.
    fn refuse_at_gate(&mut self, index: usize, closed: GateClosed) {
        self.end(|_, _| 0);
        self.gate_permits.drain(..).for_each(GatePermit::give_back);
        let status = self.gate(index).map(|gate| status(&gate.limits())).unwrap_or_default();
        let wait = closed.retry_after.unwrap_or(DEFAULT_RETRY_AFTER);
        let Some(refusing) = self.checks.get_mut(index) else { return };
        refusing.set_refused(wait, status);
        self.cause = Cause::Overload(refusing.rule);
        self.verdict = Verdict::Denied { retry_after: Some(wait) };
    }
}

impl RuleCheck {
    /// Marks the check as refused by its gate. The charge of its limits stands until it is given back.
    fn set_refused(&mut self, wait: Duration, status: Status) {
        let check = algorithm::Check::NotBefore(saturating_nanos(wait).max(1));
        let taken = self.result.take().and_then(|result| result.charge);
        self.result = Some(RuleCheckResult {
            evaluation: Evaluation { check, limit: 0 },
            status,
            charge: taken,
            source: DecisionSource::Local,
        });
    }
}

/// Limit status for response headers.
fn status(limits: &GateLimits) -> Status {
    let (limit, reset) = match (limits.rate, limits.max_in_flight) {
        (Some(rate), _) => (rate.count as u64, saturating_nanos(rate.window)),
        (None, Some(max_in_flight)) => (max_in_flight as u64, saturating_nanos(DEFAULT_RETRY_AFTER)),
        (None, None) => (0, 0),
    };
    Status { limit, remaining: 0, reset }
}

/// Progress of a request through its gates, one after the other.
#[derive(Default)]
pub(super) struct GateProgress {
    /// Index of the current gate.
    index: usize,
    entering: Option<(Enter, WaitTimer)>,
}

impl GateProgress {
    /// Starts and advances as far as possible. Returns true if the request has passed all gates or is refused.
    pub(super) fn start(&mut self, outcome: &mut Outcome, clock: &ClockHandle) -> bool {
        outcome.is_refused_by_rate(DecisionMode::Immediate) || self.advance(outcome, clock)
    }

    /// Advances until the request has to wait, is refused, or has passed all gates. Returns false if it waits.
    fn advance(&mut self, outcome: &mut Outcome, clock: &ClockHandle) -> bool {
        while self.index < outcome.checks.len() && outcome.is_admitted() {
            let RuleCheck { rule, shadow, .. } = outcome.checks[self.index];
            match outcome.gate(self.index) {
                Some(gate) if !shadow => {
                    let mut entering = gate.enter(outcome.priority());
                    let Some(entered) = entering.take() else {
                        let timer = outcome.start_wait_timer(rule, clock.now(), clock);
                        self.entering = Some((entering, timer));
                        return false;
                    };
                    outcome.apply_gate_result(self.index, entered);
                }
                Some(_) => {
                    if let Some(Ok(permit)) = outcome.pass_gate(self.index, DecisionMode::Wait) {
                        outcome.gate_permits.push(permit);
                    }
                }
                None => {}
            }
            self.index += 1;
        }
        true
    }

    /// Polls until the request has passed all gates or is refused.
    pub(super) fn poll(&mut self, outcome: &mut Outcome, clock: &ClockHandle, context: &mut Context<'_>) -> Poll<()> {
        while let Some((entering, _)) = &mut self.entering {
            let entered = ready!(Pin::new(entering).poll(context));
            self.entering = None;
            outcome.apply_gate_result(self.index, entered);
            self.index += 1;
            self.advance(outcome, clock);
        }
        Poll::Ready(())
    }
}

impl Outcome {
    fn apply_gate_result(&mut self, index: usize, entered: Result<GatePermit, GateClosed>) {
        match entered {
            Ok(permit) => self.gate_permits.push(permit),
            Err(closed) => self.refuse_at_gate(index, closed),
        }
    }
}
