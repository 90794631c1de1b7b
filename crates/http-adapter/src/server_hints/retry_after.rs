//! Parses `Retry-After` and gRPC retry pushback.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};

use super::time::{ResponseTime, count, seconds};

/// gRPC's `RESOURCE_EXHAUSTED`.
const GRPC_RESOURCE_EXHAUSTED: &str = "8";

/// Returns the longest wait in the response; `None` if there is none or it is zero.
pub(super) fn read(status: StatusCode, headers: &HeaderMap, now: ResponseTime) -> Option<Duration> {
    let grpc = text(headers, "grpc-status");
    let retry_after = if applies_to_all_calls(status) || grpc == Some(GRPC_RESOURCE_EXHAUSTED) {
        let values = headers.get_all(header::RETRY_AFTER).iter();
        values.filter_map(|value| retry_after(value.to_str().ok()?.trim(), now)).max()
    } else {
        None
    };
    let pushback = match grpc {
        None | Some("0") => None,
        // A negative number means "do not retry" and does not affect other calls.
        Some(_) => text(headers, "grpc-retry-pushback-ms").and_then(count).map(Duration::from_millis),
    };
    retry_after.max(pushback).filter(|hold| !hold.is_zero())
}

/// Returns true if `Retry-After` with this status applies to all calls. With 202, for example, it applies
/// to polling for one result. GitHub sends it with 403.
fn applies_to_all_calls(status: StatusCode) -> bool {
    let refused = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE, StatusCode::FORBIDDEN];
    refused.contains(&status) || status.is_redirection()
}

fn retry_after(value: &str, now: ResponseTime) -> Option<Duration> {
    seconds(value).or_else(|| now.until_date(value))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}
