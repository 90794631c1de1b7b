//! A connection with or without TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use sluicegate_door::{Connection, OverConnection, write_gathered};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsStream;

/// A connection, in the clear or encrypted.
#[derive(Debug)]
pub enum Stream<T> {
    /// In the clear.
    Plain(T),
    /// Encrypted. Rarer, and large: on the heap, so that the others stay small.
    Tls(Box<TlsStream<T>>),
}

/// Hands a call to whichever it is.
macro_rules! whichever {
    ($stream:expr, $io:ident => $call:expr) => {
        match $stream.get_mut() {
            Stream::Plain($io) => $call,
            Stream::Tls($io) => $call,
        }
    };
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        whichever!(self, io => Pin::new(io).poll_read(cx, buf))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        whichever!(self, io => Pin::new(io).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        whichever!(self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        whichever!(self, io => Pin::new(io).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(io) => write_gathered(Pin::new(io), cx, bufs),
            Stream::Tls(io) => Pin::new(io).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(io) => io.is_write_vectored(),
            Self::Tls(io) => io.is_write_vectored(),
        }
    }
}

impl OverConnection for Stream<Connection> {
    fn connection(&mut self) -> &mut Connection {
        match self {
            Self::Plain(connection) => connection,
            Self::Tls(stream) => stream.get_mut().0,
        }
    }
}
