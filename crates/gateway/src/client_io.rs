//! I/O of a client connection, including the body of the current request.

use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::Frame;
use parking_lot::Mutex;
use sluicegate_http1::{Decoded, Decoder, Framing, ParseError};
use sluicegate_net::{Connection, MaybeTlsStream, ParkedSocket};

use crate::buffered_io::BufferedIo;

/// Interim response for clients that wait for it before they send a body.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The connection, shared by its own task and the [body](SharedBody) of the current request. With HTTP/1
/// upstreams the same task polls both; the lock is held only for the duration of a read.
pub(crate) type SharedIo = Arc<Mutex<ClientIo>>;

/// Body of one request, for the task that forwards it. It may outlive the request, since an HTTP/2 upstream
/// task may continue after the response; it never reads bytes of the next request.
pub(crate) struct SharedBody {
    io: SharedIo,
    request_index: u64,
}

impl SharedBody {
    /// The body of the current request.
    pub(crate) fn new(io: &SharedIo) -> Self {
        Self { io: Arc::clone(io), request_index: io.lock().request_index }
    }

    /// Polls the next part.
    pub(crate) fn poll_part(&self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ParseError>>> {
        let mut io = self.io.lock();
        if io.request_index != self.request_index {
            return Poll::Ready(Some(Err(ParseError::UnexpectedEof)));
        }
        let part = io.poll_part(context);
        if part.is_pending() {
            io.body_waker = Some(context.waker().clone());
        }
        part
    }

    /// Bytes still to come, if known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        let io = self.io.lock();
        if io.request_index == self.request_index { io.body.remaining() } else { Some(0) }
    }
}

/// I/O state of a client connection.
pub(crate) struct ClientIo {
    pub(crate) buffered: BufferedIo<MaybeTlsStream<Connection>>,
    /// Index of the current request.
    request_index: u64,
    /// Decoder of its body.
    body: Decoder,
    /// Waker of the task that reads the body, while no input is available.
    body_waker: Option<Waker>,
    /// Waker of the connection's task, while it waits for another task to read the body.
    connection_waker: Option<Waker>,
    /// Set while the client waits for `100 Continue`.
    owes_continue: bool,
}

impl ClientIo {
    pub(crate) fn new(stream: MaybeTlsStream<Connection>) -> Self {
        let body = Decoder::new(Framing::Empty);
        Self {
            buffered: BufferedIo::new(stream),
            request_index: 0,
            body,
            body_waker: None,
            connection_waker: None,
            owes_continue: false,
        }
    }

    /// True if nothing is pending and only the socket would have to be kept.
    pub(crate) fn can_park(&self) -> bool {
        self.buffered.is_idle() && matches!(self.buffered.io(), MaybeTlsStream::Plain(_))
    }

    /// CPU that processes the client's incoming packets; `None` if unknown, or if the connection cannot migrate.
    pub(crate) fn incoming_cpu(&self) -> Option<usize> {
        match self.buffered.io() {
            MaybeTlsStream::Plain(connection) if self.can_park() => connection.incoming_cpu(),
            _ => None,
        }
    }

    /// Parks the connection; `None` if it [cannot be parked](Self::can_park) or is broken.
    pub(crate) fn park(self) -> Option<ParkedSocket> {
        match self.buffered.into_parts().0 {
            MaybeTlsStream::Plain(connection) => connection.park().ok(),
            MaybeTlsStream::Tls(_) => None,
        }
    }

    /// Resets the connection when it is dropped, so that the client sees an abort. With TLS the missing close alert
    /// already shows that.
    pub(crate) fn reset_on_drop(&self) {
        if let MaybeTlsStream::Plain(connection) = self.buffered.io() {
            connection.reset_on_drop();
        }
    }

    /// Starts a request with this body framing.
    pub(crate) fn begin_request(&mut self, framing: Framing, expects_continue: bool) {
        self.end_request();
        self.body = Decoder::new(framing);
        self.owes_continue = expects_continue && !self.body.is_done();
    }

    /// Ends the current request. A task that still reads its body is woken, and releases the connection.
    pub(crate) fn end_request(&mut self) {
        self.request_index += 1;
        if let Some(waker) = self.body_waker.take() {
            waker.wake();
        }
    }

    /// True if the whole request was read.
    pub(crate) const fn is_request_read(&self) -> bool {
        self.body.is_done()
    }

    /// Wakes this task once the whole request was read, by any task.
    pub(crate) fn wake_when_request_read(&mut self, context: &Context<'_>) {
        match &mut self.connection_waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => self.connection_waker = Some(context.waker().clone()),
        }
    }

    /// Polls the next part of the request body.
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ParseError>>> {
        let part = self.poll_read_part(context);
        if self.is_request_read()
            && let Some(waker) = self.connection_waker.take()
            && !waker.will_wake(context.waker())
        {
            waker.wake();
        }
        part
    }

    fn poll_read_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ParseError>>> {
        loop {
            match self.body.decode(&mut self.buffered.input) {
                Ok(Decoded::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Decoded::Trailers(trailers)) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Ok(Decoded::End) => return Poll::Ready(None),
                Ok(Decoded::NeedMore) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
            if std::mem::take(&mut self.owes_continue) {
                self.buffered.output.extend_from_slice(CONTINUE);
            }
            // Flush pending output before waiting for input.
            if !self.buffered.is_flushed() && matches!(self.buffered.poll_flush(context), Poll::Ready(Err(_))) {
                return Poll::Ready(Some(Err(ParseError::UnexpectedEof)));
            }
            match ready!(self.buffered.poll_fill(context)) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Poll::Ready(self.body.close().err().map(Err)),
            }
        }
    }

    /// Skips the remaining request body if it is already buffered; returns true if that was all of it.
    pub(crate) fn skip_body(&mut self) -> bool {
        // Without `100 Continue` the client may send either its body or the next request, which is ambiguous.
        if self.owes_continue {
            return false;
        }
        while !self.body.is_done() {
            match self.body.decode(&mut self.buffered.input) {
                Ok(Decoded::NeedMore) | Err(_) => return false,
                Ok(_) => {}
            }
        }
        true
    }
}
