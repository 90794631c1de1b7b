//! What is wrong with a call, as problem documents (RFC 9457).
//!
//! Each kind has a `type` that programs can tell it by; `detail` says what is wrong this time, and the remedy;
//! `pointer` (RFC 6901) says where in the JSON that was sent, and `faults` what is wrong with rules.

use http::{HeaderValue, StatusCode, header};
use http_body_util::{Either, Full};
use serde::Serialize;
use sluicegate_http::call;
pub(super) use sluicegate_http::call::shown;

use super::reply::Reply;
use super::source::FaultShown;

/// The kinds of problems there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    NotJson,
    Invalid,
    Unreadable,
    Unauthorized,
    Forbidden,
    UnknownPath,
    UnknownRule,
    UnknownVersion,
    Method,
    Overtaken,
    Conflict,
    TooLarge,
    ContentType,
    Unprocessable,
    Faulty,
    Full,
    Unavailable,
}

impl call::Kind for Kind {
    fn told(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NotJson => (StatusCode::BAD_REQUEST, "urn:sluicegate:not-json", "The body is not JSON"),
            Self::Invalid => (StatusCode::BAD_REQUEST, "urn:sluicegate:invalid", "The request makes no sense"),
            Self::Unreadable => (StatusCode::BAD_REQUEST, "urn:sluicegate:unreadable", "The body cannot be read"),
            Self::Unauthorized => {
                (StatusCode::UNAUTHORIZED, "urn:sluicegate:unauthorized", "The token is missing or wrong")
            }
            Self::Forbidden => (StatusCode::FORBIDDEN, "urn:sluicegate:forbidden", "This is not for you to do"),
            Self::UnknownPath => {
                (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-path", "There is nothing at this path")
            }
            Self::UnknownRule => (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-rule", "There is no such rule"),
            Self::UnknownVersion => {
                (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-version", "There is no such version")
            }
            Self::Method => {
                (StatusCode::METHOD_NOT_ALLOWED, "urn:sluicegate:method", "The method does not fit the path")
            }
            Self::Overtaken => {
                (StatusCode::CONFLICT, "urn:sluicegate:overtaken", "Somebody else has changed the rules")
            }
            Self::Conflict => (StatusCode::CONFLICT, "urn:sluicegate:conflict", "This does not fit what is there"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "urn:sluicegate:too-large", "The body is too large"),
            Self::ContentType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "urn:sluicegate:content-type", "The body is of another type")
            }
            Self::Unprocessable => {
                (StatusCode::UNPROCESSABLE_ENTITY, "urn:sluicegate:unprocessable", "A value makes no sense")
            }
            Self::Faulty => (StatusCode::UNPROCESSABLE_ENTITY, "urn:sluicegate:faulty-rules", "The rules have faults"),
            Self::Full => (StatusCode::SERVICE_UNAVAILABLE, "urn:sluicegate:full", "There is no place left"),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "urn:sluicegate:unavailable", "This cannot be had at the moment")
            }
        }
    }
}

/// What is wrong with a call.
pub(super) type Problem = call::Problem<Kind, Faults>;

/// What is wrong with rules, where it is about these.
#[derive(Debug, Default, Serialize)]
pub(super) struct Faults {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) faults: Vec<FaultShown>,
}

/// The reply that tells it.
pub(super) fn reply(problem: Problem) -> Reply {
    let mut reply = problem.render().map(|document| Either::Left(Full::new(document)));
    reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}
