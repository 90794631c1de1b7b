//! The built-in upstream: a program to try the gateway with.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};

/// Answers any request with what was asked.
pub(crate) fn answer<B>(request: &Request<B>) -> Response<Bytes> {
    let text = format!("{} {}: served by the built-in demo\n", request.method(), request.uri().path());
    let mut answer = Response::new(Bytes::from(text));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
