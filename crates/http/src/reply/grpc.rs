//! A refusal that a gRPC client can read: a response of headers alone.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, header};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use sluicegate_engine::sluice::Cause;

use super::{Protocol, forbid_storing, problem, retry_after};
use crate::headers::{seconds, value};
use crate::told::Told;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// How long a client that retries by itself is to wait first.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

const PERMISSION_DENIED: u64 = 7;
const RESOURCE_EXHAUSTED: u64 = 8;
const UNAVAILABLE: u64 = 14;

/// What a message must not contain as it is.
const NOT_PLAIN: &AsciiSet = &CONTROLS.add(b'%');

pub(super) fn render(told: &impl Told, protocol: Protocol) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    let kind = match protocol {
        Protocol::GrpcWeb => "application/grpc-web+proto",
        Protocol::GrpcWebText => "application/grpc-web-text+proto",
        Protocol::Grpc | Protocol::Http => "application/grpc",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Its status is 200 and anybody can ask for it: a cache would hand it to everybody.
    forbid_storing(headers);
    let status = match told.cause() {
        Cause::DenyList(_) => PERMISSION_DENIED,
        Cause::Strain(_) => UNAVAILABLE,
        _ => RESOURCE_EXHAUSTED,
    };
    headers.insert(GRPC_STATUS, value(status));
    let message = utf8_percent_encode(&problem::detail(told), NOT_PLAIN).to_string();
    if let Ok(message) = HeaderValue::try_from(message) {
        headers.insert(GRPC_MESSAGE, message);
    }
    match retry_after(told) {
        Some(wait) => {
            let millis = wait.as_nanos().div_ceil(1_000_000).clamp(1, i32::MAX.unsigned_abs().into());
            headers.insert(PUSHBACK, value(u64::try_from(millis).unwrap_or(u64::MAX)));
            headers.insert(header::RETRY_AFTER, value(seconds(wait).max(1)));
        }
        // Asking again does not help: a negative number says so.
        None => {
            headers.insert(PUSHBACK, HeaderValue::from_static("-1"));
        }
    }
    response
}
