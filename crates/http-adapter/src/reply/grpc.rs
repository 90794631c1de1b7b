//! gRPC refusals: trailers-only responses.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, header};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use sluicegate_engine::sluice::Cause;

use super::{Protocol, forbid_caching, problem, retry_after};
use crate::decision_view::DecisionView;
use crate::header_value::{seconds, value};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// Wait before an automatic retry by the client.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

const PERMISSION_DENIED: u64 = 7;
const RESOURCE_EXHAUSTED: u64 = 8;
const UNAVAILABLE: u64 = 14;

/// Characters that are percent-encoded in `grpc-message`.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

pub(super) fn render(view: &impl DecisionView, protocol: Protocol) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    let kind = match protocol {
        Protocol::GrpcWeb => "application/grpc-web+proto",
        Protocol::GrpcWebText => "application/grpc-web-text+proto",
        Protocol::Grpc | Protocol::Http => "application/grpc",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // The status is 200, so a cache could store the refusal and serve it to other clients.
    forbid_caching(headers);
    let status = match view.cause() {
        Cause::DenyList(_) => PERMISSION_DENIED,
        Cause::Overload(_) => UNAVAILABLE,
        _ => RESOURCE_EXHAUSTED,
    };
    headers.insert(GRPC_STATUS, value(status));
    let message = utf8_percent_encode(&problem::detail(view), ESCAPED).to_string();
    if let Ok(message) = HeaderValue::try_from(message) {
        headers.insert(GRPC_MESSAGE, message);
    }
    match retry_after(view) {
        Some(wait) => {
            let millis = wait.as_nanos().div_ceil(1_000_000).clamp(1, i32::MAX.unsigned_abs().into());
            headers.insert(PUSHBACK, value(u64::try_from(millis).unwrap_or(u64::MAX)));
            headers.insert(header::RETRY_AFTER, value(seconds(wait).max(1)));
        }
        // A negative pushback tells the client not to retry.
        None => {
            headers.insert(PUSHBACK, HeaderValue::from_static("-1"));
        }
    }
    response
}
