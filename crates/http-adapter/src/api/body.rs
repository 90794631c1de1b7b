//! Reads JSON request bodies with a size limit and an idle timeout.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use http_body::Body;
use sluicegate_engine::clock::ClockHandle;
use thiserror::Error;

use super::quote_input;

/// Error of reading a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BodyError {
    /// The body exceeds the size limit.
    #[error("the body exceeds {max_bytes} bytes")]
    TooLarge {
        /// Size limit in bytes.
        max_bytes: usize,
    },
    /// No data arrived within the idle timeout.
    #[error("timeout while reading the body: send the request again")]
    Timeout,
    /// The connection ended before the body did.
    #[error("the connection ended within the body: send the request again")]
    Truncated,
}

/// Reads a complete body of at most `max_bytes`, with less than `idle_timeout` between two chunks. A body that
/// announces a larger size is refused without reading it.
pub async fn read_body<B: Body<Data = Bytes>>(
    body: B,
    max_bytes: usize,
    idle_timeout: Duration,
    clock: &ClockHandle,
) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(BodyError::TooLarge { max_bytes });
    }
    let mut body = pin!(body);
    // Most bodies are one chunk, which is not copied.
    let mut whole = Bytes::new();
    loop {
        // The timer starts on the first poll: data that is already there needs none.
        let mut paused = pin!(async { clock.sleep(idle_timeout).await });
        let frame = poll_fn(|context| match body.as_mut().poll_frame(context) {
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
            Poll::Pending => paused.as_mut().poll(context).map(|()| Err(BodyError::Timeout)),
        });
        let Some(frame) = frame.await? else { return Ok(whole) };
        let Ok(piece) = frame.map_err(|_| BodyError::Truncated)?.into_data() else { continue };
        if whole.len().saturating_add(piece.len()) > max_bytes {
            return Err(BodyError::TooLarge { max_bytes });
        }
        whole = if whole.is_empty() { piece } else { joined(whole, &piece) };
    }
}

fn joined(whole: Bytes, piece: &[u8]) -> Bytes {
    let mut joined = whole.try_into_mut().unwrap_or_else(|whole| BytesMut::from(&*whole));
    joined.extend_from_slice(piece);
    joined.freeze()
}

/// Requires `Content-Type: application/json`; the error text names the remedy. Prevents guessing at forms
/// sent by mistake, and cross-site requests that a browser sends without a CORS preflight.
pub fn require_json(headers: &HeaderMap) -> Result<(), String> {
    let remedy = "send JSON with `Content-Type: application/json`";
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        return Err(format!("missing content type: {remedy}"));
    };
    let essence = kind.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let sent = HeaderValue::to_str(kind).map_or_else(|_| "the content type".to_owned(), quote_input);
    Err(format!("{sent} is not JSON: {remedy}"))
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use http_body::Frame;
    use http_body_util::{Full, StreamBody};
    use sluicegate_engine::clock::ManualClock;

    use super::*;

    const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

    /// A stream of chunks; `None` is a connection error.
    struct Chunks<'p>(std::slice::Iter<'p, Option<&'static str>>);

    impl futures_core::Stream for Chunks<'_> {
        type Item = Result<Frame<Bytes>, &'static str>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(self.0.next().map(|piece| piece.map(|text| Frame::data(text.into())).ok_or("reset")))
        }
    }

    async fn read(pieces: &[Option<&'static str>], max_bytes: usize) -> Result<Bytes, BodyError> {
        let body = StreamBody::new(Chunks(pieces.iter()));
        read_body(body, max_bytes, IDLE_TIMEOUT, &ClockHandle::new(ManualClock::new())).await
    }

    #[tokio::test]
    async fn chunks_are_joined_up_to_the_limit() {
        let pieces = [Some("{\"a\""), Some(":"), Some("7}")];
        assert_eq!(read(&pieces, 7).await, Ok(Bytes::from("{\"a\":7}")));
        assert_eq!(read(&pieces, 6).await, Err(BodyError::TooLarge { max_bytes: 6 }));
        assert_eq!(read(&[], 0).await, Ok(Bytes::new()));
    }

    #[tokio::test]
    async fn a_body_announced_as_too_large_is_not_read() {
        let result = read_body(Full::new(Bytes::from("12345")), 4, IDLE_TIMEOUT, &ClockHandle::default()).await;
        assert_eq!(result, Err(BodyError::TooLarge { max_bytes: 4 }));
    }

    #[tokio::test]
    async fn a_truncated_body_is_an_error() {
        assert_eq!(read(&[Some("{"), None], 4).await, Err(BodyError::Truncated));
    }

    /// A body that never yields data.
    struct PendingBody;

    impl Body for PendingBody {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Pending
        }
    }

    #[test]
    fn a_stalled_body_times_out() {
        let clock = ManualClock::new();
        let handle = ClockHandle::new(clock.clone());
        let mut reading = pin!(read_body(PendingBody, 4, IDLE_TIMEOUT, &handle));
        let mut context = Context::from_waker(Waker::noop());
        assert!(reading.as_mut().poll(&mut context).is_pending());
        clock.advance(IDLE_TIMEOUT - Duration::from_nanos(1));
        assert!(reading.as_mut().poll(&mut context).is_pending());
        clock.advance(Duration::from_nanos(1));
        assert_eq!(reading.as_mut().poll(&mut context), Poll::Ready(Err(BodyError::Timeout)));
    }
}
