//! What is sent back.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use serde::Serialize;

/// The body of a reply: known as a whole, or told bit by bit.
pub(crate) type Body = Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>;

/// A reply.
pub(super) type Reply = Response<Body>;

/// A reply of this type. Nothing keeps it, and nobody takes it for something else than it is.
pub(super) fn data(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Either::Left(Full::new(body.into())));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    // Nothing that is answered has anything in it that JSON could not say.
    data(status, "application/json", serde_json::to_vec(value).unwrap_or_default())
}

/// JSON, and all is well.
pub(super) fn ok(value: &impl Serialize) -> Reply {
    json(StatusCode::OK, value)
}

/// Nothing but the head.
pub(super) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Either::Left(Full::default()));
    *reply.status_mut() = status;
    reply
}

/// The same, only told how long it would have been. Over HTTP/2 hyper would send the body, and the client would take
/// that for a broken stream.
pub(super) fn without_body(reply: Reply) -> Reply {
    let (mut head, body) = reply.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(head, Either::Left(Full::default()))
}
