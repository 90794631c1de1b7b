//! gRPC response body: one message with trailers, or another response.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use prost::Message;
use tonic::Status;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Length of the message prefix: compression flag and message length.
pub(super) const PREFIX_BYTES: usize = 5;

/// Body of a response.
#[derive(Default)]
pub(crate) enum GrpcBody {
    /// Empty or finished.
    #[default]
    Empty,
    /// A message, followed by OK trailers.
    Message(Bytes),
    /// The OK trailers.
    Trailers,
    /// Text for clients that do not speak gRPC.
    Text(&'static str),
    /// A response of tonic, and the future that ends it on shutdown.
    Tonic(tonic::body::Body, Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// A response with one message.
pub(crate) fn message_response(message: &impl Message) -> Response<GrpcBody> {
    let length = message.encoded_len();
    // Longer than a gRPC message can be; no valid request causes this.
    let Ok(prefix_length) = u32::try_from(length) else {
        return error_response(Status::internal("the response is too long"));
    };
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + length);
    bytes.put_u8(0);
    bytes.put_u32(prefix_length);
    if let Err(error) = message.encode(&mut bytes) {
        return error_response(Status::internal(error.to_string()));
    }
    let mut response = Response::new(GrpcBody::Message(bytes.freeze()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// A response with only a gRPC status.
pub(crate) fn error_response(status: Status) -> Response<GrpcBody> {
    status.into_http()
}

/// A response to clients that do not speak gRPC.
pub(crate) fn text_response(status: StatusCode, text: &'static str) -> Response<GrpcBody> {
    let mut response = Response::new(GrpcBody::Text(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

impl Body for GrpcBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Self::Tonic(body, end) = &mut *self {
            let frame = Pin::new(body).poll_frame(context);
            if frame.is_ready() || end.as_mut().poll(context).is_pending() {
                return frame;
            }
            *self = Self::Empty;
            return Poll::Ready(Some(Ok(Frame::trailers(unavailable_trailers()))));
        }
        let (frame, next) = match std::mem::take(&mut *self) {
            Self::Message(bytes) => (Frame::data(bytes), Self::Trailers),
            Self::Trailers => (Frame::trailers(ok_trailers()), Self::Empty),
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
            // Trailers follow: no length is known.
            Self::Message(_) | Self::Trailers | Self::Empty => SizeHint::default(),
        }
    }
}

fn ok_trailers() -> HeaderMap {
    trailers("0")
}

/// Trailers for shutdown: the client should retry elsewhere.
fn unavailable_trailers() -> HeaderMap {
    trailers("14")
}

fn trailers(status: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(GRPC_STATUS, HeaderValue::from_static(status));
    trailers
}
