//! A connection with or without TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::connection::{AsConnection, Connection, write_coalesced};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsStream;

/// A plaintext or TLS connection.
#[derive(Debug)]
pub enum MaybeTlsStream<T> {
    /// Plaintext.
    Plain(T),
    /// TLS. Boxed because it is large and less common, so that plaintext connections stay small.
    Tls(Box<TlsStream<T>>),
}

/// Delegates a call to the inner stream.
macro_rules! delegate {
    ($stream:expr, $io:ident => $call:expr) => {
        match $stream.get_mut() {
            MaybeTlsStream::Plain($io) => $call,
            MaybeTlsStream::Tls($io) => $call,
        }
    };
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for MaybeTlsStream<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self, io => Pin::new(io).poll_read(cx, buf))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for MaybeTlsStream<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, io => Pin::new(io).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, io => Pin::new(io).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            MaybeTlsStream::Plain(io) => write_coalesced(Pin::new(io), cx, bufs),
            MaybeTlsStream::Tls(io) => Pin::new(io).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(io) => io.is_write_vectored(),
            Self::Tls(io) => io.is_write_vectored(),
        }
    }
}

impl AsConnection for MaybeTlsStream<Connection> {
    fn connection(&mut self) -> &mut Connection {
        match self {
            Self::Plain(connection) => connection,
            Self::Tls(stream) => stream.get_mut().0,
        }
    }
}
