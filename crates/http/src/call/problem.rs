//! What is wrong with a call, as problem documents (RFC 9457).
//!
//! Each kind has a `type` that programs can tell it by; `detail` says what is wrong this time, and the remedy;
//! `pointer` (RFC 6901) says where in the JSON that was sent. An API may add members of its own.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde::Serialize;

/// The kinds of problems an API has.
pub trait Kind: Copy {
    /// Status, type and title.
    fn told(self) -> (StatusCode, &'static str, &'static str);
}

/// What is wrong with a call. `M` is what the API tells besides: the members of a struct.
///
/// ```
/// use http::StatusCode;
/// use sluicegate_http::call::{self, Problem};
///
/// #[derive(Clone, Copy)]
/// enum Kind {
///     Invalid,
/// }
///
/// impl call::Kind for Kind {
///     fn told(self) -> (StatusCode, &'static str, &'static str) {
///         (StatusCode::BAD_REQUEST, "urn:shop:invalid", "The request makes no sense")
///     }
/// }
///
/// let problem: Problem<Kind> = Problem::new(Kind::Invalid, "`cost` is -1: write 0 or more").at("/cost");
/// let response = problem.render();
/// assert_eq!(response.headers()["content-type"], "application/problem+json");
/// assert_eq!(
///     response.body(),
///     &r#"{"type":"urn:shop:invalid","title":"The request makes no sense","status":400,
///     "detail":"`cost` is -1: write 0 or more","pointer":"/cost"}"#.replace("\n    ", "")
/// );
/// ```
#[derive(Debug)]
pub struct Problem<K, M = Nothing> {
    kind: K,
    detail: String,
    pointer: Option<String>,
    /// The methods that would have fitted.
    allowed: Option<Cow<'static, str>>,
    more: M,
}

/// No members besides those that every problem has.
#[derive(Debug, Default, Serialize)]
pub struct Nothing {}

#[derive(Serialize)]
struct Document<'a, M> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<&'a str>,
    #[serde(flatten)]
    more: &'a M,
}

impl<K: Kind, M: Default + Serialize> Problem<K, M> {
    /// One of this kind. `detail` says what is wrong, and the remedy.
    pub fn new(kind: K, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), pointer: None, allowed: None, more: M::default() }
    }

    /// A method that does not fit; these do.
    pub fn method(kind: K, sent: &Method, allowed: impl Into<Cow<'static, str>>) -> Self {
        let allowed = allowed.into();
        let detail = format!("{} is not possible here: use {allowed}", shown(sent.as_str()));
        Self { allowed: Some(allowed), ..Self::new(kind, detail) }
    }

    /// With the place in the JSON it is about.
    #[must_use]
    pub fn at(self, pointer: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), ..self }
    }

    /// The same, in a part of the JSON that is at this place.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        let pointer = format!("{place}{}", self.pointer.as_deref().unwrap_or_default());
        self.at(pointer)
    }

    /// With members of the API's own.
    #[must_use]
    pub fn with(self, more: M) -> Self {
        Self { more, ..self }
    }

    /// The answer. Nothing keeps it.
    pub fn render(self) -> Response<Bytes> {
        let Self { kind, detail, pointer, allowed, more } = self;
        let (status, r#type, title) = kind.told();
        let (detail, pointer, more) = (detail.as_str(), pointer.as_deref(), &more);
        let document = Document { r#type, title, status: status.as_u16(), detail, pointer, more };
        // Such a document has nothing in it that JSON could not say.
        let mut response = Response::new(Bytes::from(serde_json::to_vec(&document).unwrap_or_default()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        if let Some(allowed) = allowed.and_then(|allowed| HeaderValue::try_from(&*allowed).ok()) {
            headers.insert(header::ALLOW, allowed);
        }
        response
    }
}

/// What was sent, short enough to be read and in one line.
pub fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let start: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() { format!("'{start}...'") } else { format!("'{start}'") }
}
