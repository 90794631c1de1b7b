//! What a sluice decided about a request.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::decide::{Check, Checks, Source};
use super::fleet::FleetHeld;
use super::meter::{Meters, Pacer};
use super::snapshot::Snapshot;
use crate::algorithm::{Entry, Status};
use crate::decision::{Decision, Verdict};
use crate::gate::{Ending, Notice, Pass};
use crate::limit::Limit;
use crate::plan::Taking;
use crate::rule::{Actual, Cost, Mode, Priority, Reply, Rule};
use crate::table::KeyHash;

/// What was decided, by what, and what is held until the request ends.
///
/// Keep it until the request has been answered: dropping it gives back the permits of concurrency
/// limits.
#[must_use = "dropping the outcome gives its permits back"]
pub struct Outcome {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) verdict: Verdict,
    pub(super) cause: Cause,
    pub(super) checks: Checks,
    /// What was taken from the store.
    pub(super) fleet: Vec<FleetHeld>,
    /// The gates it is inside of. They are told when it ends, and learn from it.
    pub(super) passes: Vec<Pass>,
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
    /// The process is under strain, and the rule at this position protects it.
    Strain(usize),
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
    /// Whether the rule's store was lost, and the rule's policy decided instead.
    pub degraded: bool,
}

impl Outcome {
    /// Nothing decided yet. Inlined, so that it is written where it stays.
    #[inline(always)]
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            snapshot,
            verdict: Verdict::Allowed,
            cause: Cause::Rules,
            checks: Checks::new(),
            fleet: Vec::new(),
            passes: Vec::new(),
        }
    }

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

    /// The rules it was decided by.
    pub fn rules(&self) -> &[Rule] {
        self.snapshot.rules()
    }

    /// Which set of rules that was: no other set in this process has the same number. For adapters that
    /// keep something prepared for each rule.
    pub fn edition(&self) -> u64 {
        self.snapshot.edition()
    }

    /// What an adapter keeps prepared for the rules it was decided by: made by the first who asks, for all later
    /// rules before they are put in force, and let go of with the rules. There is one place for it: `None` if
    /// something of another type has been put there.
    ///
    /// ```
    /// use sluicegate_engine::{Sluice, rule::{Request, Rule}};
    ///
    /// let sluice = Sluice::builder().rule(Rule::new("total", ["1/1m".parse()?])).build()?;
    /// let outcome = sluice.decide(&Request::new("GET", "/"));
    /// let shouted = outcome.prepared(|rules| rules.iter().map(|rule| rule.name.to_uppercase()).collect::<Vec<_>>());
    /// assert_eq!(shouted, Some(&vec!["TOTAL".to_owned()]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepared<T: Any + Send + Sync>(&self, prepare: fn(&[Rule]) -> T) -> Option<&T> {
        self.snapshot.prepared(prepare)
    }

    /// The rule that refused.
    pub fn rule(&self) -> Option<&Rule> {
        match self.cause {
            Cause::Ban(rule) | Cause::Limit(rule) | Cause::Strain(rule) => self.snapshot.rules().get(rule),
            Cause::Rules | Cause::AllowList(_) | Cause::DenyList(_) => None,
        }
    }

    /// The limit that refused.
    pub fn limit(&self) -> Option<&Limit> {
        let Cause::Limit(rule) = self.cause else { return None };
        let check = self.checks.iter().find(|check| check.rule == rule)?;
        self.snapshot.rules().get(rule)?.limits.get(check.said.as_ref()?.ruling.limit)
    }

    /// What every matching rule said, in the order of the rules; none after a list or a ban decided.
    pub fn decisions(&self) -> impl Iterator<Item = (&Rule, RuleDecision)> {
        self.checks.iter().filter_map(|check| {
            let said = check.said.as_ref()?;
            let decision =
                Decision { verdict: said.ruling.check.verdict(), limit: said.ruling.limit, status: said.status };
            let said =
                RuleDecision { rule: check.rule, decision, shadow: check.shadow, degraded: said.source.is_degraded() };
            Some((self.snapshot.rules().get(check.rule)?, said))
        })
    }

    /// A hash of the key that the rule at this position counts the request under, if it was asked: for logs,
    /// which must not show keys. The same key has another hash in another process.
    pub fn key_hash(&self, rule: usize) -> Option<u64> {
        self.checks.iter().find(|check| check.rule == rule).map(|check| check.key.0)
    }

    /// Rules in shadow mode that would have refused.
    pub fn would_refuse(&self) -> impl Iterator<Item = (&Rule, RuleDecision)> {
        self.decisions().filter(|(_, said)| said.shadow && !said.decision.is_admitted())
    }

    /// Whether a rule was decided without the store that counts it.
    pub fn is_degraded(&self) -> bool {
        self.checks.iter().any(Check::is_degraded)
    }

    /// What to answer instead, if the rule that refused says so.
    pub fn reply(&self) -> Option<&Reply> {
        self.rule()?.on_limit.reply.as_ref()
    }

    /// What is said about the strain the request is refused for: the readings and what follows from them. Whoever tells
    /// of a refusal tells the [reason](Notice::reason) in it. `None` if it is refused for something else, or if nobody
    /// has said why.
    pub fn strain(&self) -> Option<Arc<Notice>> {
        let Cause::Strain(rule) = self.cause else { return None };
        let notice = self.snapshot.state(rule).gate.as_ref()?.notice();
        (!notice.reason.is_empty()).then_some(notice)
    }

    /// Notes how the request went as soon as that is known, for rules that protect the process. Unless something is
    /// noted, it has been answered well by the time this is dropped.
    pub fn note(&mut self, ending: Ending) {
        self.passes.iter_mut().for_each(|pass| pass.note(ending));
    }

    /// Notes how it went, and leaves the gates of rules that protect the process: what goes on after this is no request
    /// that somebody works on. Who talks over a WebSocket for hours would keep a place from others. Permits stay held.
    pub fn leave_gates(&mut self, ending: Ending) {
        self.note(ending);
        self.passes.clear();
    }

    /// The highest class any matching rule gives the request.
    pub fn priority(&self) -> Priority {
        class_of(&self.snapshot, &self.checks)
    }

    /// What meters the bytes of the request and its answer: the rules that pace them, if it is admitted.
    pub fn meters(&self) -> Meters {
        match self.snapshot.is_metering() && self.is_admitted() {
            true => Meters::new(self.pacers()),
            false => Meters::default(),
        }
    }

    fn pacers(&self) -> impl Iterator<Item = (&Arc<Pacer>, KeyHash)> {
        let enforced = self.checks.iter().filter(|check| !check.shadow);
        enforced.filter_map(|check| Some((self.snapshot.state(check.rule).pacer.as_ref()?, check.key)))
    }

    /// Ends the request with what it really cost, for the rules that reserved an estimate and are
    /// [told](Actual::Told).
    pub fn settle(self, actual: u64) {
        self.settle_by(|rule| match rule.cost {
            Cost::Estimate { actual: Actual::Told, .. } => Some(actual),
            _ => None,
        });
    }

    /// Ends the request with what it really cost each of the rules that reserved an estimate. `None`: that
    /// is not known, and what was reserved stands.
    pub fn settle_by(mut self, actual: impl Fn(&Rule) -> Option<u64>) {
        self.end(|rule, reserved| match rule.cost {
            Cost::Estimate { .. } => actual(rule).unwrap_or(reserved),
            Cost::Fixed(_) | Cost::Attribute(_) => reserved,
        });
    }

    /// Ends the request with what it really cost, where [the request's own cost](crate::rule::Request::cost) was
    /// the estimate. Rules with a fixed cost are settled to that many times `actual`, rules with an estimate that
    /// are [told](Actual::Told) to `actual` itself; for all others what was taken stands.
    ///
    /// Windows are put right exactly, and so are rules with an estimate. A bucket of a rule with a fixed cost gives
    /// back what was too much only if nobody has taken from it since: what came later could not be told apart from it.
    pub fn settle_request(mut self, actual: u64) {
        self.end(|rule, taken| match rule.cost {
            Cost::Fixed(cost) => cost.saturating_mul(actual),
            Cost::Estimate { actual: Actual::Told, .. } => actual,
            Cost::Estimate { .. } | Cost::Attribute(_) => taken,
        });
    }

    /// Undoes it: what was taken from every rule goes back, as far as that can be told apart from what
    /// others took since.
    pub fn give_back(mut self) {
        self.end(|_, _| 0);
        self.passes.drain(..).for_each(Pass::give_back);
    }

    /// Gives back what somebody took before under the same keys, nobody knows when: for callers who were told what
    /// a request really cost only after its outcome was gone. Ask with a cost of zero first.
    ///
    /// `amount` is a [request's own cost](crate::rule::Request::cost): a rule with a fixed cost gets that many times
    /// as much. Rules that learn the cost from an estimate or an attribute get `amount` itself.
    ///
    /// Windows, logs and token buckets take it back; what paces (leaky buckets, warm-ups) keeps it, as those behind
    /// have been told when to go. Slices of a limit that the fleet shares may have been taken elsewhere, and keep it
    /// too. Nobody gets more than the limit. What is left is told by the [decisions](Self::decisions) from then on.
    pub fn refund(&mut self, amount: u64) {
        let returned = |snapshot: &Snapshot, check: &Check| match snapshot.rules()[check.rule].cost {
            Cost::Fixed(cost) => cost.saturating_mul(amount),
            Cost::Estimate { .. } | Cost::Attribute(_) => amount,
        };
        for held in std::mem::take(&mut self.fleet) {
            let amounts: Vec<u64> =
                held.checks.iter().map(|index| returned(&self.snapshot, &self.checks[*index])).collect();
            held.taken.refund(&amounts);
        }
        for check in &mut self.checks {
            let amount = returned(&self.snapshot, check);
            let Some(said) = check.said.as_mut().filter(|said| said.ruling.admits()) else { continue };
            let state = self.snapshot.state(check.rule);
            let limiter = match said.source {
                Source::Local => state.limiter.clone(),
                Source::Share => state.fleet.as_ref().and_then(|fleet| fleet.share()),
                Source::Store => {
                    // What becomes of it there is not waited for.
                    let limits = &self.snapshot.rules()[check.rule].limits;
                    if limits.get(said.ruling.limit).is_some_and(Limit::takes_back) {
                        let Status { limit, remaining, .. } = said.status;
                        said.status.remaining = remaining.saturating_add(amount).min(limit);
                    }
                    None
                }
                Source::Lease(_) | Source::Assumed => None,
            };
            if let Some(limiter) = limiter {
                limiter.refund(check.key, amount);
                let look = limiter.take(check.key, limiter.clock.now(), 0, Entry::Enqueue).decision;
                said.status = look.status;
            }
        }
    }

    /// Ends everything that was taken; `actual` says what it really cost.
    pub(super) fn end(&mut self, actual: impl Fn(&Rule, u64) -> u64) {
        let Self { snapshot, checks, fleet, .. } = self;
        let actual = |check: &Check| actual(&snapshot.rules()[check.rule], check.cost);
        for held in fleet.drain(..) {
            let actual: Vec<u64> = held.checks.iter().map(|index| actual(&checks[*index])).collect();
            held.taken.end(&actual);
        }
        for check in checks {
            let actual = actual(check);
            let state = snapshot.state(check.rule);
            let Some(said) = &mut check.said else { continue };
            if let Source::Lease(mark) = said.source
                && said.ruling.admits()
                && let Some(fleet) = &state.fleet
            {
                // Settled: what it is now does not change any more.
                said.source = Source::Store;
                fleet.limits.settle(check.key.0, check.cost, actual, mark);
            }
            let Some(taking) = said.taken.take() else { continue };
            let limiter = match said.source {
                Source::Share => state.fleet.as_ref().and_then(|fleet| fleet.share()),
                _ => state.limiter.clone(),
            };
            if let Some(limiter) = limiter {
                limiter.end(check.key, &taking, actual);
            }
        }
    }

    /// Whether it must be kept until the request has ended: it holds permits, or an estimate that is to
    /// be settled, or is inside a gate, or has [meters](Self::meters) for the answer's bytes. Otherwise it may be dropped at any
    /// time.
    pub fn is_held(&self) -> bool {
        !self.passes.is_empty()
            || self.holds()
            || (self.snapshot.is_metering() && self.is_admitted() && self.pacers().next().is_some())
    }

    /// Whether it has something to give back or to settle.
    fn holds(&self) -> bool {
        let is_estimate = |check: &Check| matches!(self.snapshot.rules()[check.rule].cost, Cost::Estimate { .. });
        let is_held = |check: &Check| {
            let Some(said) = &check.said else { return false };
            said.taken.as_ref().is_some_and(Taking::is_held)
                || (matches!(said.source, Source::Lease(_)) && said.ruling.admits() && is_estimate(check))
        };
        let is_held_there = |held: &FleetHeld| {
            held.taken.is_held() || held.checks.iter().any(|index| is_estimate(&self.checks[*index]))
        };
        self.checks.iter().any(is_held) || self.fleet.iter().any(is_held_there)
    }
}

/// The highest class that any of the rules which ask gives a request.
pub(super) fn class_of(snapshot: &Snapshot, checks: &[Check]) -> Priority {
    let of_rule = |check: &Check| snapshot.rules().get(check.rule).map(|rule| rule.priority);
    let classes = checks.iter().filter(|check| !check.shadow).filter_map(of_rule);
    classes.filter(|class| *class != Priority::Normal).max().unwrap_or_default()
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if self.holds() {
            self.end(|_, cost| cost);
        }
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("verdict", &self.verdict)
            .field("cause", &self.cause)
            .field("decisions", &self.decisions().map(|(_, said)| said).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Rule {
    /// Whether the rule only watches.
    pub(super) fn is_shadow(&self) -> bool {
        self.mode == Mode::Shadow
    }
}
