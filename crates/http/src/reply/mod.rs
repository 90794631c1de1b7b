//! What is answered to a request that was refused.
//!
//! The rule that refused says what: a status with a body, substitute data, or another place. Where it
//! says nothing, the answer is a problem document (RFC 9457) that names the rule and the limit. A gRPC
//! call is answered with `RESOURCE_EXHAUSTED` whatever the rule says, as its client could not read
//! anything else. A server under strain answers 503, or `UNAVAILABLE`.
//!
//! `Retry-After` is in whole seconds, rounded up, and never 0. It is absent where waiting does not help:
//! on a deny list, and where a request costs more than the limit itself.

mod brief;
mod grpc;
mod prepared;
mod problem;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use sluicegate_engine::Verdict;
use sluicegate_engine::rule::Reply;
use sluicegate_engine::sluice::Cause;

use crate::faces::Faces;
use crate::headers::{seconds, value};
use crate::told::Told;
pub use brief::Brief;
pub(crate) use prepared::Prepared;

/// What the client speaks.
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
    /// Of a request, by its content type.
    pub fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        // What follows names the encoding of messages, or is a parameter.
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

/// A reply on its own, to no refused request: what a rule file says is answered somewhere.
///
/// ```
/// use sluicegate_engine::rule::{Reply, ReplyBody};
///
/// let body = Some(ReplyBody::Text("pong".to_owned()));
/// let answer = sluicegate_http::reply::plain(&Reply::Degrade { status: 200, body, headers: Vec::new() });
/// assert_eq!((answer.status().as_u16(), answer.body().as_ref()), (200, b"pong".as_slice()));
/// ```
pub fn plain(reply: &Reply) -> Response<Bytes> {
    let (status, headers, body) = match Prepared::new(reply) {
        Prepared::Refuse { status, headers, body } => (status, headers, body.unwrap_or_default()),
        Prepared::Instead { status, headers, body } => (status, headers, body),
        Prepared::Elsewhere { status, location } => {
            (status, HeaderMap::from_iter([(header::LOCATION, location)]), Bytes::new())
        }
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

/// The answer to a refused request.
pub(crate) fn render(faces: &Faces, told: &impl Told, protocol: Protocol) -> Response<Bytes> {
    let mut response = answer(faces, told, protocol);
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    if bodiless.contains(&response.status()) {
        // Not every server leaves out a body that must not be there.
        response.body_mut().clear();
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    response
}

fn answer(faces: &Faces, told: &impl Told, protocol: Protocol) -> Response<Bytes> {
    if protocol != Protocol::Http {
        return grpc::render(told, protocol);
    }
    match own_reply(faces, told) {
        Some(Prepared::Elsewhere { status, location }) => {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = *status;
            response.headers_mut().insert(header::LOCATION, location.clone());
            forbid_storing(response.headers_mut());
            response
        }
        Some(Prepared::Instead { status, headers, body }) => {
            let mut response = Response::new(body.clone());
            *response.status_mut() = *status;
            *response.headers_mut() = headers.clone();
            forbid_storing(response.headers_mut());
            response
        }
        Some(Prepared::Refuse { status, headers, body }) => {
            let mut response = match body {
                Some(body) => Response::new(body.clone()),
                None => problem::render(faces, told, *status),
            };
            *response.status_mut() = *status;
            for (name, value) in headers {
                response.headers_mut().insert(name, value.clone());
            }
            finish(response, told)
        }
        None => finish(problem::render(faces, told, status_of(told)), told),
    }
}

/// What the rule that refused says to answer.
fn own_reply<'a>(faces: &'a Faces, told: &impl Told) -> Option<&'a Prepared> {
    match told.cause() {
        Cause::Limit(rule) | Cause::Ban(rule) | Cause::Strain(rule) => faces.rule(rule)?.reply.as_ref(),
        Cause::Rules | Cause::AllowList(_) | Cause::DenyList(_) => None,
    }
}

fn status_of(told: &impl Told) -> StatusCode {
    match told.cause() {
        Cause::DenyList(_) => StatusCode::FORBIDDEN,
        // It is not the client who has had too much.
        Cause::Strain(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::TOO_MANY_REQUESTS,
    }
}

fn finish(mut response: Response<Bytes>, told: &impl Told) -> Response<Bytes> {
    if let Some(wait) = retry_after(told) {
        response.headers_mut().insert(header::RETRY_AFTER, value(seconds(wait).max(1)));
    }
    forbid_storing(response.headers_mut());
    response
}

/// A refusal is about this moment: no cache may answer later requests with it, unless the rule says so.
fn forbid_storing(headers: &mut HeaderMap) {
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// When to ask again; `None` if that would not help.
pub(crate) fn retry_after(told: &impl Told) -> Option<Duration> {
    match (told.verdict(), told.cause()) {
        (_, Cause::DenyList(_)) | (Verdict::Never, _) => None,
        (Verdict::Denied { retry_after: Some(wait) }, _) => Some(wait),
        // It hangs on others: there is no telling, but asking at once would be too early.
        _ => Some(Duration::from_secs(1)),
    }
}
