//! Problem documents (RFC 9457) of refusals, of the HTTP APIs and of the gateway's errors.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::{Serialize, Serializer};

/// Media type of problem documents.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// The members of every problem document.
///
/// ```
/// use http::StatusCode;
/// use sluicegate_http_adapter::ProblemDocument;
///
/// let response = ProblemDocument::of_status(StatusCode::NOT_FOUND, "no route matches the request").render();
/// assert_eq!(response.headers()["content-type"], "application/problem+json");
/// assert_eq!(
///     response.body(),
///     r#"{"type":"about:blank","title":"Not Found","status":404,"detail":"no route matches the request"}"#
/// );
/// ```
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProblemDocument<'a> {
    /// Kind of the problem, for programs.
    pub(crate) r#type: &'static str,
    pub(crate) title: &'static str,
    #[serde(serialize_with = "code")]
    #[cfg_attr(feature = "openapi", schema(value_type = u16))]
    pub(crate) status: StatusCode,
    /// The error and its remedy.
    pub(crate) detail: &'a str,
    /// Location of the error in the request body (JSON pointer, RFC 6901).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub(crate) pointer: Option<&'a str>,
}

impl<'a> ProblemDocument<'a> {
    /// Creates a problem of which the status is all that programs need to know.
    pub fn of_status(status: StatusCode, detail: &'a str) -> Self {
        let title = status.canonical_reason().unwrap_or("Refused");
        Self { r#type: "about:blank", title, status, detail, pointer: None }
    }

    /// Renders the response.
    pub fn render(&self) -> Response<Bytes> {
        response(self.status, json(self))
    }

    /// Renders the response with further members.
    pub(crate) fn render_with(&self, extensions: &impl Serialize) -> Response<Bytes> {
        #[derive(Serialize)]
        struct Document<'a, M> {
            #[serde(flatten)]
            members: &'a ProblemDocument<'a>,
            #[serde(flatten)]
            extensions: &'a M,
        }
        response(self.status, json(&Document { members: self, extensions }))
    }
}

/// A response with a rendered document.
pub(crate) fn response(status: StatusCode, document: Vec<u8>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(document));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

/// Serialization cannot fail: the document has only JSON types.
fn json(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document).unwrap_or_default()
}

fn code<S: Serializer>(status: &StatusCode, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u16(status.as_u16())
}
