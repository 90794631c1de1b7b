//! Problem documents (RFC 9457) of the admin API.
//!
//! Each kind has a `type` for programs; `detail` describes the error and its remedy; `pointer` (RFC 6901) gives
//! the location in the request body, and `errors` lists errors in rules.

use http::{HeaderValue, StatusCode, header};
use http_body_util::{Either, Full};
use serde::Serialize;
use sluicegate_http_adapter::api;
pub(super) use sluicegate_http_adapter::api::quote_input;
use utoipa::ToSchema;

use super::reply::Reply;
use super::source::DiagnosticView;

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProblemKind {
    NotJson,
    Invalid,
    Unreadable,
    Unauthorized,
    Forbidden,
    UnknownPath,
    UnknownRule,
    UnknownVersion,
    Method,
    StaleVersion,
    Conflict,
    TooLarge,
    ContentType,
    Unprocessable,
    InvalidRules,
    Full,
    Unavailable,
}

impl api::ProblemKind for ProblemKind {
    fn describe(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NotJson => (StatusCode::BAD_REQUEST, "urn:sluicegate:not-json", "Invalid JSON"),
            Self::Invalid => (StatusCode::BAD_REQUEST, "urn:sluicegate:invalid", "Invalid request"),
            Self::Unreadable => (StatusCode::BAD_REQUEST, "urn:sluicegate:unreadable", "Body could not be read"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "urn:sluicegate:unauthorized", "Missing or unknown token"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "urn:sluicegate:forbidden", "Access denied"),
            Self::UnknownPath => (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-path", "Unknown path"),
            Self::UnknownRule => (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-rule", "Unknown rule"),
            Self::UnknownVersion => (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-version", "Unknown version"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "urn:sluicegate:method", "Method not allowed"),
            Self::StaleVersion => {
                (StatusCode::CONFLICT, "urn:sluicegate:stale-version", "The rules have changed since")
            }
            Self::Conflict => (StatusCode::CONFLICT, "urn:sluicegate:conflict", "Conflict with the current state"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "urn:sluicegate:too-large", "Body too large"),
            Self::ContentType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "urn:sluicegate:content-type", "Unsupported content type")
            }
            Self::Unprocessable => (StatusCode::UNPROCESSABLE_ENTITY, "urn:sluicegate:unprocessable", "Invalid value"),
            Self::InvalidRules => (StatusCode::UNPROCESSABLE_ENTITY, "urn:sluicegate:invalid-rules", "Invalid rules"),
            Self::Full => (StatusCode::SERVICE_UNAVAILABLE, "urn:sluicegate:full", "Too many listeners"),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "urn:sluicegate:unavailable", "Temporarily unavailable")
            }
        }
    }
}

/// An error of an admin call.
pub(super) type Problem = api::Problem<ProblemKind, RuleErrors>;

/// Errors in rules, if the problem is about rules.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct RuleErrors {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) errors: Vec<DiagnosticView>,
}

/// Converts a problem to a response.
pub(super) fn reply(problem: Problem) -> Reply {
    let mut reply = problem.render().map(|document| Either::Left(Full::new(document)));
    reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}
