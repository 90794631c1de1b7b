//! Why a request would fare as it would.

use std::sync::Arc;
use std::time::Duration;

use super::decide::{Checks, Deciding, select};
use super::snapshot::Snapshot;
use crate::algorithm::Entry;
use crate::decision::Decision;
use crate::gate::{Notice, Shut};
use crate::rule::key::readable_key;
use crate::rule::{ListHit, Request, Rule};
use crate::time::Timestamp;

/// What would happen to a request, and why.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The list entry it hits, if any. The rules then have no say.
    pub list: Option<ListHit>,
    /// Every rule that matches, in the order of the rules.
    pub rules: Vec<RuleExplanation>,
}

/// What one rule would say.
#[derive(Clone, Debug)]
pub struct RuleExplanation {
    /// The rule.
    pub rule: Rule,
    /// The key, readable. `None`: the request lacks it, so the rule does not apply. Empty: the rule
    /// has no key.
    pub key: Option<String>,
    /// What it would cost.
    pub cost: u64,
    /// How much longer the key is banned.
    pub banned: Option<Duration>,
    /// What it would decide; `None` if it does not apply, has no limits of its own, or does not decide but
    /// paces bytes ([`Rule::is_metering`]).
    pub decision: Option<Decision>,
    /// How its gate stands, if it protects the process.
    pub gate: Option<GateExplanation>,
}

/// How a gate stands before a request.
#[derive(Clone, Debug)]
pub struct GateExplanation {
    /// Whether the request would be let in at once.
    pub open: Result<(), Shut>,
    /// What is said about it.
    pub notice: Arc<Notice>,
}

pub(super) fn explain(snapshot: &Snapshot, request: &Request<'_>, now: Timestamp) -> Explanation {
    let mut matching = Vec::new();
    let mut checks = Checks::new();
    select(snapshot, Deciding::Matching, request, &mut checks, |index, params| {
        let rule = &snapshot.rules()[index];
        matching.push((index, readable_key(&rule.key, request, params)));
    });
    let class = super::outcome::class_of(snapshot, &checks);
    let rules = matching.into_iter().map(|(index, key)| {
        let rule = snapshot.rules()[index].clone();
        let Some(check) = checks.iter().find(|check| check.rule == index) else {
            return RuleExplanation { rule, key: None, cost: 0, banned: None, decision: None, gate: None };
        };
        let state = snapshot.state(index);
        let decision = state.decider().map(|limiter| {
            let (plan, words) = limiter.snapshot(check.key, now);
            let ruling = plan.check(&words, now, check.cost, Entry::Enqueue);
            plan.decision(ruling, &words, now)
        });
        let banned = state.bans.as_ref().and_then(|bans| bans.remaining(check.key, now));
        let gate = state.gate.as_ref().map(|gate| GateExplanation { open: gate.look(class), notice: gate.notice() });
        RuleExplanation { rule, key, cost: check.cost, banned, decision, gate }
    });
    Explanation { list: snapshot.lists().check(request), rules: rules.collect() }
}
