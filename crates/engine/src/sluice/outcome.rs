//! What a sluice decided about a request.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::decide::Check;
use super::snapshot::Snapshot;
use crate::decision::{Decision, Verdict};
use crate::limit::Limit;
use crate::limiter::Pass;
use crate::rule::{Cost, Mode, Priority, Reply, Rule};

/// What was decided, by what, and what is held until the request ends.
///
/// Keep it until the request has been answered: dropping it gives back the permits of concurrency
/// limits.
#[must_use = "dropping the outcome gives its permits back"]
pub struct Outcome {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) verdict: Verdict,
    pub(super) cause: Cause,
    pub(super) decisions: SmallVec<[RuleDecision; 2]>,
    pub(super) passes: SmallVec<[(usize, Pass); 2]>,
    pub(super) checks: SmallVec<[Check; 2]>,
}

/// What a verdict hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No rule matched, or all that did agreed.
    Rules,
    /// This entry of the allow list.
    AllowList(usize),
    /// This entry of the deny list.
    DenyList(usize),
    /// A ban by the rule at this position.
    Ban(usize),
    /// A limit of the rule at this position.
    Limit(usize),
}

/// What one rule said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleDecision {
    /// The rule's position.
    pub rule: usize,
    /// Its decision, with the limit it hangs on.
    pub decision: Decision,
    /// Whether the rule only watches.
    pub shadow: bool,
}

impl Outcome {
    /// How the request fares.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether the request may go on, at once or after its pause.
    pub const fn is_admitted(&self) -> bool {
        self.verdict.is_admitted()
    }

    /// What the verdict hangs on.
    pub const fn cause(&self) -> Cause {
        self.cause
    }

    /// The rule that refused.
    pub fn rule(&self) -> Option<&Rule> {
        match self.cause {
            Cause::Ban(rule) | Cause::Limit(rule) => self.snapshot.rules().get(rule),
            Cause::Rules | Cause::AllowList(_) | Cause::DenyList(_) => None,
        }
    }

    /// The limit that refused.
    pub fn limit(&self) -> Option<&Limit> {
        let Cause::Limit(rule) = self.cause else { return None };
        let said = self.decisions.iter().find(|said| said.rule == rule)?;
        self.snapshot.rules().get(rule)?.limits.get(said.decision.limit)
    }

    /// What every matching rule said, in the order of the rules; none after a list or a ban decided.
    pub fn decisions(&self) -> impl Iterator<Item = (&Rule, &RuleDecision)> {
        self.decisions.iter().filter_map(|said| Some((self.snapshot.rules().get(said.rule)?, said)))
    }

    /// Rules in shadow mode that would have refused.
    pub fn would_refuse(&self) -> impl Iterator<Item = (&Rule, &RuleDecision)> {
        self.decisions().filter(|(_, said)| said.shadow && !said.decision.is_admitted())
    }

    /// What to answer instead, if the rule that refused says so.
    pub fn reply(&self) -> Option<&Reply> {
        self.rule()?.on_limit.reply.as_ref()
    }

    /// The highest class any matching rule gives the request.
    pub fn priority(&self) -> Priority {
        let of_rule = |check: &Check| self.snapshot.rules().get(check.rule).map(|rule| rule.priority);
        let enforced = self.checks.iter().filter_map(of_rule).filter(|class| *class != Priority::Normal);
        enforced.max().unwrap_or_default()
    }

    /// Ends the request with what it really cost, for the rules that reserved an estimate.
    pub fn settle(mut self, actual: u64) {
        for (rule, pass) in self.passes.drain(..) {
            let estimated = self.snapshot.rules().get(rule).map(|rule| &rule.cost);
            if let Some(Cost::Estimate(_)) = estimated {
                pass.settle(actual);
            }
        }
    }

    /// Undoes it: what was taken from every rule goes back.
    pub fn give_back(mut self) {
        self.passes.drain(..).for_each(|(_, pass)| pass.give_back());
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("verdict", &self.verdict)
            .field("cause", &self.cause)
            .field("decisions", &self.decisions)
            .finish_non_exhaustive()
    }
}

impl Rule {
    /// Whether the rule only watches.
    pub(super) fn is_shadow(&self) -> bool {
        self.mode == Mode::Shadow
    }
}
