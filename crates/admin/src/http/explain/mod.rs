//! What would happen to a request, and why. Takes nothing.

mod question;
mod verdict;

pub(super) use question::Question;

use serde::Serialize;
use sluicegate_engine::Sluice;
use sluicegate_engine::rule::{ListHit, Request, Rule};
use sluicegate_engine::sluice::RuleExplanation;

use super::problem::Problem;
use super::reply::{self, Reply};
use super::rules;
use crate::mismatch;
use verdict::Said;

#[derive(Serialize)]
struct Answer {
    verdict: &'static str,
    because: String,
    list: Option<Hit>,
    rules: Vec<OfRule>,
}

#[derive(Serialize)]
struct Hit {
    list: &'static str,
    condition: String,
}

/// What one rule has to say.
#[derive(Serialize)]
struct OfRule {
    name: String,
    applies: bool,
    why_not: Option<String>,
    key: Option<String>,
    cost: u64,
    mode: &'static str,
    banned_for_s: Option<f64>,
    verdict: Option<&'static str>,
    limit: Option<String>,
    remaining: Option<u64>,
    reset_s: Option<f64>,
    retry_after_s: Option<f64>,
}

/// What would happen to the request in question.
pub(super) fn answer(sluice: &Sluice, asked: Question) -> Result<Reply, Problem> {
    let asked = asked.checked()?;
    let request = asked.request();
    let explained = sluice.explain(&request);
    let list = explained.list.map(|hit| Hit::new(sluice, hit));
    let said: Vec<Said> = explained.rules.iter().filter(|it| it.key.is_some()).map(Said::new).collect();
    let (verdict, because) = match &list {
        Some(hit) if hit.list == "allow" => {
            ("allowed", format!("on the allow list, whatever the rules say: {}", hit.condition))
        }
        Some(hit) => ("refused", format!("on the deny list, whatever the rules say: {}", hit.condition)),
        None => verdict::together(&said),
    };
    let of_rule = |rule: &Rule| {
        let matching = explained.rules.iter().find(|it| it.rule.name == rule.name);
        match matching.filter(|it| it.key.is_some()) {
            Some(it) => OfRule::applying(it),
            None => OfRule::not_applying(rule, &request, matching.is_some()),
        }
    };
    let rules = sluice.rules().iter().map(of_rule).collect();
    Ok(reply::ok(&Answer { verdict, because, list, rules }))
}

impl Hit {
    fn new(sluice: &Sluice, hit: ListHit) -> Self {
        let (own, further) = sluice.lists();
        let (list, entries, at) = match hit {
            ListHit::Allow(at) => ("allow", own.allow.into_iter().chain(further.allow), at),
            ListHit::Deny(at) => ("deny", own.deny.into_iter().chain(further.deny), at),
        };
        let condition = entries.map(|entry| entry.to_string()).nth(at).unwrap_or_default();
        Self { list, condition }
    }
}

impl OfRule {
    fn applying(it: &RuleExplanation) -> Self {
        let said = Said::new(it);
        let status = it.decision.map(|decision| decision.status);
        Self {
            name: it.rule.name.clone(),
            applies: true,
            why_not: None,
            key: it.key.clone(),
            cost: it.cost,
            mode: rules::mode(&it.rule),
            banned_for_s: it.banned.map(|banned| banned.as_secs_f64()),
            verdict: said.verdict,
            limit: said.limit,
            remaining: status.map(|status| status.remaining),
            reset_s: it.decision.map(|decision| decision.reset().as_secs_f64()),
            retry_after_s: said.wait.map(|wait| wait.as_secs_f64()),
        }
    }

    fn not_applying(rule: &Rule, request: &Request<'_>, is_keyless: bool) -> Self {
        let why_not = match is_keyless {
            true => format!("it matches, but the request has no {}", mismatch::missing_key(rule, request)),
            false => mismatch::reason(rule, request).unwrap_or_default(),
        };
        Self {
            name: rule.name.clone(),
            applies: false,
            why_not: Some(why_not),
            key: None,
            cost: 0,
            mode: rules::mode(rule),
            banned_for_s: None,
            verdict: None,
            limit: None,
            remaining: None,
            reset_s: None,
            retry_after_s: None,
        }
    }
}
