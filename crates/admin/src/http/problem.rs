//! What is wrong with a call, as problem documents (RFC 9457).
//!
//! Each kind has a `type` that programs can tell it by; `detail` says what is wrong this time, and the remedy;
//! `pointer` (RFC 6901) says where in the JSON that was sent, and `faults` what is wrong with rules.

use http::{HeaderValue, Method, StatusCode, header};
use serde::Serialize;

use super::reply::{self, Reply};
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

impl Kind {
    /// Status, type and title.
    pub(super) const fn told(self) -> (StatusCode, &'static str, &'static str) {
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
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) kind: Kind,
    detail: String,
    pointer: Option<String>,
    faults: Vec<FaultShown>,
    /// The methods that would have fitted.
    allowed: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<&'a str>,
    #[serde(skip_serializing_if = "<[FaultShown]>::is_empty")]
    faults: &'a [FaultShown],
}

impl Problem {
    pub(super) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), pointer: None, faults: Vec::new(), allowed: None }
    }

    /// With the place in the JSON it is about.
    pub(super) fn at(self, pointer: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), ..self }
    }

    /// With what is wrong with the rules.
    pub(super) fn with_faults(self, faults: Vec<FaultShown>) -> Self {
        Self { faults, ..self }
    }

    /// A method that does not fit; these do.
    pub(super) fn method(sent: &Method, allowed: String) -> Self {
        let detail = format!("{} is not possible here: use {allowed}", shown(sent.as_str()));
        Self { allowed: Some(allowed), ..Self::new(Kind::Method, detail) }
    }

    pub(super) fn render(self) -> Reply {
        let (status, r#type, title) = self.kind.told();
        let (detail, pointer, faults) = (self.detail.as_str(), self.pointer.as_deref(), &*self.faults);
        let document = Document { r#type, title, status: status.as_u16(), detail, pointer, faults };
        let mut reply = reply::json(status, &document);
        let headers = reply.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.kind {
            Kind::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Kind::Full | Kind::Unavailable => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        if let Some(allowed) = self.allowed.and_then(|allowed| HeaderValue::try_from(allowed).ok()) {
            headers.insert(header::ALLOW, allowed);
        }
        reply
    }
}

/// What was sent, short enough to be read and in one line.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let start: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() { format!("'{start}...'") } else { format!("'{start}'") }
}
