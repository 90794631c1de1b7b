//! What is wrong with a call, as problem documents (RFC 9457).
//!
//! Each kind has a `type` that programs can tell it by; `detail` says what is wrong this time, and the remedy;
//! `pointer` (RFC 6901) says where in the JSON that was sent.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde::Serialize;

use super::held::NoPlace;

/// The kinds of problems there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    NotJson,
    Invalid,
    Unreadable,
    Unauthorized,
    Untrusted,
    UnknownPath,
    UnknownRule,
    NotHeld,
    Method,
    TooLarge,
    ContentType,
    Full,
}

impl Kind {
    #[cfg(test)]
    pub(super) const ALL: [Self; 12] = [
        Self::NotJson,
        Self::Invalid,
        Self::Unreadable,
        Self::Unauthorized,
        Self::Untrusted,
        Self::UnknownPath,
        Self::UnknownRule,
        Self::NotHeld,
        Self::Method,
        Self::TooLarge,
        Self::ContentType,
        Self::Full,
    ];

    /// Status, type and title.
    pub(super) const fn told(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NotJson => (StatusCode::BAD_REQUEST, "urn:sluicegate:not-json", "The body is not JSON"),
            Self::Invalid => (StatusCode::BAD_REQUEST, "urn:sluicegate:invalid", "The request makes no sense"),
            Self::Unreadable => (StatusCode::BAD_REQUEST, "urn:sluicegate:unreadable", "The body cannot be read"),
            Self::Unauthorized => {
                (StatusCode::UNAUTHORIZED, "urn:sluicegate:unauthorized", "The secret is missing or wrong")
            }
            Self::Untrusted => {
                (StatusCode::FORBIDDEN, "urn:sluicegate:untrusted", "The word of this caller does not count")
            }
            Self::UnknownPath => {
                (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-path", "There is nothing at this path")
            }
            Self::UnknownRule => (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-rule", "There is no such rule"),
            Self::NotHeld => (StatusCode::NOT_FOUND, "urn:sluicegate:not-held", "Nothing is held under this id"),
            Self::Method => {
                (StatusCode::METHOD_NOT_ALLOWED, "urn:sluicegate:method", "The method does not fit the path")
            }
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "urn:sluicegate:too-large", "The body is too large"),
            Self::ContentType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "urn:sluicegate:content-type", "The body is of another type")
            }
            Self::Full => (StatusCode::SERVICE_UNAVAILABLE, "urn:sluicegate:full", "No more can be held"),
        }
    }
}

/// What is wrong with a call.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) kind: Kind,
    detail: String,
    pointer: Option<String>,
    /// The methods that would have fitted.
    allowed: Option<&'static str>,
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<&'a str>,
}

impl From<NoPlace> for Problem {
    fn from(none: NoPlace) -> Self {
        let detail = match none {
            NoPlace::Full(most) => format!("{most} are held already: end some, or raise `max_held`"),
            NoPlace::NoRandomness => "the system has no randomness to make up an id of: try again later".to_owned(),
        };
        Self::new(Kind::Full, detail)
    }
}

impl Problem {
    pub(super) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), pointer: None, allowed: None }
    }

    /// With the place in the JSON it is about.
    pub(super) fn at(self, pointer: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), ..self }
    }

    /// The same, of a check in a list.
    pub(super) fn of_check(self, index: usize) -> Self {
        let pointer = format!("/checks/{index}{}", self.pointer.as_deref().unwrap_or_default());
        self.at(pointer)
    }

    /// A method that does not fit; these do.
    pub(super) fn method(sent: &http::Method, allowed: &'static str) -> Self {
        let detail = format!("{} is not possible here: use {allowed}", shown(sent.as_str()));
        Self { allowed: Some(allowed), ..Self::new(Kind::Method, detail) }
    }

    pub(super) fn render(self) -> Response<Full<Bytes>> {
        let (status, r#type, title) = self.kind.told();
        let document =
            Document { r#type, title, status: status.as_u16(), detail: &self.detail, pointer: self.pointer.as_deref() };
        // Such a document has nothing in it that JSON could not say.
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match self.kind {
            Kind::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Kind::Full => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        if let Some(allowed) = self.allowed {
            headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
        }
        response
    }
}

/// What was sent, short enough to be read and in one line.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let start: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() { format!("'{start}...'") } else { format!("'{start}'") }
}
