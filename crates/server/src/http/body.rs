//! The body of a call: JSON, and not more of it than was agreed.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http::call::{self, BodyError};

use super::problem::{Kind, Problem};

/// Reads it whole, if it is no longer than `most` bytes and never pauses for as long as `pause`.
pub(super) async fn read<B: Body<Data = Bytes>>(
    body: B,
    most: usize,
    pause: Duration,
    clock: &ClockHandle,
) -> Result<Bytes, Problem> {
    call::whole(body, most, pause, clock).await.map_err(|error| match error {
        BodyError::TooLarge { .. } => {
            Problem::new(Kind::TooLarge, format!("{error}: send less at once, or raise `max_request`"))
        }
        BodyError::Late | BodyError::Cut => Problem::new(Kind::Unreadable, error.to_string()),
    })
}

/// Refuses what does not say that it is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    call::is_json(headers).map_err(|detail| Problem::new(Kind::ContentType, detail))
}
