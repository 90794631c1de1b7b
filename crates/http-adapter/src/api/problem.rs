//! API errors as problem documents (RFC 9457).
//!
//! Each kind has a machine-readable `type`; `detail` describes the error and the remedy; `pointer` (RFC 6901)
//! locates it in the JSON input. An API may add extension members.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde::Serialize;

use crate::problem::ProblemDocument;

/// The problem types of an API.
pub trait ProblemKind: Copy {
    /// Returns status, type and title.
    fn describe(self) -> (StatusCode, &'static str, &'static str);
}

/// A problem document. `M` is a struct with the API's extension members.
///
/// ```
/// use http::StatusCode;
/// use sluicegate_http_adapter::api::{self, Problem};
///
/// #[derive(Clone, Copy)]
/// enum Kind {
///     Invalid,
/// }
///
/// impl api::ProblemKind for Kind {
///     fn describe(self) -> (StatusCode, &'static str, &'static str) {
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
pub struct Problem<K, M = NoExtensions> {
    kind: K,
    detail: String,
    pointer: Option<String>,
    /// Value of the `Allow` header, for a wrong method.
    allowed: Option<Cow<'static, str>>,
    extensions: M,
}

/// No extension members.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoExtensions {}

impl<K: ProblemKind, M: Default + Serialize> Problem<K, M> {
    /// Creates a problem. `detail` describes the error and the remedy.
    pub fn new(kind: K, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), pointer: None, allowed: None, extensions: M::default() }
    }

    /// Creates a problem for a wrong method, with the allowed ones.
    pub fn method(kind: K, sent: &Method, allowed: impl Into<Cow<'static, str>>) -> Self {
        let allowed = allowed.into();
        let detail = format!("method {} is not allowed: use {allowed}", quote_input(sent.as_str()));
        Self { allowed: Some(allowed), ..Self::new(kind, detail) }
    }

    /// Sets the JSON pointer to the invalid value.
    #[must_use]
    pub fn at(self, pointer: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), ..self }
    }

    /// Prefixes the JSON pointer with that of an enclosing value.
    #[must_use]
    pub fn within(self, parent: &str) -> Self {
        let pointer = format!("{parent}{}", self.pointer.as_deref().unwrap_or_default());
        self.at(pointer)
    }

    /// Sets the extension members.
    #[must_use]
    pub fn with_extensions(self, extensions: M) -> Self {
        Self { extensions, ..self }
    }

    /// Renders the response, with `Cache-Control: no-store`.
    pub fn render(self) -> Response<Bytes> {
        let Self { kind, detail, pointer, allowed, extensions: more } = self;
        let (status, r#type, title) = kind.describe();
        let document = ProblemDocument { r#type, title, status, detail: &detail, pointer: pointer.as_deref() };
        let mut response = document.render_with(&more);
        let headers = response.headers_mut();
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

/// Quotes input in an error message: escaped, on one line, truncated.
pub fn quote_input(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let start: String = text.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_CHARS).is_some() { format!("'{start}...'") } else { format!("'{start}'") }
}
