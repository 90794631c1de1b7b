//! The body of a call: JSON, and not more of it than was agreed.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use http_body::Body;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use sluicegate_engine::clock::ClockHandle;

use super::fields;
use super::problem::{Kind, Problem, shown};

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

async fn whole<B: Body<Data = Bytes>>(body: B, most: usize, clock: &ClockHandle) -> Result<Bytes, Problem> {
    tokio::select! {
        biased;
        read = read(body, most, clock) => read,
        () = async { clock.sleep(WHOLE).await } => Err(late()),
    }
}

/// Reads it whole, if it is no longer than `most` bytes and never pauses for long. A body that says beforehand that it
/// is longer is refused unread.
async fn read<B: Body<Data = Bytes>>(body: B, most: usize, clock: &ClockHandle) -> Result<Bytes, Problem> {
    let too_large = || Err(Problem::new(Kind::TooLarge, format!("it has more than {most} bytes: send less")));
    if body.size_hint().lower() > most as u64 {
        return too_large();
    }
    let mut body = pin!(body);
    let mut whole = BytesMut::new();
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = async { clock.sleep(PAUSE).await } => return Err(late()),
        };
        let Some(frame) = frame else { return Ok(whole.freeze()) };
        let Ok(frame) = frame else {
            return Err(Problem::new(Kind::Unreadable, "it ended before its end: send it again"));
        };
        let Ok(piece) = frame.into_data() else { continue };
        if whole.len().saturating_add(piece.len()) > most {
            return too_large();
        }
        whole.extend_from_slice(&piece);
    }
}

fn late() -> Problem {
    Problem::new(Kind::Unreadable, "the rest of it did not come in time: send it again")
}

/// Refuses what does not say that it is JSON: a form sent by mistake is not to be guessed at, nor a page of
/// somebody else to be served by a browser that asks nobody.
fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let remedy = "send JSON with `Content-Type: application/json`";
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        return Err(Problem::new(Kind::ContentType, format!("there is no content type: {remedy}")));
    };
    let essence = kind.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let sent = HeaderValue::to_str(kind).map_or_else(|_| "the content type".to_owned(), shown);
    Err(Problem::new(Kind::ContentType, format!("{sent} is not JSON: {remedy}")))
}
