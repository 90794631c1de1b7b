//! Reads request bodies: JSON with a size limit.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http_adapter::api::{self, BodyError};

use super::problem::{ApiErrorKind, Problem};

/// Reads the body, at most `max_bytes` bytes, with less than `read_timeout` between two chunks.
pub(super) async fn read<B: Body<Data = Bytes>>(
    body: B,
    max_bytes: usize,
    read_timeout: Duration,
    clock: &ClockHandle,
) -> Result<Bytes, Problem> {
    api::read_body(body, max_bytes, read_timeout, clock).await.map_err(|error| match error {
        BodyError::TooLarge { .. } => {
            Problem::new(ApiErrorKind::TooLarge, format!("{error}: send a smaller body or raise `max_request_size`"))
        }
        BodyError::Timeout | BodyError::Truncated => Problem::new(ApiErrorKind::Unreadable, error.to_string()),
    })
}

/// Refuses a body without a JSON content type.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    api::require_json(headers).map_err(|detail| Problem::new(ApiErrorKind::ContentType, detail))
}
