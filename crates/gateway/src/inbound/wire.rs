//! A client's bytes, and where among them the body of its request is.

use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::Frame;
use parking_lot::Mutex;
use sluicegate_door::{Asleep, Connection};
use sluicegate_http1::{Decoded, Decoder, Framing, Malformed};
use sluicegate_listen::Stream;

use crate::wire::Wire;

/// What a client that waits for it is told before it sends its body.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The connection, which its own task and the [body](SharedBody) of the request under way share. Where servers are spoken
/// to in HTTP/1, both are polled by that task; nobody holds the lock for longer than it takes to read.
pub(super) type SharedWire = Arc<Mutex<ClientWire>>;

/// The body of one request, for whoever sends it on. It may outlive its request, as the task that sends it over HTTP/2 may
/// go on after the answer; of the next one it sees nothing.
pub(crate) struct SharedBody {
    wire: SharedWire,
    request: u64,
}

impl SharedBody {
    /// Of the request under way.
    pub(super) fn new(wire: &SharedWire) -> Self {
        Self { wire: Arc::clone(wire), request: wire.lock().request }
    }

    /// Its next part.
    pub(crate) fn poll_part(&self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Malformed>>> {
        let mut wire = self.wire.lock();
        if wire.request != self.request {
            return Poll::Ready(Some(Err(Malformed::BrokenOff)));
        }
        let part = wire.poll_part(context);
        if part.is_pending() {
            wire.reader = Some(context.waker().clone());
        }
        part
    }

    /// How much of it is still to come, if that is known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        let wire = self.wire.lock();
        if wire.request == self.request { wire.body.remaining() } else { Some(0) }
    }
}

/// A client's connection.
pub(crate) struct ClientWire {
    pub(super) bytes: Wire<Stream<Connection>>,
    /// Which request is under way, counted.
    request: u64,
    /// What is left of its body.
    body: Decoder,
    /// Who reads that, while there is nothing to read.
    reader: Option<Waker>,
    /// The connection's own task, while it waits for somebody else to have read that.
    waits: Option<Waker>,
    /// Whether the client waits for a word before it sends that.
    owes_continue: bool,
}

impl ClientWire {
    pub(super) fn new(stream: Stream<Connection>) -> Self {
        let body = Decoder::new(Framing::Empty);
        Self { bytes: Wire::new(stream), request: 0, body, reader: None, waits: None, owes_continue: false }
    }

    /// Whether nothing is left to be done, and nothing but the socket would have to be kept.
    pub(super) fn can_sleep(&self) -> bool {
        self.bytes.is_idle() && matches!(self.bytes.io(), Stream::Plain(_))
    }

    /// On which core what the client sends comes in; `None` where that is not known, or is of no use: nobody could go
    /// there.
    pub(super) fn core(&self) -> Option<usize> {
        match self.bytes.io() {
            Stream::Plain(connection) if self.can_sleep() => connection.core(),
            _ => None,
        }
    }

    /// Puts the connection to sleep; `None` if it [cannot](Self::can_sleep), or is broken.
    pub(super) fn sleep(self) -> Option<Asleep> {
        match self.bytes.into_parts().0 {
            Stream::Plain(connection) => connection.sleep().ok(),
            Stream::Tls(_) => None,
        }
    }

    /// Has the client told, when the connection ends, that it broke off. Where it is encrypted that is so in any case:
    /// nothing says that it was meant.
    pub(super) fn reset_when_dropped(&self) {
        if let Stream::Plain(connection) = self.bytes.io() {
            connection.reset_when_dropped();
        }
    }

    /// A request has come whose body is framed so.
    pub(super) fn begin(&mut self, framing: Framing, expects_continue: bool) {
        self.leave();
        self.body = Decoder::new(framing);
        self.owes_continue = expects_continue && !self.body.is_done();
    }

    /// The request under way is over. Who still reads its body is told so, and lets go of the connection.
    pub(super) fn leave(&mut self) {
        self.request += 1;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Whether all of the request has been read.
    pub(super) const fn is_read(&self) -> bool {
        self.body.is_done()
    }

    /// Has this task woken when all of the request has been read, by whomever.
    pub(super) fn wake_when_read(&mut self, context: &Context<'_>) {
        match &mut self.waits {
            Some(waits) => waits.clone_from(context.waker()),
            None => self.waits = Some(context.waker().clone()),
        }
    }

    /// The next part of the request's body.
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Malformed>>> {
        let part = self.poll_read_part(context);
        if self.is_read()
            && let Some(waits) = self.waits.take()
            && !waits.will_wake(context.waker())
        {
            waits.wake();
        }
        part
    }

    fn poll_read_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Malformed>>> {
        loop {
            match self.body.decode(&mut self.bytes.input) {
                Ok(Decoded::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Decoded::Trailers(trailers)) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Ok(Decoded::End) => return Poll::Ready(None),
                Ok(Decoded::More) => {}
                Err(malformed) => return Poll::Ready(Some(Err(malformed))),
            }
            if std::mem::take(&mut self.owes_continue) {
                self.bytes.output.extend_from_slice(CONTINUE);
            }
            // What is owed to the client goes out before anything more is expected of it.
            if !self.bytes.is_flushed() && matches!(self.bytes.poll_flush(context), Poll::Ready(Err(_))) {
                return Poll::Ready(Some(Err(Malformed::BrokenOff)));
            }
            match ready!(self.bytes.poll_fill(context)) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Poll::Ready(self.body.close().err().map(Err)),
            }
        }
    }

    /// Takes from what has come already whatever still belongs to the request, and answers whether that was all.
    pub(super) fn skip(&mut self) -> bool {
        // A client that was not told to go on may send its body all the same, or the next request: who knows.
        if self.owes_continue {
            return false;
        }
        while !self.body.is_done() {
            match self.body.decode(&mut self.bytes.input) {
                Ok(Decoded::More) | Err(_) => return false,
                Ok(_) => {}
            }
        }
        true
    }
}
