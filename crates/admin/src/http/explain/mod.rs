//! `POST /v1/explain`: explains the decision for a request without consuming quota.

mod request;
mod verdict;

pub(super) use request::ExplainRequest;

use serde::Serialize;
use sluicegate_engine::Sluice;
use sluicegate_engine::rule::{ListHit, Request, Rule};
use sluicegate_engine::sluice::RuleExplanation;
use utoipa::ToSchema;

use super::lists::ListName;
use super::problem::Problem;
use super::reply::{self, Reply};
use super::rules::{DirectionName, ModeName};
use crate::match_explain::{self, Mismatch};
use verdict::{CombinedVerdict, RuleVerdict, VerdictCause, VerdictName};

/// Explanation of a decision.
#[derive(Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(super) struct ExplainResponse {
    verdict: CombinedVerdict,
    /// Human-readable reason.
    reason: String,
    list: Option<ListHitView>,
    rules: Vec<RuleExplanationView>,
}

/// List entry that the request matches.
#[derive(Serialize, ToSchema)]
#[schema(as = ListHit)]
struct ListHitView {
    list: ListName,
    condition: String,
}

/// Explanation of one rule.
#[derive(Serialize, ToSchema)]
#[schema(as = RuleExplanation)]
struct RuleExplanationView {
    name: String,
    applies: bool,
    mismatch: Option<MismatchView>,
    /// Reason for which the rule does not apply, as text.
    mismatch_reason: Option<String>,
    key: Option<String>,
    cost: u64,
    mode: ModeName,
    #[schema(minimum = 0)]
    banned_for_s: Option<f64>,
    verdict: Option<VerdictName>,
    cause: Option<VerdictCause>,
    limit: Option<String>,
    remaining: Option<u64>,
    #[schema(minimum = 0)]
    reset_s: Option<f64>,
    #[schema(minimum = 0)]
    retry_after_s: Option<f64>,
}

/// First part of the rule that the request does not match. `key`: the rule matches, but the request lacks these
/// attributes of its key.
#[derive(Serialize, ToSchema)]
#[schema(as = Mismatch)]
struct MismatchView {
    part: RulePart,
    expected: Vec<String>,
    actual: Option<String>,
}

/// Part of a rule that decides whether it applies.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum RulePart {
    Direction,
    Service,
    Host,
    Path,
    Method,
    Condition,
    Key,
}

/// Explains the decision for the described request.
pub(super) fn explain(sluice: &Sluice, body: ExplainRequest) -> Result<Reply, Problem> {
    let parsed = body.parse()?;
    let request = parsed.to_request();
    let explained = sluice.explain(&request);
    let list = explained.list.map(|hit| ListHitView::new(sluice, hit));
    let verdicts: Vec<RuleVerdict> =
        explained.rules.iter().filter(|it| it.key.is_some()).map(RuleVerdict::new).collect();
    let (verdict, reason) = match &list {
        Some(hit) if hit.list == ListName::Allow => {
            (CombinedVerdict::Allowed, format!("matches the allow list: {}", hit.condition))
        }
        Some(hit) => (CombinedVerdict::Refused, format!("matches the deny list: {}", hit.condition)),
        None => verdict::combine(&verdicts),
    };
    let rule_view = |rule: &Rule| {
        let matching = explained.rules.iter().find(|it| it.rule.name == rule.name);
        match matching.filter(|it| it.key.is_some()) {
            Some(it) => RuleExplanationView::applying(it),
            None => RuleExplanationView::not_applying(rule, &request, matching.is_some()),
        }
    };
    let rules = sluice.rules().iter().map(rule_view).collect();
    Ok(reply::ok(&ExplainResponse { verdict, reason, list, rules }))
}

impl ListHitView {
    fn new(sluice: &Sluice, hit: ListHit) -> Self {
        let (local, shared) = sluice.lists();
        let (list, entries, index) = match hit {
            ListHit::Allow(index) => (ListName::Allow, local.allow.into_iter().chain(shared.allow), index),
            ListHit::Deny(index) => (ListName::Deny, local.deny.into_iter().chain(shared.deny), index),
        };
        let condition = entries.map(|entry| entry.to_string()).nth(index).unwrap_or_default();
        Self { list, condition }
    }
}

impl RuleExplanationView {
    fn applying(it: &RuleExplanation) -> Self {
        let verdict = RuleVerdict::new(it);
        let status = it.decision.map(|decision| decision.status);
        Self {
            name: it.rule.name.clone(),
            applies: true,
            mismatch: None,
            mismatch_reason: None,
            key: it.key.clone(),
            cost: it.cost,
            mode: it.rule.mode.into(),
            banned_for_s: it.banned.map(|banned| banned.as_secs_f64()),
            verdict: verdict.verdict,
            cause: verdict.cause(),
            limit: verdict.limit,
            remaining: status.map(|status| status.remaining),
            reset_s: it.decision.map(|decision| decision.reset().as_secs_f64()),
            retry_after_s: verdict.wait.map(|wait| wait.as_secs_f64()),
        }
    }

    fn not_applying(rule: &Rule, request: &Request<'_>, is_keyless: bool) -> Self {
        let mismatch = match is_keyless {
            true => Some(Mismatch::MissingKey(match_explain::missing_attributes(rule, request))),
            false => match_explain::mismatch(rule, request),
        };
        Self {
            name: rule.name.clone(),
            applies: false,
            mismatch_reason: Some(mismatch.as_ref().map(ToString::to_string).unwrap_or_default()),
            mismatch: mismatch.map(MismatchView::from),
            key: None,
            cost: 0,
            mode: rule.mode.into(),
            banned_for_s: None,
            verdict: None,
            cause: None,
            limit: None,
            remaining: None,
            reset_s: None,
            retry_after_s: None,
        }
    }
}

impl From<Mismatch> for MismatchView {
    fn from(mismatch: Mismatch) -> Self {
        let (part, expected, actual) = match mismatch {
            Mismatch::Direction(expected) => {
                (RulePart::Direction, vec![DirectionName::from(expected).name().to_owned()], None)
            }
            Mismatch::Service { expected, actual } => (RulePart::Service, vec![expected], Some(actual)),
            Mismatch::Host { expected, actual } => (RulePart::Host, vec![expected], Some(actual)),
            Mismatch::Path { expected, actual } => (RulePart::Path, vec![expected], Some(actual)),
            Mismatch::Method { expected, actual } => (RulePart::Method, expected, Some(actual)),
            Mismatch::Condition(conditions) => (RulePart::Condition, conditions, None),
            Mismatch::MissingKey(attributes) => (RulePart::Key, attributes, None),
        };
        Self { part, expected, actual: actual.filter(|actual| !actual.is_empty()) }
    }
}
