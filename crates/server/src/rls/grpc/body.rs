//! The body of an answer: one message and its trailers, or whatever else is answered.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use prost::Message;
use tonic::Status;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The length of what stands before each message: whether it is compressed, and how long it is.
pub(super) const PREFIX: usize = 5;

/// The body of an answer.
#[derive(Default)]
pub(crate) enum AnswerBody {
    /// Nothing, or nothing more.
    #[default]
    Empty,
    /// A message, and after it the trailers that say it was all.
    Message(Bytes),
    /// Those trailers.
    Trailers,
    /// Text, to whoever does not speak gRPC.
    Text(&'static str),
    /// What tonic answers, and when to end it where it waits for more.
    Tonic(tonic::body::Body, Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// An answer of one message.
pub(crate) fn answer(message: &impl Message) -> Response<AnswerBody> {
    let length = message.encoded_len();
    // Longer than a message of gRPC can be is longer than what any request can ask for.
    let Ok(told) = u32::try_from(length) else { return refuse(Status::internal("the answer is too long")) };
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    bytes.put_u32(told);
    if let Err(error) = message.encode(&mut bytes) {
        return refuse(Status::internal(error.to_string()));
    }
    let mut response = Response::new(AnswerBody::Message(bytes.freeze()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// An answer that only says what is wrong.
pub(crate) fn refuse(status: Status) -> Response<AnswerBody> {
    status.into_http()
}

/// An answer to whoever does not speak gRPC.
pub(crate) fn plain(status: StatusCode, text: &'static str) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Text(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Self::Tonic(body, end) = &mut *self {
            let frame = Pin::new(body).poll_frame(context);
            if frame.is_ready() || end.as_mut().poll(context).is_pending() {
                return frame;
            }
            *self = Self::Empty;
            return Poll::Ready(Some(Ok(Frame::trailers(no_more()))));
        }
        let (frame, next) = match std::mem::take(&mut *self) {
            Self::Message(bytes) => (Frame::data(bytes), Self::Trailers),
            Self::Trailers => (Frame::trailers(all_is_well()), Self::Empty),
            Self::Text(text) => (Frame::data(Bytes::from_static(text.as_bytes())), Self::Empty),
            Self::Empty | Self::Tonic(..) => return Poll::Ready(None),
        };
        *self = next;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Tonic(body, _) => body.is_end_stream(),
            Self::Message(_) | Self::Trailers | Self::Text(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Tonic(body, _) => body.size_hint(),
            Self::Text(text) => SizeHint::with_exact(text.len() as u64),
            // Its trailers come after it: no length is told.
            Self::Message(_) | Self::Trailers | Self::Empty => SizeHint::default(),
        }
    }
}

fn all_is_well() -> HeaderMap {
    trailers("0")
}

/// The server goes away: ask another.
fn no_more() -> HeaderMap {
    trailers("14")
}

fn trailers(status: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(GRPC_STATUS, HeaderValue::from_static(status));
    trailers
}
