//! Explanation of a decision without making it.

use std::sync::Arc;
use std::time::Duration;

use super::check::Checks;
use super::select::{Selection, select};
use super::snapshot::Snapshot;
use crate::algorithm::AdmitMode;
use crate::decision::Decision;
use crate::overload::{GateClosed, OverloadNotice};
use crate::rule::key::readable_key;
use crate::rule::{ListHit, Request, Rule};
use crate::time::Timestamp;

/// Explanation of the decision that a request would get.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Matching list entry, if any. The rules are then not evaluated.
    pub list: Option<ListHit>,
    /// Every matching rule, in rule order.
    pub rules: Vec<RuleExplanation>,
}

/// Decision that one rule would make.
#[derive(Clone, Debug)]
pub struct RuleExplanation {
    /// The rule.
    pub rule: Rule,
    /// Readable key. `None`: the request lacks it, so the rule does not apply. Empty: the rule has no key.
    pub key: Option<String>,
    /// Cost of the request under this rule.
    pub cost: u64,
    /// Remaining duration of the key's ban.
    pub banned: Option<Duration>,
    /// Decision; `None` if the rule does not apply, has no limits of its own, or paces bytes instead of deciding
    /// ([`Rule::is_metering`]).
    pub decision: Option<Decision>,
    /// State of its overload gate, if it has one.
    pub gate: Option<GateExplanation>,
}

/// State of an overload gate for a request.
#[derive(Clone, Debug)]
pub struct GateExplanation {
    /// `Ok` if the request would be admitted immediately.
    pub open: Result<(), GateClosed>,
    /// Notice of the gate.
    pub notice: Arc<OverloadNotice>,
}

pub(super) fn explain(snapshot: &Snapshot, request: &Request<'_>, now: Timestamp) -> Explanation {
    let mut matching = Vec::new();
    let mut checks = Checks::new();
    select(snapshot, Selection::Matching, request, &mut checks, |index, params| {
        let rule = &snapshot.rules()[index];
        matching.push((index, readable_key(&rule.key, request, params)));
    });
    let priority = super::outcome::priority_of(snapshot, &checks);
    let rules = matching.into_iter().map(|(index, key)| {
        let rule = snapshot.rules()[index].clone();
        let Some(check) = checks.iter().find(|check| check.rule == index) else {
            return RuleExplanation { rule, key: None, cost: 0, banned: None, decision: None, gate: None };
        };
        let state = snapshot.state(index);
        let decision = state.decider().map(|limiter| {
            let (limit_set, words) = limiter.snapshot(check.key, now);
            let evaluation = limit_set.check(&words, now, check.cost, AdmitMode::Reserve);
            limit_set.decision(evaluation, &words, now)
        });
        let banned = state.bans.as_ref().and_then(|bans| bans.remaining(check.key, now));
        let gate = state.gate.as_ref().map(|gate| GateExplanation { open: gate.peek(priority), notice: gate.notice() });
        RuleExplanation { rule, key, cost: check.cost, banned, decision, gate }
    });
    Explanation { list: snapshot.lists().check(request), rules: rules.collect() }
}
