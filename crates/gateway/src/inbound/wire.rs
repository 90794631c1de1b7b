//! A client's bytes, and where among them the body of its request is.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use parking_lot::Mutex;
use sluicegate_door::{Asleep, Connection};
use sluicegate_http1::{Decoded, Decoder, Framing, Malformed};
use sluicegate_listen::Stream;

use crate::wire::Wire;

/// What a client that waits for it is told before it sends its body.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The connection, which its own task and the body of the request under way share. Both are polled by that task, so
/// nobody ever waits for the lock.
pub(crate) type SharedWire = Arc<Mutex<ClientWire>>;

/// A client's connection.
pub(crate) struct ClientWire {
    pub(super) bytes: Wire<Stream<Connection>>,
    /// What is left of the body of the request under way.
    body: Decoder,
    /// Whether the client waits for a word before it sends that.
    owes_continue: bool,
}

impl ClientWire {
    pub(super) fn new(stream: Stream<Connection>) -> Self {
        Self { bytes: Wire::new(stream), body: Decoder::new(Framing::Empty), owes_continue: false }
    }

    /// Whether nothing is left to be done, and nothing but the socket would have to be kept.
    pub(super) fn can_sleep(&self) -> bool {
        self.bytes.is_idle() && matches!(self.bytes.io(), Stream::Plain(_))
    }

    /// Puts the connection to sleep; `None` if it [cannot](Self::can_sleep), or is broken.
    pub(super) fn sleep(self) -> Option<Asleep> {
        match self.bytes.into_parts().0 {
            Stream::Plain(connection) => connection.sleep().ok(),
            Stream::Tls(_) => None,
        }
    }

    /// A request has come whose body is framed so.
    pub(super) fn begin(&mut self, framing: Framing, expects_continue: bool) {
        self.body = Decoder::new(framing);
        self.owes_continue = expects_continue && !self.body.is_done();
    }

    /// Whether all of the request has been read.
    pub(super) const fn is_read(&self) -> bool {
        self.body.is_done()
    }

    /// How much of the body is still to come, if that is known.
    pub(crate) const fn remaining(&self) -> Option<u64> {
        self.body.remaining()
    }

    /// The next part of the request's body.
    pub(crate) fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Malformed>>> {
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
