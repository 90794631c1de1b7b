//! The body of a call: JSON, and not more of it than was agreed.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use serde::de::DeserializeOwned;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http::call::{self, BodyError};

use super::fields;
use super::problem::{Kind, Problem};

/// The longest between two parts of a body.
const PAUSE: Duration = Duration::from_secs(10);

/// The longest that a whole body may take.
const WHOLE: Duration = Duration::from_secs(60);

/// Reads JSON of no more than `most` bytes.
pub(super) async fn json<T: DeserializeOwned, B: Body<Data = Bytes>>(
    headers: &HeaderMap,
    body: B,
    most: usize,
    clock: &ClockHandle,
) -> Result<T, Problem> {
    is_json(headers)?;
    fields::read(&whole(body, most, clock).await?)
}

/// The same, where there need be none.
pub(super) async fn json_if_any<T: DeserializeOwned + Default, B: Body<Data = Bytes>>(
    headers: &HeaderMap,
    body: B,
    most: usize,
    clock: &ClockHandle,
) -> Result<T, Problem> {
    let whole = whole(body, most, clock).await?;
    if whole.is_empty() {
        return Ok(T::default());
    }
    is_json(headers)?;
    fields::read(&whole)
}

/// Sees to it that there is none, or one with nothing in it.
pub(super) async fn none<B: Body<Data = Bytes>>(body: B, clock: &ClockHandle) -> Result<(), Problem> {
    match &*whole(body, EMPTY.len(), clock).await? {
        b"" | EMPTY => Ok(()),
        _ => Err(Problem::new(Kind::Invalid, "nothing can be said here: send no body")),
    }
}

/// What some send where there is nothing to say.
const EMPTY: &[u8] = b"{}";

/// Reads it whole, if it is no longer than `most` bytes and comes in time.
async fn whole<B: Body<Data = Bytes>>(body: B, most: usize, clock: &ClockHandle) -> Result<Bytes, Problem> {
    let read = tokio::select! {
        biased;
        read = call::whole(body, most, PAUSE, clock) => read,
        () = async { clock.sleep(WHOLE).await } => Err(BodyError::Late),
    };
    read.map_err(|error| match error {
        BodyError::TooLarge { .. } => Problem::new(Kind::TooLarge, format!("{error}: send less")),
        BodyError::Late | BodyError::Cut => Problem::new(Kind::Unreadable, error.to_string()),
    })
}

/// Refuses what does not say that it is JSON.
fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    call::is_json(headers).map_err(|detail| Problem::new(Kind::ContentType, detail))
}
