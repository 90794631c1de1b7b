//! The body of a call: JSON, and not more of it than was agreed.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use http_body::Body;
use http_body_util::BodyExt;
use sluicegate_engine::clock::ClockHandle;

use super::problem::{Kind, Problem, shown};

/// Reads it whole, if it is no longer than `most` bytes and never pauses for as long as `pause`. A body that says
/// beforehand that it is longer is refused unread.
pub(super) async fn read<B: Body<Data = Bytes>>(
    body: B,
    most: usize,
    pause: Duration,
    clock: &ClockHandle,
) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("it has more than {most} bytes: send less at once, or raise `max_request`");
        Err(Problem::new(Kind::TooLarge, detail))
    };
    if body.size_hint().lower() > most as u64 {
        return too_large();
    }
    let mut body = pin!(body);
    // Most come in one piece, which need not be copied.
    let mut whole = Bytes::new();
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = async { clock.sleep(pause).await } => {
                return Err(Problem::new(Kind::Unreadable, "the rest of it did not come in time: send it again"));
            }
        };
        let Some(frame) = frame else { return Ok(whole) };
        let Ok(frame) = frame else {
            return Err(Problem::new(Kind::Unreadable, "it ended before its end: send it again"));
        };
        let Ok(piece) = frame.into_data() else { continue };
        if whole.len().saturating_add(piece.len()) > most {
            return too_large();
        }
        whole = if whole.is_empty() { piece } else { joined(whole, &piece) };
    }
}

fn joined(whole: Bytes, piece: &[u8]) -> Bytes {
    let mut joined = whole.try_into_mut().unwrap_or_else(|whole| BytesMut::from(&*whole));
    joined.extend_from_slice(piece);
    joined.freeze()
}

/// Refuses what does not say that it is JSON: a form sent by mistake is not to be guessed at, nor a page of
/// somebody else to be served by a browser that asks nobody.
pub(super) fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
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
