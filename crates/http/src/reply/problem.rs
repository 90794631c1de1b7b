//! The problem document of a plain refusal.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;
use sluicegate_engine::Outcome;
use sluicegate_engine::sluice::{Cause, RuleDecision};

use super::retry_after;
use crate::faces::Faces;

/// How such a document begins, up to its status.
const OPENING: &str = concat!(
    r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
    r#""title":"Request cannot be satisfied as assigned quota has been exceeded","status":"#,
);

/// Room for the document of a usual refusal.
const USUAL_LENGTH: usize = 384;

pub(super) fn render(faces: &Faces, outcome: &Outcome, status: StatusCode) -> Response<Bytes> {
    let problem = over_quota(faces, outcome, status).unwrap_or_else(|| {
        let problem = json!({
            "type": "about:blank",
            "title": status.canonical_reason().unwrap_or("Refused"),
            "status": status.as_u16(),
            "detail": detail(outcome),
        });
        problem.to_string()
    });
    let mut response = Response::new(Bytes::from(problem));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The document of a refusal by a limit; `None` if it was something else. Put together of what each rule has
/// ready: under a flood, nothing is rendered more often.
fn over_quota(faces: &Faces, outcome: &Outcome, status: StatusCode) -> Option<String> {
    let Cause::Limit(refusing) = outcome.cause() else { return None };
    let policy = |said: &RuleDecision| faces.rule(said.rule)?.policies.get(said.decision.limit);
    let mut text = String::with_capacity(USUAL_LENGTH);
    text.push_str(OPENING);
    text.push_str(itoa::Buffer::new().format(status.as_u16()));
    text.push_str(r#","detail":""#);
    // A rule that refused has said so. Should it not have, the client is told less, and still what it is about.
    let said = outcome.decisions().find(|(_, said)| said.rule == refusing);
    let refusal = said.and_then(|(_, said)| policy(&said)).map_or("over the limit", |policy| &policy.refusal);
    text.push_str(refusal);
    match retry_after(outcome) {
        Some(wait) => {
            text.push_str(": try again in ");
            text.push_str(itoa::Buffer::new().format(crate::headers::seconds(wait).max(1)));
            text.push_str(" s");
        }
        None => text.push_str(": it will never be admitted"),
    }
    text.push_str(r#"","violated-policies":["#);
    let violated = outcome.decisions().filter(|(_, said)| !said.shadow && !said.decision.is_admitted());
    for (nth, policy) in violated.filter_map(|(_, said)| policy(&said)).enumerate() {
        if nth > 0 {
            text.push(',');
        }
        text.push_str(&policy.quoted_name);
    }
    text.push_str("]}");
    Some(text)
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
