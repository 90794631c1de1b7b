//! I/O stream with a prefix of bytes that were read already.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads the prefix first, then the inner stream.
pub(crate) struct PrefixedIo<I> {
    prefix: Bytes,
    io: I,
}

impl<I> PrefixedIo<I> {
    pub(crate) const fn new(io: I) -> Self {
        Self { prefix: Bytes::new(), io }
    }

    /// Sets the bytes that are read again.
    pub(crate) fn set_prefix(&mut self, prefix: Bytes) {
        // An empty slice may still keep a large buffer alive.
        self.prefix = if prefix.is_empty() { Bytes::new() } else { prefix };
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for PrefixedIo<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let part = self.prefix.len().min(buf.remaining());
        buf.put_slice(&self.prefix[..part]);
        self.prefix.advance(part);
        if self.prefix.is_empty() {
            // The slice may keep a large buffer alive.
            self.prefix = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for PrefixedIo<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
