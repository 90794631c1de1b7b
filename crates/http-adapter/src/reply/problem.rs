//! Problem documents (RFC 9457) of refusals.

use bytes::Bytes;
use http::{Response, StatusCode};
use sluicegate_engine::sluice::{Cause, RuleDecision};

use super::retry_after;
use crate::decision_view::DecisionView;
use crate::header_value::seconds;
use crate::prerendered::RenderedRules;
use crate::problem::{self, ProblemDocument};

/// Start of a quota-exceeded document, up to the status.
const QUOTA_EXCEEDED_PREFIX: &str = concat!(
    r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
    r#""title":"Request cannot be satisfied as assigned quota has been exceeded","status":"#,
);

/// Problem type of a refusal by overload protection.
const REDUCED_CAPACITY_TYPE: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// Initial capacity for a typical document.
pub(super) const TYPICAL_BYTES: usize = 384;

pub(super) fn render(rules: &RenderedRules, view: &impl DecisionView, status: StatusCode) -> Response<Bytes> {
    let mut document = Vec::with_capacity(TYPICAL_BYTES);
    if write_over_quota(&mut document, rules, view, status) {
        return problem::response(status, document);
    }
    let detail = detail(view);
    let mut problem = ProblemDocument::of_status(status, &detail);
    if let Cause::Overload(_) = view.cause() {
        problem.r#type = REDUCED_CAPACITY_TYPE;
        problem.title = "Request cannot be satisfied due to temporary server capacity constraints";
    }
    problem.render()
}

/// Appends the document of a refusal by a limit; returns `false` and appends nothing for another cause.
/// Assembled from prerendered parts, because it is the most frequent response under a flood.
pub(super) fn write_over_quota(
    text: &mut Vec<u8>,
    rules: &RenderedRules,
    view: &impl DecisionView,
    status: StatusCode,
) -> bool {
    let Cause::Limit(refusing) = view.cause() else { return false };
    let policy = |checked: &RuleDecision| rules.rule(checked.rule)?.policies.get(checked.decision.limit);
    text.extend_from_slice(QUOTA_EXCEEDED_PREFIX.as_bytes());
    text.extend_from_slice(status.as_str().as_bytes());
    text.extend_from_slice(br#","detail":""#);
    // The refusing rule always has a decision; without one, use a generic message.
    let rule_decision = view.rule_decisions().find(|checked| checked.rule == refusing);
    let refusal =
        rule_decision.and_then(|checked| policy(&checked)).map_or("over the limit", |policy| &policy.refusal_json);
    text.extend_from_slice(refusal.as_bytes());
    match retry_after(view) {
        Some(wait) => {
            text.extend_from_slice(b": try again in ");
            text.extend_from_slice(itoa::Buffer::new().format(seconds(wait).max(1)).as_bytes());
            text.extend_from_slice(b" s");
        }
        None => text.extend_from_slice(b": the request can never be admitted"),
    }
    text.extend_from_slice(br#"","violated-policies":["#);
    let violated = view.rule_decisions().filter(|checked| !checked.shadow && !checked.decision.is_admitted());
    for (nth, policy) in violated.filter_map(|checked| policy(&checked)).enumerate() {
        if nth > 0 {
            text.push(b',');
        }
        text.extend_from_slice(policy.quoted_name.as_bytes());
    }
    text.extend_from_slice(b"]}");
    true
}

/// The cause of the refusal, in one sentence.
pub(super) fn detail(view: &impl DecisionView) -> String {
    let when = || match retry_after(view) {
        Some(wait) => format!("try again in {} s", seconds(wait).max(1)),
        None => "the request can never be admitted".to_owned(),
    };
    let (rule, rule_decision) = match view.cause() {
        Cause::Ban(rule) | Cause::Overload(rule) => (view.rules().get(rule), None),
        Cause::Limit(rule) => (view.rules().get(rule), view.rule_decisions().find(|checked| checked.rule == rule)),
        Cause::Rules | Cause::AllowList(_) | Cause::DenyList(_) => (None, None),
    };
    let limit = rule.zip(rule_decision).and_then(|(rule, checked)| rule.limits.get(checked.decision.limit));
    let name = rule.map_or("", |rule| rule.name.as_str());
    match (view.cause(), limit) {
        (Cause::DenyList(_), _) => "on the deny list".to_owned(),
        (Cause::Ban(_), _) => format!("banned by rule '{name}' after too many refusals: {}", when()),
        (Cause::Overload(_), _) => match view.overload_notice() {
            Some(notice) => format!("limited by overload protection '{name}' ({}): {}", notice.reason, when()),
            None => format!("limited by overload protection '{name}': {}", when()),
        },
        (Cause::Limit(_), Some(limit)) => format!("over the limit {limit} of '{name}': {}", when()),
        _ => format!("over the limit of '{name}': {}", when()),
    }
}
