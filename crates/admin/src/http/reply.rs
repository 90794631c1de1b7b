//! Response constructors.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use serde::Serialize;

/// Response body: complete, or streamed.
pub(crate) type Body = Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>;

/// A response.
pub(super) type Reply = Response<Body>;

/// Creates a response with this content type, not cacheable and not sniffable.
pub(super) fn data(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Either::Left(Full::new(body.into())));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// Creates a JSON response.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    // All response types are representable in JSON.
    data(status, "application/json", serde_json::to_vec(value).unwrap_or_default())
}

/// Creates a JSON response with status 200.
pub(super) fn ok(value: &impl Serialize) -> Reply {
    json(StatusCode::OK, value)
}

/// Creates a response without a body.
pub(super) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Either::Left(Full::default()));
    *reply.status_mut() = status;
    reply
}

/// Removes the body and keeps its content length, for HEAD. Over HTTP/2 hyper would send the body, and the
/// client would treat that as a stream error.
pub(super) fn without_body(reply: Reply) -> Reply {
    let (mut head, body) = reply.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(head, Either::Left(Full::default()))
}
