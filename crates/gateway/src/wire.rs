//! The bytes of one connection, in both directions.
//!
//! What is to be written is put together first and written in one call: a head and a short body are one packet.
//! Long parts of bodies are not copied; they are written from where they were read to.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// How much is read at once of a message's beginning: the head of a usual one. It is on the stack, and only what came is
/// kept: who waits takes no room.
const LEAST_READ: usize = 4 << 10;

/// How much is read at once where much comes.
const MOST_READ: usize = 64 << 10;

/// From this size on, a part of a body is written from where it is.
const LONG: usize = 4 << 10;

/// A connection's bytes.
pub(crate) struct Wire<I> {
    io: I,
    /// What was read, and not yet looked at.
    pub(crate) input: BytesMut,
    /// How much to read next.
    next_read: usize,
    /// What is to be written.
    pub(crate) output: Vec<u8>,
    /// How much of that has been written.
    written: usize,
    /// What is to be written behind it.
    tail: Bytes,
    /// And behind that.
    coda: &'static [u8],
    /// Whether something was written that may still be in the hands of TLS.
    is_flushed: bool,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Wire<I> {
    pub(crate) fn new(io: I) -> Self {
        Self {
            io,
            input: BytesMut::new(),
            next_read: LEAST_READ,
            output: Vec::new(),
            written: 0,
            tail: Bytes::new(),
            coda: b"",
            is_flushed: true,
        }
    }

    pub(crate) const fn io(&self) -> &I {
        &self.io
    }

    /// Whether nothing is left to be looked at or to be written.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_flushed() && self.input.is_empty()
    }

    pub(crate) fn into_parts(self) -> (I, BytesMut) {
        (self.io, self.input)
    }

    /// Reads on. Zero: the other side has ended.
    pub(crate) fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let (read, was_full) = if self.input.is_empty() && self.next_read == LEAST_READ {
            let mut space = [MaybeUninit::uninit(); LEAST_READ];
            let mut buffer = ReadBuf::uninit(&mut space);
            ready!(Pin::new(&mut self.io).poll_read(context, &mut buffer))?;
            self.input.extend_from_slice(buffer.filled());
            (buffer.filled().len(), buffer.remaining() == 0)
        } else {
            if self.input.capacity() - self.input.len() < self.next_read / 2 {
                self.input.reserve(self.next_read);
            }
            let read = ready!(pin!(self.io.read_buf(&mut self.input)).poll(context))?;
            (read, self.input.capacity() == self.input.len())
        };
        self.next_read = if was_full { (self.next_read * 4).min(MOST_READ) } else { LEAST_READ };
        Poll::Ready(Ok(read))
    }

    /// Whether all that was said has gone.
    pub(crate) const fn is_flushed(&self) -> bool {
        self.is_flushed && self.waiting() == 0
    }

    /// How much waits to be written.
    pub(crate) const fn waiting(&self) -> usize {
        self.output.len() - self.written + self.tail.len() + self.coda.len()
    }

    /// Whether more can be put behind what waits to be written.
    pub(crate) const fn takes_more(&self) -> bool {
        self.tail.is_empty() && self.coda.is_empty() && self.output.len() < MOST_READ
    }

    /// Adds a part of a body, and `coda` behind it. Only to be called if it [takes more](Self::takes_more).
    pub(crate) fn push(&mut self, data: Bytes, coda: &'static [u8]) {
        if data.len() < LONG {
            self.output.extend_from_slice(&data);
            self.output.extend_from_slice(coda);
        } else {
            (self.tail, self.coda) = (data, coda);
        }
    }

    /// Writes what waits, and answers when all of it has gone.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.waiting() > 0 {
            self.is_flushed = false;
            let io = Pin::new(&mut self.io);
            let first = &self.output[self.written..];
            let count = if self.tail.is_empty() && self.coda.is_empty() {
                ready!(io.poll_write(context, first))?
            } else {
                let pieces = [first, &self.tail, self.coda].map(IoSlice::new);
                let begin = pieces.iter().position(|piece| !piece.is_empty()).unwrap_or(0);
                ready!(io.poll_write_vectored(context, &pieces[begin..]))?
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.wrote(count);
        }
        if !self.is_flushed {
            ready!(Pin::new(&mut self.io).poll_flush(context))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    fn wrote(&mut self, count: usize) {
        let of_first = count.min(self.output.len() - self.written);
        self.written += of_first;
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        }
        let of_tail = (count - of_first).min(self.tail.len());
        self.tail.advance(of_tail);
        if self.tail.is_empty() {
            // What it was a part of may be large.
            self.tail = Bytes::new();
        }
        self.coda = &self.coda[count - of_first - of_tail..];
    }

    /// Forgets what waits to be written: nobody takes it.
    pub(crate) fn give_up_output(&mut self) {
        self.output.clear();
        (self.written, self.tail, self.coda, self.is_flushed) = (0, Bytes::new(), b"", true);
    }

    /// Gives back the room that only a busy connection needs.
    pub(crate) fn rest(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        if self.output.is_empty() {
            self.output = Vec::new();
        }
    }

    /// Tells the other side that nothing more comes.
    pub(crate) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    /// Reads on and forgets it. Zero: the other side has ended.
    pub(crate) fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.input.clear();
        self.poll_fill(context)
    }
}
