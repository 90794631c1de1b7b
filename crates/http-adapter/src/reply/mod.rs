//! Responses to refused requests.
//!
//! The refusing rule defines the response: a status with a body, substitute data, or a redirect. Without a
//! reply of its own, the response is a problem document (RFC 9457) that names the rule and the limit. A gRPC
//! call always gets `RESOURCE_EXHAUSTED`, because its client cannot read anything else. Overload protection
//! responds with 503 or `UNAVAILABLE`.
//!
//! `Retry-After` is in whole seconds, rounded up, and never 0. It is absent if waiting does not help: on a
//! deny list, and if the request costs more than the limit.

mod grpc;
mod preformatted;
mod problem;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use sluicegate_engine::Verdict;
use sluicegate_engine::rule::Reply;
use sluicegate_engine::sluice::Cause;

use crate::decision_view::DecisionView;
use crate::header_value::{seconds, value};
use crate::prerendered::{PreparedReply, RenderedRules};
pub use preformatted::RawRefusal;

/// Protocol of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP.
    Http,
    /// gRPC.
    Grpc,
    /// gRPC-Web.
    GrpcWeb,
    /// gRPC-Web in base64.
    GrpcWebText,
}

impl Protocol {
    /// Detects the protocol of a request by its content type.
    pub fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        // The message encoding or a parameter follows.
        let end = kind.iter().position(|byte| b"+; \t".contains(byte)).unwrap_or(kind.len());
        let kinds = [
            ("application/grpc", Self::Grpc),
            ("application/grpc-web", Self::GrpcWeb),
            ("application/grpc-web-text", Self::GrpcWebText),
        ];
        let found = kinds.into_iter().find(|(name, _)| kind[..end].eq_ignore_ascii_case(name.as_bytes()));
        found.map_or(Self::Http, |(_, protocol)| protocol)
    }
}

/// Renders a configured reply that is not a refusal, such as a route's fixed response.
///
/// ```
/// use sluicegate_engine::rule::{Reply, ReplyBody};
///
/// let body = Some(ReplyBody::Text("pong".to_owned()));
/// let reply = Reply::Degrade { status: 200, body, headers: Vec::new() };
/// let response = sluicegate_http_adapter::reply::render_reply(&reply);
/// assert_eq!((response.status().as_u16(), response.body().as_ref()), (200, b"pong".as_slice()));
/// ```
pub fn render_reply(reply: &Reply) -> Response<Bytes> {
    let (status, headers, body) = match PreparedReply::new(reply) {
        PreparedReply::Refuse { status, headers, body } => (status, headers, body.unwrap_or_default()),
        PreparedReply::Substitute { status, headers, body } => (status, headers, body),
        PreparedReply::Redirect { status, location } => {
            (status, HeaderMap::from_iter([(header::LOCATION, location)]), Bytes::new())
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Renders the response to a refused request.
pub(crate) fn render(rules: &RenderedRules, view: &impl DecisionView, protocol: Protocol) -> Response<Bytes> {
    let mut response = build_response(rules, view, protocol);
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    if bodiless.contains(&response.status()) {
        // Not every server drops a body that is not allowed.
        response.body_mut().clear();
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    response
}

fn build_response(rules: &RenderedRules, view: &impl DecisionView, protocol: Protocol) -> Response<Bytes> {
    if protocol != Protocol::Http {
        return grpc::render(view, protocol);
    }
    match rule_reply(rules, view) {
        Some(PreparedReply::Redirect { status, location }) => {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = *status;
            response.headers_mut().insert(header::LOCATION, location.clone());
            forbid_caching(response.headers_mut());
            response
        }
        Some(PreparedReply::Substitute { status, headers, body }) => {
            let mut response = Response::new(body.clone());
            *response.status_mut() = *status;
            *response.headers_mut() = headers.clone();
            forbid_caching(response.headers_mut());
            response
        }
        Some(PreparedReply::Refuse { status, headers, body }) => {
            let mut response = match body {
                Some(body) => Response::new(body.clone()),
                None => problem::render(rules, view, *status),
            };
            *response.status_mut() = *status;
            for (name, value) in headers {
                response.headers_mut().insert(name, value.clone());
            }
            add_retry_after(response, view)
        }
        None => add_retry_after(problem::render(rules, view, status_of(view)), view),
    }
}

/// The refusing rule's own reply.
fn rule_reply<'a>(rules: &'a RenderedRules, view: &impl DecisionView) -> Option<&'a PreparedReply> {
    rules.rule(view.refusing_rule()?)?.reply.as_ref()
}

fn status_of(view: &impl DecisionView) -> StatusCode {
    match view.cause() {
        Cause::DenyList(_) => StatusCode::FORBIDDEN,
        // The server is overloaded; the client is not over a limit.
        Cause::Overload(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::TOO_MANY_REQUESTS,
    }
}

fn add_retry_after(mut response: Response<Bytes>, view: &impl DecisionView) -> Response<Bytes> {
    if let Some(wait) = retry_after(view) {
        response.headers_mut().insert(header::RETRY_AFTER, value(seconds(wait).max(1)));
    }
    forbid_caching(response.headers_mut());
    response
}

/// Refusals are temporary: no cache may store one, unless the rule sets `Cache-Control`.
fn forbid_caching(headers: &mut HeaderMap) {
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// Time to wait before a retry; `None` if a retry cannot succeed.
pub(crate) fn retry_after(view: &impl DecisionView) -> Option<Duration> {
    match (view.verdict(), view.cause()) {
        (_, Cause::DenyList(_)) | (Verdict::Never, _) => None,
        (Verdict::Denied { retry_after: Some(wait) }, _) => Some(wait),
        // Depends on other requests: the wait is unknown, but an immediate retry would be too early.
        _ => Some(Duration::from_secs(1)),
    }
}
