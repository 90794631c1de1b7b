//! HTTP/1 connection to a server.
//!
//! It has no task of its own: the task that waits for the response drives it. The socket wakes the client's
//! task directly, which reads the response and writes it to the client.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRAILER, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode};
use http_body::{Body, Frame};
use sluicegate_engine::Timestamp;
use sluicegate_http1::{
    Decoded, Decoder, Framing, ParseError, ReadResponse, filter_trailers, read_response, write_chunk, write_field,
    write_last_chunk, write_request_line,
};
use sluicegate_net::{LazyTimer, MaybeTlsStream};
use tokio::net::TcpStream;

use super::response_body::ResponseBodyError;
use super::{OutgoingRequest, ResponseDeadline, SendError};
use crate::buffered_io::BufferedIo;
use crate::request_body::RequestBody;
use crate::upstream::UpstreamPermit;

/// Maximum size of a response head.
const MAX_RESPONSE_HEAD: usize = 256 << 10;

/// A connection that carries one request at a time.
pub(crate) struct H1Connection {
    io: BufferedIo<MaybeTlsStream<TcpStream>>,
    /// Request body that is still being sent.
    request_body: Option<Box<RequestBodyWriter>>,
    /// Decoder of the response body.
    response_body: Decoder,
    /// True if the connection can be reused afterwards.
    keep_alive: bool,
    /// Time of the last use.
    pub(super) last_used: Timestamp,
    /// Permit of the server's connection limit.
    permit: UpstreamPermit,
}

/// A request body that is being sent.
struct RequestBodyWriter {
    body: RequestBody,
    /// Bytes remaining of the declared length; `None` for chunked.
    remaining: Option<u64>,
    /// The request headers, if they announce trailers.
    announcing_head: Option<HeaderMap>,
    /// Trailers received so far.
    trailers: Option<HeaderMap>,
}

/// Error while sending a request body.
enum UploadError {
    /// The client's body is invalid or aborted.
    Client,
    /// The server does not accept it. It may have responded anyway.
    Server,
}

impl H1Connection {
    /// Wraps a new connection.
    pub(crate) fn new(stream: MaybeTlsStream<TcpStream>, permit: UpstreamPermit, last_used: Timestamp) -> Box<Self> {
        let body = Decoder::new(Framing::Empty);
        Box::new(Self {
            io: BufferedIo::new(stream),
            request_body: None,
            response_body: body,
            keep_alive: true,
            last_used,
            permit,
        })
    }

    /// The stream and its read-ahead bytes, for another protocol.
    pub(crate) fn into_parts(self) -> (MaybeTlsStream<TcpStream>, BytesMut, UpstreamPermit) {
        let (stream, read_ahead) = self.io.into_parts();
        (stream, read_ahead, self.permit)
    }

    /// Sends a request and waits for the response head until the deadline. A request body is taken out of
    /// `outgoing` as soon as anything is sent.
    pub(crate) async fn send(
        &mut self,
        outgoing: &mut OutgoingRequest,
        deadline: &mut ResponseDeadline,
        timer: &mut LazyTimer,
    ) -> Result<ReadResponse, SendError> {
        if !self.is_still_reusable() {
            return Err(SendError::NotSent);
        }
        self.write_head(outgoing);
        let response = poll_fn(|context| match self.poll_response(outgoing, context) {
            Poll::Pending => deadline.poll_expired(timer, context).map(|()| Err(SendError::Timeout)),
            response => response,
        });
        let read = response.await?;
        self.response_body = Decoder::new(read.framing);
        // If the server responded without reading the whole request, the connection is not reused.
        self.keep_alive &= read.keep_alive;
        Ok(read)
    }

    /// Writes the request head and takes its body.
    fn write_head(&mut self, outgoing: &mut OutgoingRequest) {
        let output = &mut self.io.output;
        let request = &mut outgoing.request;
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        write_request_line(output, request.method(), target);
        let (mut length, mut is_chunked, mut has_trailers) = (None, false, false);
        for (name, value) in request.headers() {
            match *name {
                CONTENT_LENGTH => length = value.to_str().ok().and_then(|digits| digits.parse::<u64>().ok()),
                TRANSFER_ENCODING => is_chunked = true,
                TRAILER => has_trailers = true,
                _ => {}
            }
            write_field(output, name, value.as_bytes());
        }
        if request.body().is_empty() {
            let expects_body = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
            if expects_body && length.is_none() {
                write_field(output, &CONTENT_LENGTH, b"0");
            }
        } else {
            let announcing_head = has_trailers.then(|| request.headers().clone());
            let body = std::mem::replace(request.body_mut(), RequestBody::Empty);
            let remaining = if is_chunked { None } else { Some(length.unwrap_or(0)) };
            self.request_body = Some(Box::new(RequestBodyWriter { body, remaining, announcing_head, trailers: None }));
        }
        output.extend_from_slice(&outgoing.raw_headers);
        output.extend_from_slice(b"\r\n");
    }

    /// Sends pending request data and reads the response head.
    fn poll_response(
        &mut self,
        outgoing: &OutgoingRequest,
        context: &mut Context<'_>,
    ) -> Poll<Result<ReadResponse, SendError>> {
        let (method, header_mode) = (outgoing.request.method(), outgoing.header_mode);
        if let Poll::Ready(Err(UploadError::Client)) = self.poll_write_request(context) {
            return Poll::Ready(Err(SendError::BadResponse));
        }
        loop {
            if !self.io.input.is_empty() {
                match read_response(&mut self.io.input, method, MAX_RESPONSE_HEAD, header_mode) {
                    // Interim responses are not forwarded.
                    Ok(Some(read)) if is_interim(read.status) => continue,
                    Ok(Some(read)) => return Poll::Ready(Ok(read)),
                    Ok(None) => {}
                    Err(_) => return Poll::Ready(Err(SendError::BadResponse)),
                }
            }
            match self.io.poll_fill(context) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => return Poll::Ready(Err(SendError::BadResponse)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Continues sending the request. Ready when all of it was sent.
    fn poll_write_request(&mut self, context: &mut Context<'_>) -> Poll<Result<(), UploadError>> {
        if self.request_body.is_none() && self.io.is_flushed() {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut is_pending = false;
            while let Some(writer) = &mut self.request_body
                && self.io.has_capacity()
            {
                match Pin::new(&mut writer.body).poll_frame(context) {
                    Poll::Ready(Some(Ok(frame))) => {
                        if !writer.push_frame(frame, &mut self.io) {
                            return Poll::Ready(Err(UploadError::Client));
                        }
                    }
                    Poll::Ready(None) => {
                        if !writer.finish(&mut self.io) {
                            return Poll::Ready(Err(UploadError::Client));
                        }
                        self.request_body = None;
                    }
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(UploadError::Client)),
                    Poll::Pending => {
                        is_pending = true;
                        break;
                    }
                }
            }
            match self.io.poll_flush(context) {
                Poll::Ready(Ok(())) if self.request_body.is_none() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) if is_pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    // Nothing more can be sent, but a response may be readable.
                    self.request_body = None;
                    self.io.discard_output();
                    self.keep_alive = false;
                    return Poll::Ready(Err(UploadError::Server));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Polls the next part of the response body.
    pub(super) fn poll_body(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseBodyError>>> {
        loop {
            match self.response_body.decode(&mut self.io.input) {
                Ok(Decoded::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Decoded::Trailers(trailers)) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Ok(Decoded::End) => return Poll::Ready(None),
                Ok(Decoded::NeedMore) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
            // The request body may be complete while its last part is still being written.
            if let Poll::Ready(Err(UploadError::Client)) = self.poll_write_request(context) {
                return Poll::Ready(Some(Err(ResponseBodyError::RequestAborted)));
            }
            match self.io.poll_fill(context) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(self.response_body.close().err().map(|error| Err(error.into())));
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Some(Err(ParseError::UnexpectedEof.into()))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Bytes of the response body still to come, if known.
    pub(super) const fn remaining(&self) -> Option<u64> {
        self.response_body.remaining()
    }

    /// True if another request waits for the permit.
    pub(super) fn is_permit_wanted(&self) -> bool {
        self.permit.is_wanted()
    }

    /// True if the connection is reusable, by local state alone.
    pub(super) fn is_reusable(&self) -> bool {
        self.keep_alive
            && self.response_body.is_done()
            && self.request_body.is_none()
            && self.io.is_flushed()
            && self.io.input.is_empty()
    }

    /// Like [`is_reusable`](Self::is_reusable), but also checks the socket: unexpected data or a close makes it
    /// unusable.
    pub(super) fn is_still_reusable(&mut self) -> bool {
        self.is_reusable() && self.io.poll_fill(&mut Context::from_waker(Waker::noop())).is_pending()
    }
}

impl RequestBodyWriter {
    /// Sends a frame of the body. Returns false if it violates the declared length.
    fn push_frame(&mut self, frame: Frame<Bytes>, io: &mut BufferedIo<MaybeTlsStream<TcpStream>>) -> bool {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                if let (Some(head), Ok(trailers)) = (&self.announcing_head, frame.into_trailers()) {
                    self.trailers = Some(filter_trailers(head, trailers));
                }
                return true;
            }
        };
        if data.is_empty() {
            return true;
        }
        match &mut self.remaining {
            Some(remaining) => match remaining.checked_sub(data.len() as u64) {
                Some(remaining_after) => {
                    *remaining = remaining_after;
                    io.push(data, b"");
                }
                None => return false,
            },
            None => {
                write_chunk(&mut io.output, data.len());
                io.push(data, b"\r\n");
            }
        }
        true
    }

    /// Ends the body. Returns false if it is incomplete.
    fn finish(&mut self, io: &mut BufferedIo<MaybeTlsStream<TcpStream>>) -> bool {
        match self.remaining {
            Some(remaining) => remaining == 0,
            None => {
                write_last_chunk(&mut io.output, self.trailers.as_ref());
                true
            }
        }
    }
}

/// True for interim responses.
fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}
