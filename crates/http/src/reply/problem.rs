//! The problem document of a plain refusal.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;
use sluicegate_engine::sluice::{Cause, RuleDecision};

use super::retry_after;
use crate::faces::Faces;
use crate::headers::seconds;
use crate::told::Told;

/// How such a document begins, up to its status.
const OPENING: &str = concat!(
    r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
    r#""title":"Request cannot be satisfied as assigned quota has been exceeded","status":"#,
);

/// The kind of a document about a server that has no strength left.
const STRAINED: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// What such a document is.
pub(super) const KIND: &str = "application/problem+json";

/// Room for the document of a usual refusal.
pub(super) const USUAL_LENGTH: usize = 384;

pub(super) fn render(faces: &Faces, told: &impl Told, status: StatusCode) -> Response<Bytes> {
    let mut document = Vec::with_capacity(USUAL_LENGTH);
    if !write_over_quota(&mut document, faces, told, status) {
        let (kind, title) = match told.cause() {
            Cause::Strain(_) => (STRAINED, "Request cannot be satisfied due to temporary server capacity constraints"),
            _ => ("about:blank", status.canonical_reason().unwrap_or("Refused")),
        };
        let problem = json!({
            "type": kind,
            "title": title,
            "status": status.as_u16(),
            "detail": detail(told),
        });
        document = problem.to_string().into_bytes();
    }
    let mut response = Response::new(Bytes::from(document));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(KIND));
    response
}

/// Adds the document of a refusal by a limit; answers `false`, and adds nothing, if it was something else. Put together
/// of what each rule has ready: under a flood, nothing is rendered more often.
pub(super) fn write_over_quota(text: &mut Vec<u8>, faces: &Faces, told: &impl Told, status: StatusCode) -> bool {
    let Cause::Limit(refusing) = told.cause() else { return false };
    let policy = |said: &RuleDecision| faces.rule(said.rule)?.policies.get(said.decision.limit);
    text.extend_from_slice(OPENING.as_bytes());
    text.extend_from_slice(status.as_str().as_bytes());
    text.extend_from_slice(br#","detail":""#);
    // A rule that refused has said so. Should it not have, the client is told less, and still what it is about.
    let said = told.said().find(|said| said.rule == refusing);
    let refusal = said.and_then(|said| policy(&said)).map_or("over the limit", |policy| &policy.refusal);
    text.extend_from_slice(refusal.as_bytes());
    match retry_after(told) {
        Some(wait) => {
            text.extend_from_slice(b": try again in ");
            text.extend_from_slice(itoa::Buffer::new().format(seconds(wait).max(1)).as_bytes());
            text.extend_from_slice(b" s");
        }
        None => text.extend_from_slice(b": it will never be admitted"),
    }
    text.extend_from_slice(br#"","violated-policies":["#);
    let violated = told.said().filter(|said| !said.shadow && !said.decision.is_admitted());
    for (nth, policy) in violated.filter_map(|said| policy(&said)).enumerate() {
        if nth > 0 {
            text.push(b',');
        }
        text.extend_from_slice(policy.quoted_name.as_bytes());
    }
    text.extend_from_slice(b"]}");
    true
}

/// What is wrong, in a sentence.
pub(super) fn detail(told: &impl Told) -> String {
    let when = || match retry_after(told) {
        Some(wait) => format!("try again in {} s", seconds(wait).max(1)),
        None => "it will never be admitted".to_owned(),
    };
    let (rule, said) = match told.cause() {
        Cause::Ban(rule) | Cause::Strain(rule) => (told.rules().get(rule), None),
        Cause::Limit(rule) => (told.rules().get(rule), told.said().find(|said| said.rule == rule)),
        Cause::Rules | Cause::AllowList(_) | Cause::DenyList(_) => (None, None),
    };
    let limit = rule.zip(said).and_then(|(rule, said)| rule.limits.get(said.decision.limit));
    let name = rule.map_or("", |rule| rule.name.as_str());
    match (told.cause(), limit) {
        (Cause::DenyList(_), _) => "on the deny list".to_owned(),
        (Cause::Ban(_), _) => format!("banned for running into the limits of '{name}' too often: {}", when()),
        (Cause::Strain(_), _) => match told.strain() {
            Some(notice) => format!("'{name}' holds requests back ({}): {}", notice.reason, when()),
            None => format!("'{name}' holds requests back: {}", when()),
        },
        (Cause::Limit(_), Some(limit)) => format!("over the limit {limit} of '{name}': {}", when()),
        _ => format!("over the limit of '{name}': {}", when()),
    }
}
