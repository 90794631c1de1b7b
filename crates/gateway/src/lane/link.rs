//! A connection to a server over HTTP/1, and the exchange on it.
//!
//! It is not a task of its own. Whoever waits for an answer drives the connection: the socket wakes the
//! client's task directly, which reads the answer and writes it on.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRAILER, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode};
use http_body::{Body, Frame};
use sluicegate_engine::Timestamp;
use sluicegate_http1::{
    Decoded, Decoder, Framing, Malformed, ReadResponse, announced, read_response, write_chunk, write_field,
    write_last_chunk, write_request_line,
};
use sluicegate_listen::Stream;
use tokio::net::TcpStream;

use super::answer::AnswerError;
use super::{Due, Lost, Outgoing};
use crate::alarm::LazyAlarm;
use crate::body::RequestBody;
use crate::upstream::Room;
use crate::wire::Wire;

/// How many bytes the head of an answer may have.
const LONGEST_HEAD: usize = 256 << 10;

/// A connection that carries one request at a time.
pub(crate) struct Link {
    bytes: Wire<Stream<TcpStream>>,
    /// What is left to send of the request's body.
    upload: Option<Box<Sending>>,
    /// What is left to read of the answer's body.
    body: Decoder,
    /// Whether it can carry another request after this one.
    goes_on: bool,
    /// When it was last used.
    pub(super) used: Timestamp,
    /// Its place among the connections to the server.
    room: Room,
}

/// A request's body on its way.
struct Sending {
    body: RequestBody,
    /// How much is left of what was promised; `None` in chunks.
    left: Option<u64>,
    /// The head that announces trailers, if it does.
    announces: Option<HeaderMap>,
    /// Those that came.
    trailers: Option<HeaderMap>,
}

/// Why a request's body cannot be sent on.
enum Stuck {
    /// The client does not send it as it said.
    Body,
    /// The server does not take it. It may have answered all the same.
    Server,
}

impl Link {
    /// Over a fresh connection.
    pub(crate) fn new(stream: Stream<TcpStream>, room: Room, used: Timestamp) -> Box<Self> {
        let body = Decoder::new(Framing::Empty);
        Box::new(Self { bytes: Wire::new(stream), upload: None, body, goes_on: true, used, room })
    }

    /// The connection itself with what was read ahead, to go on with in another protocol.
    pub(crate) fn into_parts(self) -> (Stream<TcpStream>, BytesMut, Room) {
        let (stream, ahead) = self.bytes.into_parts();
        (stream, ahead, self.room)
    }

    /// Sends a request and waits for the head of the answer, until it is due. The request's body is taken out of it,
    /// if it has one, as soon as something is sent.
    pub(crate) async fn send(
        &mut self,
        outgoing: &mut Outgoing,
        due: &mut Due,
        alarm: &mut LazyAlarm,
    ) -> Result<ReadResponse, Lost> {
        if !self.is_still_ready() {
            return Err(Lost::Unsent);
        }
        self.begin(outgoing);
        let answer = poll_fn(|context| match self.poll_answer(outgoing, context) {
            Poll::Pending => due.poll_late(alarm, context).map(|()| Err(Lost::Late)),
            answer => answer,
        });
        let read = answer.await?;
        self.body = Decoder::new(read.framing);
        // A server that answered without taking all of the request gets no other on this connection.
        self.goes_on &= read.goes_on;
        Ok(read)
    }

    /// Puts a request's head together, and takes its body.
    fn begin(&mut self, outgoing: &mut Outgoing) {
        let output = &mut self.bytes.output;
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
            let means_body = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
            if means_body && length.is_none() {
                write_field(output, &CONTENT_LENGTH, b"0");
            }
        } else {
            let announces = has_trailers.then(|| request.headers().clone());
            let body = std::mem::replace(request.body_mut(), RequestBody::Empty);
            let left = if is_chunked { None } else { Some(length.unwrap_or(0)) };
            self.upload = Some(Box::new(Sending { body, left, announces, trailers: None }));
        }
        output.extend_from_slice(&outgoing.lines);
        output.extend_from_slice(b"\r\n");
    }

    /// Sends what is to be sent, and reads the head of the answer.
    fn poll_answer(&mut self, outgoing: &Outgoing, context: &mut Context<'_>) -> Poll<Result<ReadResponse, Lost>> {
        let (method, wanted) = (outgoing.request.method(), outgoing.wanted);
        if let Poll::Ready(Err(Stuck::Body)) = self.poll_upload(context) {
            return Poll::Ready(Err(Lost::Broken));
        }
        loop {
            if !self.bytes.input.is_empty() {
                match read_response(&mut self.bytes.input, method, LONGEST_HEAD, wanted) {
                    // What comes before the answer is none of the client's business.
                    Ok(Some(read)) if is_interim(read.status) => continue,
                    Ok(Some(read)) => return Poll::Ready(Ok(read)),
                    Ok(None) => {}
                    Err(_) => return Poll::Ready(Err(Lost::Broken)),
                }
            }
            match self.bytes.poll_fill(context) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => return Poll::Ready(Err(Lost::Broken)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Goes on sending the request. Ready when all of it has gone.
    fn poll_upload(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Stuck>> {
        if self.upload.is_none() && self.bytes.is_flushed() {
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut waits = false;
            while let Some(sending) = &mut self.upload
                && self.bytes.takes_more()
            {
                match Pin::new(&mut sending.body).poll_frame(context) {
                    Poll::Ready(Some(Ok(frame))) => {
                        if !sending.part(frame, &mut self.bytes) {
                            return Poll::Ready(Err(Stuck::Body));
                        }
                    }
                    Poll::Ready(None) => {
                        if !sending.end(&mut self.bytes) {
                            return Poll::Ready(Err(Stuck::Body));
                        }
                        self.upload = None;
                    }
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(Stuck::Body)),
                    Poll::Pending => {
                        waits = true;
                        break;
                    }
                }
            }
            match self.bytes.poll_flush(context) {
                Poll::Ready(Ok(())) if self.upload.is_none() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) if waits => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    // Nothing more can be sent, but something may be there to be read.
                    self.upload = None;
                    self.bytes.give_up_output();
                    self.goes_on = false;
                    return Poll::Ready(Err(Stuck::Server));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The next part of the answer's body.
    pub(super) fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        loop {
            match self.body.decode(&mut self.bytes.input) {
                Ok(Decoded::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Decoded::Trailers(trailers)) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Ok(Decoded::End) => return Poll::Ready(None),
                Ok(Decoded::More) => {}
                Err(malformed) => return Poll::Ready(Some(Err(malformed.into()))),
            }
            // The request may have been taken whole, and its last part still wait to be written.
            if let Poll::Ready(Err(Stuck::Body)) = self.poll_upload(context) {
                return Poll::Ready(Some(Err(AnswerError::Request)));
            }
            match self.bytes.poll_fill(context) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0)) => return Poll::Ready(self.body.close().err().map(|error| Err(error.into()))),
                Poll::Ready(Err(_)) => return Poll::Ready(Some(Err(Malformed::BrokenOff.into()))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// How much of the answer's body is still to come, if that is known.
    pub(super) const fn remaining(&self) -> Option<u64> {
        self.body.remaining()
    }

    /// Whether somebody waits for its room.
    pub(super) fn is_wanted_elsewhere(&self) -> bool {
        self.room.is_wanted()
    }

    /// Whether it can carry another request, as far as is known.
    pub(super) fn is_ready(&self) -> bool {
        self.goes_on
            && self.body.is_done()
            && self.upload.is_none()
            && self.bytes.is_flushed()
            && self.bytes.input.is_empty()
    }

    /// The same, with a look at what the server has done meanwhile: whatever it says now is no answer to anything.
    pub(super) fn is_still_ready(&mut self) -> bool {
        self.is_ready() && self.bytes.poll_fill(&mut Context::from_waker(Waker::noop())).is_pending()
    }
}

impl Sending {
    /// Sends a part of the body on. Answers whether that is as it was promised.
    fn part(&mut self, frame: Frame<Bytes>, bytes: &mut Wire<Stream<TcpStream>>) -> bool {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                if let (Some(head), Ok(trailers)) = (&self.announces, frame.into_trailers()) {
                    self.trailers = Some(announced(head, trailers));
                }
                return true;
            }
        };
        if data.is_empty() {
            return true;
        }
        match &mut self.left {
            Some(left) => match left.checked_sub(data.len() as u64) {
                Some(rest) => {
                    *left = rest;
                    bytes.push(data, b"");
                }
                None => return false,
            },
            None => {
                write_chunk(&mut bytes.output, data.len());
                bytes.push(data, b"\r\n");
            }
        }
        true
    }

    /// Says that this was all. Answers whether it was.
    fn end(&mut self, bytes: &mut Wire<Stream<TcpStream>>) -> bool {
        match self.left {
            Some(left) => left == 0,
            None => {
                write_last_chunk(&mut bytes.output, self.trailers.as_ref());
                true
            }
        }
    }
}

/// Whether something else comes before the answer.
fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}
