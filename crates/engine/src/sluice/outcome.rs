//! Outcome of a decision.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::bandwidth::{Meters, Pacer};
use super::check::{Checks, DecisionSource, RuleCheck};
use super::cluster::StorePermit;
use super::snapshot::Snapshot;
use crate::algorithm::{AdmitMode, Status};
use crate::decision::{Decision, Verdict};
use crate::limit::Limit;
use crate::limit_set::Charge;
use crate::overload::{Completion, GatePermit, OverloadNotice};
use crate::rule::{Cost, CostSource, Mode, Priority, Reply, Rule};
use crate::table::KeyHash;

/// Decision about a request: the verdict, its cause, and the resources held until the request ends.
///
/// Keep it until the response is complete: dropping it releases the permits of concurrency limits.
#[must_use = "dropping the outcome releases its permits"]
pub struct Outcome {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) verdict: Verdict,
    pub(super) cause: Cause,
    pub(super) checks: Checks,
    /// Quota and permits taken from the store.
    pub(super) store_permits: Vec<StorePermit>,
    /// Permits of the overload gates. They measure the request and report its completion.
    pub(super) gate_permits: Vec<GatePermit>,
}

/// Cause of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No rule matched, or all matching rules admitted the request.
    Rules,
    /// Entry of the allow list.
    AllowList(usize),
    /// Entry of the deny list.
    DenyList(usize),
    /// A ban by the rule at this position.
    Ban(usize),
    /// A limit of the rule at this position.
    Limit(usize),
    /// The process is overloaded, and the rule at this position protects it.
    Overload(usize),
}

/// Decision of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleDecision {
    /// Position of the rule.
    pub rule: usize,
    /// Its decision, with the deciding limit.
    pub decision: Decision,
    /// Set for rules in shadow mode.
    pub shadow: bool,
    /// Set if the store was unavailable and the rule's failure policy decided.
    pub degraded: bool,
}

impl Outcome {
    /// Undecided outcome. Inlined so that it is constructed in place.
    #[inline(always)]
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            snapshot,
            verdict: Verdict::Allowed,
            cause: Cause::Rules,
            checks: Checks::new(),
            store_permits: Vec::new(),
            gate_permits: Vec::new(),
        }
    }

    /// Verdict on the request.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// True if the request may proceed, immediately or after its delay.
    pub const fn is_admitted(&self) -> bool {
        self.verdict.is_admitted()
    }

    /// Cause of the verdict.
    pub const fn cause(&self) -> Cause {
        self.cause
    }

    /// Rule set that decided the request.
    pub fn rules(&self) -> &[Rule] {
        self.snapshot.rules()
    }

    /// Generation of that rule set, unique in this process. For adapters that cache data per rule.
    pub fn generation(&self) -> u64 {
        self.snapshot.generation()
    }

    /// Data that an adapter caches for the rule set. The first call creates it; for later rule sets it is created
    /// before they become active, and it is dropped with the rules. There is one slot: `None` if it holds a value
    /// of another type.
    ///
    /// ```
    /// use sluicegate_engine::{Sluice, rule::{Request, Rule}};
    ///
    /// let sluice = Sluice::builder().rule(Rule::new("total", ["1/1m".parse()?])).build()?;
    /// let outcome = sluice.decide(&Request::new("GET", "/"));
    /// let upper = outcome.extension(|rules| rules.iter().map(|rule| rule.name.to_uppercase()).collect::<Vec<_>>());
    /// assert_eq!(upper, Some(&vec!["TOTAL".to_owned()]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn extension<T: Any + Send + Sync>(&self, prepare: fn(&[Rule]) -> T) -> Option<&T> {
        self.snapshot.extension(prepare)
    }

    /// Rule that refused the request.
    pub fn rule(&self) -> Option<&Rule> {
        match self.cause {
            Cause::Ban(rule) | Cause::Limit(rule) | Cause::Overload(rule) => self.snapshot.rules().get(rule),
            Cause::Rules | Cause::AllowList(_) | Cause::DenyList(_) => None,
        }
    }

    /// Limit that refused the request.
    pub fn limit(&self) -> Option<&Limit> {
        let Cause::Limit(rule) = self.cause else { return None };
        let check = self.checks.iter().find(|check| check.rule == rule)?;
        self.snapshot.rules().get(rule)?.limits.get(check.result.as_ref()?.evaluation.limit)
    }

    /// Decision of every matching rule, in rule order. Empty if a list or a ban decided.
    pub fn decisions(&self) -> impl Iterator<Item = (&Rule, RuleDecision)> {
        self.checks.iter().filter_map(|check| {
            let result = check.result.as_ref()?;
            let decision = Decision {
                verdict: result.evaluation.check.verdict(),
                limit: result.evaluation.limit,
                status: result.status,
            };
            let rule_decision = RuleDecision {
                rule: check.rule,
                decision,
                shadow: check.shadow,
                degraded: result.source.is_degraded(),
            };
            Some((self.snapshot.rules().get(check.rule)?, rule_decision))
        })
    }

    /// Hash of the key under which the rule at this position counts the request, if the rule was checked. For
    /// logs, which must not contain keys. Hashes differ between processes.
    pub fn key_hash(&self, rule: usize) -> Option<u64> {
        self.checks.iter().find(|check| check.rule == rule).map(|check| check.key.0)
    }

    /// Rules in shadow mode that would have refused.
    pub fn would_refuse(&self) -> impl Iterator<Item = (&Rule, RuleDecision)> {
        self.decisions().filter(|(_, decision)| decision.shadow && !decision.decision.is_admitted())
    }

    /// True if a rule was decided without the store that counts it.
    pub fn is_degraded(&self) -> bool {
        self.checks.iter().any(RuleCheck::is_degraded)
    }

    /// Custom response, if the refusing rule defines one.
    pub fn reply(&self) -> Option<&Reply> {
        self.rule()?.on_limit.reply.as_ref()
    }

    /// Overload notice for a request refused by overload protection: the signal readings and the conclusion drawn
    /// from them. Refusals include its [reason](OverloadNotice::reason). `None` if the request was refused for
    /// another cause or if no reason is set.
    pub fn overload_notice(&self) -> Option<Arc<OverloadNotice>> {
        let Cause::Overload(rule) = self.cause else { return None };
        let notice = self.snapshot.state(rule).gate.as_ref()?.notice();
        (!notice.reason.is_empty()).then_some(notice)
    }

    /// Records the completion of the request as soon as it is known, for overload protection. If nothing is
    /// recorded, dropping the outcome counts as success.
    pub fn record(&mut self, completion: Completion) {
        self.gate_permits.iter_mut().for_each(|permit| permit.record(completion));
    }

    /// Records the completion and leaves the overload gates: the connection no longer counts as a request in
    /// flight. A long-lived WebSocket would otherwise occupy a slot for hours. Concurrency permits stay held.
    pub fn leave_gates(&mut self, completion: Completion) {
        self.record(completion);
        self.gate_permits.clear();
    }

    /// Highest priority class that any matching rule assigns.
    pub fn priority(&self) -> Priority {
        priority_of(&self.snapshot, &self.checks)
    }

    /// Bandwidth meters for the bytes of the request and its response. Empty unless the request is admitted and
    /// rules pace it.
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

    /// Settles the request at its actual cost, for rules that reserved an estimate and expect the cost to be
    /// [reported](CostSource::Reported).
    pub fn settle(self, actual: u64) {
        self.settle_by(|rule| match rule.cost {
            Cost::Estimate { actual: CostSource::Reported, .. } => Some(actual),
            _ => None,
        });
    }

    /// Settles the request at its actual cost for each rule that reserved an estimate. `None`: the cost is unknown
    /// and the reservation stands.
    pub fn settle_by(mut self, actual: impl Fn(&Rule) -> Option<u64>) {
        self.end(|rule, reserved| match rule.cost {
            Cost::Estimate { .. } => actual(rule).unwrap_or(reserved),
            Cost::Fixed(_) | Cost::Attribute(_) => reserved,
        });
    }

    /// Settles the request at its actual cost, for callers that used [the request's own
    /// cost](crate::rule::Request::cost) as the estimate. Rules with a fixed cost are settled to that multiple of
    /// `actual`, and rules with an estimate and a [reported](CostSource::Reported) cost to `actual` itself; for all
    /// others the charge stands.
    ///
    /// Windows and rules with an estimate are corrected exactly. A bucket of a rule with a fixed cost refunds an
    /// excess only if nothing was taken from it since, because it cannot distinguish later charges.
    pub fn settle_request(mut self, actual: u64) {
        self.end(|rule, taken| match rule.cost {
            Cost::Fixed(cost) => cost.saturating_mul(actual),
            Cost::Estimate { actual: CostSource::Reported, .. } => actual,
            Cost::Estimate { .. } | Cost::Attribute(_) => taken,
        });
    }

    /// Cancels the request: refunds every rule as far as the charge can be distinguished from later ones.
    pub fn give_back(mut self) {
        self.end(|_, _| 0);
        self.gate_permits.drain(..).for_each(GatePermit::give_back);
    }

    /// Refunds an earlier charge under the same keys, made at an unknown time. For callers that learn the actual
    /// cost only after the outcome is gone. Decide with a cost of zero first.
    ///
    /// `amount` is a [request's own cost](crate::rule::Request::cost): a rule with a fixed cost is refunded that
    /// multiple. Rules that take the cost from an estimate or an attribute are refunded `amount` itself.
    ///
    /// Windows, logs and token buckets accept the refund. Pacing limits (leaky buckets, warm-ups) ignore it,
    /// because queued requests already have their schedule. Leases of a cluster-wide limit ignore it too, as the
    /// charge may have come from another process. A refund never exceeds the limit. The
    /// [decisions](Self::decisions) then show the new remaining quota.
    pub fn refund(&mut self, amount: u64) {
        let refund_amount = |snapshot: &Snapshot, check: &RuleCheck| match snapshot.rules()[check.rule].cost {
            Cost::Fixed(cost) => cost.saturating_mul(amount),
            Cost::Estimate { .. } | Cost::Attribute(_) => amount,
        };
        for permit in std::mem::take(&mut self.store_permits) {
            let amounts: Vec<u64> =
                permit.checks.iter().map(|index| refund_amount(&self.snapshot, &self.checks[*index])).collect();
            permit.receipt.refund(&amounts);
        }
        for check in &mut self.checks {
            let amount = refund_amount(&self.snapshot, check);
            let Some(result) = check.result.as_mut().filter(|result| result.evaluation.admits()) else { continue };
            let state = self.snapshot.state(check.rule);
            let limiter = match result.source {
                DecisionSource::Local => state.limiter.clone(),
                DecisionSource::LocalShare => state.cluster.as_ref().and_then(|cluster| cluster.share_limiter()),
                DecisionSource::Store => {
                    // The result of the refund in the store is not awaited.
                    let limits = &self.snapshot.rules()[check.rule].limits;
                    if limits.get(result.evaluation.limit).is_some_and(Limit::is_refundable) {
                        let Status { limit, remaining, .. } = result.status;
                        result.status.remaining = remaining.saturating_add(amount).min(limit);
                    }
                    None
                }
                DecisionSource::Lease(_) | DecisionSource::Assumed => None,
            };
            if let Some(limiter) = limiter {
                limiter.refund(check.key, amount);
                let current = limiter.take(check.key, limiter.clock.now(), 0, AdmitMode::Reserve).decision;
                result.status = current.status;
            }
        }
    }

    /// Ends all charges; `actual` returns the actual cost.
    pub(super) fn end(&mut self, actual: impl Fn(&Rule, u64) -> u64) {
        let Self { snapshot, checks, store_permits, .. } = self;
        let actual = |check: &RuleCheck| actual(&snapshot.rules()[check.rule], check.cost);
        for permit in store_permits.drain(..) {
            let actual: Vec<u64> = permit.checks.iter().map(|index| actual(&checks[*index])).collect();
            permit.receipt.end(&actual);
        }
        for check in checks {
            let actual = actual(check);
            let state = snapshot.state(check.rule);
            let Some(result) = &mut check.result else { continue };
            if let DecisionSource::Lease(mark) = result.source
                && result.evaluation.admits()
                && let Some(cluster) = &state.cluster
            {
                // Settled: the source must not be settled again.
                result.source = DecisionSource::Store;
                cluster.limits.settle(check.key.0, check.cost, actual, mark);
            }
            let Some(charge) = result.charge.take() else { continue };
            let limiter = match result.source {
                DecisionSource::LocalShare => state.cluster.as_ref().and_then(|cluster| cluster.share_limiter()),
                _ => state.limiter.clone(),
            };
            if let Some(limiter) = limiter {
                limiter.settle(check.key, &charge, actual);
            }
        }
    }

    /// True if the outcome must be kept until the request ends: it holds permits or an estimate to settle, is
    /// inside a gate, or has [meters](Self::meters) for the bytes of the response. Otherwise it may be dropped at
    /// any time.
    pub fn holds_resources(&self) -> bool {
        !self.gate_permits.is_empty()
            || self.has_unsettled()
            || (self.snapshot.is_metering() && self.is_admitted() && self.pacers().next().is_some())
    }

    /// True if there is something to release or to settle.
    fn has_unsettled(&self) -> bool {
        let is_estimate = |check: &RuleCheck| matches!(self.snapshot.rules()[check.rule].cost, Cost::Estimate { .. });
        let is_unsettled = |check: &RuleCheck| {
            let Some(result) = &check.result else { return false };
            result.charge.as_ref().is_some_and(Charge::holds_resources)
                || (matches!(result.source, DecisionSource::Lease(_))
                    && result.evaluation.admits()
                    && is_estimate(check))
        };
        let is_unsettled_in_store = |permit: &StorePermit| {
            permit.receipt.holds_resources() || permit.checks.iter().any(|index| is_estimate(&self.checks[*index]))
        };
        self.checks.iter().any(is_unsettled) || self.store_permits.iter().any(is_unsettled_in_store)
    }
}

/// Highest priority class that any of the checked rules assigns.
pub(super) fn priority_of(snapshot: &Snapshot, checks: &[RuleCheck]) -> Priority {
    let of_rule = |check: &RuleCheck| snapshot.rules().get(check.rule).map(|rule| rule.priority);
    let classes = checks.iter().filter(|check| !check.shadow).filter_map(of_rule);
    classes.filter(|class| *class != Priority::Normal).max().unwrap_or_default()
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if self.has_unsettled() {
            self.end(|_, cost| cost);
        }
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("verdict", &self.verdict)
            .field("cause", &self.cause)
            .field("decisions", &self.decisions().map(|(_, decision)| decision).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Rule {
    /// True for rules in shadow mode.
    pub(super) fn is_shadow(&self) -> bool {
        self.mode == Mode::Shadow
    }
}
