//! The body of a call: JSON, and not more of it than was agreed.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use http_body::Body;
use sluicegate_engine::clock::ClockHandle;
use thiserror::Error;

use super::shown;

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BodyError {
    /// It is longer than was agreed.
    #[error("it has more than {most} bytes")]
    TooLarge {
        /// How long it may be.
        most: usize,
    },
    /// It paused for too long.
    #[error("the rest of it did not come in time: send it again")]
    Late,
    /// The connection ended first.
    #[error("it ended before its end: send it again")]
    Cut,
}

/// Reads a body whole, if it is no longer than `most` bytes and never pauses for as long as `pause`. A body that says
/// beforehand that it is longer is refused unread.
pub async fn whole<B: Body<Data = Bytes>>(
    body: B,
    most: usize,
    pause: Duration,
    clock: &ClockHandle,
) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > most as u64 {
        return Err(BodyError::TooLarge { most });
    }
    let mut body = pin!(body);
    // Most come in one piece, which need not be copied.
    let mut whole = Bytes::new();
    loop {
        // Begins with the first look at it: what is there already needs no alarm.
        let mut paused = pin!(async { clock.sleep(pause).await });
        let frame = poll_fn(|context| match body.as_mut().poll_frame(context) {
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
            Poll::Pending => paused.as_mut().poll(context).map(|()| Err(BodyError::Late)),
        });
        let Some(frame) = frame.await? else { return Ok(whole) };
        let Ok(piece) = frame.map_err(|_| BodyError::Cut)?.into_data() else { continue };
        if whole.len().saturating_add(piece.len()) > most {
            return Err(BodyError::TooLarge { most });
        }
        whole = if whole.is_empty() { piece } else { joined(whole, &piece) };
    }
}

fn joined(whole: Bytes, piece: &[u8]) -> Bytes {
    let mut joined = whole.try_into_mut().unwrap_or_else(|whole| BytesMut::from(&*whole));
    joined.extend_from_slice(piece);
    joined.freeze()
}

/// Refuses what does not say that it is JSON, with what to tell: a form sent by mistake is not to be guessed at, nor a
/// page of somebody else to be served by a browser that asks nobody.
pub fn is_json(headers: &HeaderMap) -> Result<(), String> {
    let remedy = "send JSON with `Content-Type: application/json`";
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        return Err(format!("there is no content type: {remedy}"));
    };
    let essence = kind.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let sent = HeaderValue::to_str(kind).map_or_else(|_| "the content type".to_owned(), shown);
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

    const PAUSE: Duration = Duration::from_secs(10);

    /// Pieces one after the other, and then the end; a piece that is no text is where the connection breaks.
    struct Pieces<'p>(std::slice::Iter<'p, Option<&'static str>>);

    impl futures_core::Stream for Pieces<'_> {
        type Item = Result<Frame<Bytes>, &'static str>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(self.0.next().map(|piece| piece.map(|text| Frame::data(text.into())).ok_or("reset")))
        }
    }

    async fn read(pieces: &[Option<&'static str>], most: usize) -> Result<Bytes, BodyError> {
        let body = StreamBody::new(Pieces(pieces.iter()));
        whole(body, most, PAUSE, &ClockHandle::new(ManualClock::new())).await
    }

    #[tokio::test]
    async fn pieces_are_put_together_up_to_the_bound() {
        let pieces = [Some("{\"a\""), Some(":"), Some("7}")];
        assert_eq!(read(&pieces, 7).await, Ok(Bytes::from("{\"a\":7}")));
        assert_eq!(read(&pieces, 6).await, Err(BodyError::TooLarge { most: 6 }));
        assert_eq!(read(&[], 0).await, Ok(Bytes::new()));
    }

    #[tokio::test]
    async fn what_says_that_it_is_longer_is_not_read() {
        let told = whole(Full::new(Bytes::from("12345")), 4, PAUSE, &ClockHandle::default()).await;
        assert_eq!(told, Err(BodyError::TooLarge { most: 4 }));
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_told_from_one_that_ends() {
        assert_eq!(read(&[Some("{"), None], 4).await, Err(BodyError::Cut));
    }

    /// A body of which nothing comes.
    struct Silent;

    impl Body for Silent {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Pending
        }
    }

    #[test]
    fn nobody_is_waited_for_longer_than_a_pause() {
        let clock = ManualClock::new();
        let handle = ClockHandle::new(clock.clone());
        let mut reading = pin!(whole(Silent, 4, PAUSE, &handle));
        let mut context = Context::from_waker(Waker::noop());
        assert!(reading.as_mut().poll(&mut context).is_pending());
        clock.advance(PAUSE - Duration::from_nanos(1));
        assert!(reading.as_mut().poll(&mut context).is_pending());
        clock.advance(Duration::from_nanos(1));
        assert_eq!(reading.as_mut().poll(&mut context), Poll::Ready(Err(BodyError::Late)));
    }
}
