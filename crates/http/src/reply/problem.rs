//! The problem document of a plain refusal.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;
use sluicegate_engine::Outcome;
use sluicegate_engine::sluice::Cause;

use super::retry_after;
use crate::faces::Faces;

/// The registered type of refusals over a quota.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

pub(super) fn render(faces: &Faces, outcome: &Outcome, status: StatusCode) -> Response<Bytes> {
    let detail = detail(outcome);
    let problem = match outcome.cause() {
        Cause::Limit(_) => json!({
            "type": QUOTA_EXCEEDED,
            "title": "Request cannot be satisfied as assigned quota has been exceeded",
            "status": status.as_u16(),
            "detail": detail,
            "violated-policies": violated(faces, outcome),
        }),
        _ => json!({
            "type": "about:blank",
            "title": status.canonical_reason().unwrap_or("Refused"),
            "status": status.as_u16(),
            "detail": detail,
        }),
    };
    let mut response = Response::new(Bytes::from(problem.to_string()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The policies that refuse.
fn violated<'a>(faces: &'a Faces, outcome: &'a Outcome) -> Vec<&'a str> {
    let refusing = outcome.decisions().filter(|(_, said)| !said.shadow && !said.decision.is_admitted());
    let policies = refusing.filter_map(|(_, said)| faces.rule(said.rule)?.policies.get(said.decision.limit));
    policies.map(|policy| policy.name.as_str()).collect()
}

/// What is wrong, in a sentence.
pub(super) fn detail(outcome: &Outcome) -> String {
    let when = || match retry_after(outcome) {
        Some(wait) => format!("try again in {} s", crate::headers::seconds(wait).max(1)),
        None => "it will never be admitted".to_owned(),
    };
    let rule = outcome.rule().map_or("", |rule| rule.name.as_str());
    match (outcome.cause(), outcome.limit()) {
        (Cause::DenyList(_), _) => "on the deny list".to_owned(),
        (Cause::Ban(_), _) => format!("banned for running into the limits of '{rule}' too often: {}", when()),
        (Cause::Limit(_), Some(limit)) => format!("over the limit {limit} of '{rule}': {}", when()),
        _ => format!("over the limit of '{rule}': {}", when()),
    }
}
