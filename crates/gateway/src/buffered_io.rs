//! Buffered I/O of one connection.
//!
//! Output is collected and written in one call: a head and a short body share a packet. Long parts of a body
//! are not copied; they are written from the buffer they were read into.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Read size at the start of a message: a typical head. The buffer is on the stack and only received bytes are
/// kept, so a waiting connection holds no buffer.
const MIN_READ_BYTES: usize = 4 << 10;

/// Maximum read size for large messages.
const MAX_READ_BYTES: usize = 64 << 10;

/// From this size on, parts of a body are written without copying.
const ZERO_COPY_BYTES: usize = 4 << 10;

/// A connection with input and output buffers.
pub(crate) struct BufferedIo<I> {
    io: I,
    /// Input that was read and not parsed yet.
    pub(crate) input: BytesMut,
    /// Size of the next read.
    next_read: usize,
    /// Output to write.
    pub(crate) output: Vec<u8>,
    /// Bytes of `output` already written.
    written: usize,
    /// Body part to write after `output`.
    body: Bytes,
    /// Suffix to write after the body part.
    suffix: &'static [u8],
    /// Cleared while TLS may still hold written data.
    is_flushed: bool,
}

impl<I: AsyncRead + AsyncWrite + Unpin> BufferedIo<I> {
    pub(crate) fn new(io: I) -> Self {
        Self {
            io,
            input: BytesMut::new(),
            next_read: MIN_READ_BYTES,
            output: Vec::new(),
            written: 0,
            body: Bytes::new(),
            suffix: b"",
            is_flushed: true,
        }
    }

    pub(crate) const fn io(&self) -> &I {
        &self.io
    }

    /// The connection itself, past the buffers.
    pub(crate) const fn io_mut(&mut self) -> &mut I {
        &mut self.io
    }

    /// True if no input or output is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_flushed() && self.input.is_empty()
    }

    pub(crate) fn into_parts(self) -> (I, BytesMut) {
        (self.io, self.input)
    }

    /// Reads more input. Zero: the peer has closed.
    pub(crate) fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let (read, was_full) = if self.input.is_empty() && self.next_read == MIN_READ_BYTES {
            let mut space = [MaybeUninit::uninit(); MIN_READ_BYTES];
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
        self.next_read = if was_full { (self.next_read * 4).min(MAX_READ_BYTES) } else { MIN_READ_BYTES };
        Poll::Ready(Ok(read))
    }

    /// True if all output was written and flushed.
    pub(crate) const fn is_flushed(&self) -> bool {
        self.is_flushed && self.pending_bytes() == 0
    }

    /// Bytes of pending output.
    pub(crate) const fn pending_bytes(&self) -> usize {
        self.output.len() - self.written + self.body.len() + self.suffix.len()
    }

    /// True if more output can be added.
    pub(crate) const fn has_capacity(&self) -> bool {
        self.body.is_empty() && self.suffix.is_empty() && self.output.len() < MAX_READ_BYTES
    }

    /// Adds a body part and a suffix. To be called only if it [has capacity](Self::has_capacity).
    pub(crate) fn push(&mut self, data: Bytes, suffix: &'static [u8]) {
        if data.len() < ZERO_COPY_BYTES {
            self.output.extend_from_slice(&data);
            self.output.extend_from_slice(suffix);
        } else {
            (self.body, self.suffix) = (data, suffix);
        }
    }

    /// Writes pending output. Ready when all of it was written.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.pending_bytes() > 0 {
            self.is_flushed = false;
            let io = Pin::new(&mut self.io);
            let first = &self.output[self.written..];
            let count = if self.body.is_empty() && self.suffix.is_empty() {
                ready!(io.poll_write(context, first))?
            } else {
                let pieces = [first, &self.body, self.suffix].map(IoSlice::new);
                let begin = pieces.iter().position(|piece| !piece.is_empty()).unwrap_or(0);
                ready!(io.poll_write_vectored(context, &pieces[begin..]))?
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(count);
        }
        if !self.is_flushed {
            ready!(Pin::new(&mut self.io).poll_flush(context))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, count: usize) {
        let from_output = count.min(self.output.len() - self.written);
        self.written += from_output;
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        }
        let from_body = (count - from_output).min(self.body.len());
        self.body.advance(from_body);
        if self.body.is_empty() {
            // It may keep a large buffer alive.
            self.body = Bytes::new();
        }
        self.suffix = &self.suffix[count - from_output - from_body..];
    }

    /// Discards pending output, because the peer does not accept it.
    pub(crate) fn discard_output(&mut self) {
        self.output.clear();
        (self.written, self.body, self.suffix, self.is_flushed) = (0, Bytes::new(), b"", true);
    }

    /// Frees the buffers of an idle connection.
    pub(crate) fn release_buffers(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        if self.output.is_empty() {
            self.output = Vec::new();
        }
    }
}
