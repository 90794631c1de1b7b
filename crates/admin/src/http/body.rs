//! Request bodies: JSON with a size limit.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use serde::de::DeserializeOwned;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http_adapter::api::{self, BodyError};

use super::fields;
use super::problem::{Problem, ProblemKind};

/// Maximum time between two chunks of a body.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time for a complete body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads JSON of at most `max_bytes` bytes.
pub(super) async fn json<T: DeserializeOwned, B: Body<Data = Bytes>>(
    headers: &HeaderMap,
    body: B,
    max_bytes: usize,
    clock: &ClockHandle,
) -> Result<T, Problem> {
    require_json(headers)?;
    fields::read(&read_to_end(body, max_bytes, clock).await?)
}

/// Reads JSON of at most `max_bytes` bytes, or the default for an empty body.
pub(super) async fn optional_json<T: DeserializeOwned + Default, B: Body<Data = Bytes>>(
    headers: &HeaderMap,
    body: B,
    max_bytes: usize,
    clock: &ClockHandle,
) -> Result<T, Problem> {
    let bytes = read_to_end(body, max_bytes, clock).await?;
    if bytes.is_empty() {
        return Ok(T::default());
    }
    require_json(headers)?;
    fields::read(&bytes)
}

/// Accepts an empty body or an empty object only.
pub(super) async fn expect_empty<B: Body<Data = Bytes>>(body: B, clock: &ClockHandle) -> Result<(), Problem> {
    match &*read_to_end(body, EMPTY_OBJECT.len(), clock).await? {
        b"" | EMPTY_OBJECT => Ok(()),
        _ => Err(Problem::new(ProblemKind::Invalid, "this call takes no body")),
    }
}

/// Sent by some clients instead of an empty body.
const EMPTY_OBJECT: &[u8] = b"{}";

/// Reads a complete body of at most `max_bytes` bytes within the timeouts.
async fn read_to_end<B: Body<Data = Bytes>>(body: B, max_bytes: usize, clock: &ClockHandle) -> Result<Bytes, Problem> {
    let read = tokio::select! {
        biased;
        read = api::read_body(body, max_bytes, CHUNK_TIMEOUT, clock) => read,
        () = async { clock.sleep(BODY_TIMEOUT).await } => Err(BodyError::Timeout),
    };
    read.map_err(|error| match error {
        BodyError::TooLarge { .. } => Problem::new(ProblemKind::TooLarge, error.to_string()),
        BodyError::Timeout | BodyError::Truncated => Problem::new(ProblemKind::Unreadable, error.to_string()),
    })
}

/// Rejects a request without a JSON content type.
fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    api::require_json(headers).map_err(|detail| Problem::new(ProblemKind::ContentType, detail))
}
