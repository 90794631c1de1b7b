//! How long not to call at all.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};

use super::moment::{Now, count, seconds};

/// gRPC's `RESOURCE_EXHAUSTED`.
const EXHAUSTED: &str = "8";

/// What the answer says, the longest of it; `None` if it says nothing, or nothing longer than zero.
pub(super) fn read(status: StatusCode, headers: &HeaderMap, now: Now) -> Option<Duration> {
    let grpc = text(headers, "grpc-status");
    let retry_after = if speaks_of_everybody(status) || grpc == Some(EXHAUSTED) {
        let values = headers.get_all(header::RETRY_AFTER).iter();
        values.filter_map(|value| retry_after(value.to_str().ok()?.trim(), now)).max()
    } else {
        None
    };
    let pushback = match grpc {
        None | Some("0") => None,
        // A negative number means "do not retry", and says nothing about other calls.
        Some(_) => text(headers, "grpc-retry-pushback-ms").and_then(count).map(Duration::from_millis),
    };
    retry_after.max(pushback).filter(|hold| !hold.is_zero())
}

/// Whether `Retry-After` with this status is about calling at all. With 202, say, it is about asking for
/// one result. GitHub sends it with 403.
fn speaks_of_everybody(status: StatusCode) -> bool {
    let refused = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE, StatusCode::FORBIDDEN];
    refused.contains(&status) || status.is_redirection()
}

fn retry_after(value: &str, now: Now) -> Option<Duration> {
    seconds(value).or_else(|| now.until_date(value))
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}
