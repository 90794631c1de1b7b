//! Connected TCP and Unix sockets behind one type.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{self, IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Peer address of all Unix socket clients. They are local and have no address, so they count as one
/// client.
pub(crate) const UNIX_PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A connected socket registered with the runtime.
#[derive(Debug)]
pub(crate) enum AsyncSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Calls the given expression on the inner stream.
macro_rules! delegate {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            AsyncSocket::Tcp($stream) => $call,
            AsyncSocket::Unix($stream) => $call,
        }
    };
}

impl AsyncSocket {
    /// Sets TCP_NODELAY: a response must not wait for acknowledgements. An error means that the connection is
    /// gone, which the first read reports.
    pub(crate) fn set_nodelay(&self) {
        if let Self::Tcp(stream) = self {
            drop(stream.set_nodelay(true));
        }
    }

    /// CPU that receives data for this socket, if the system reports it.
    pub(crate) fn incoming_cpu(&self) -> Option<usize> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tcp(stream) => SockRef::from(stream).cpu_affinity().ok(),
            _ => None,
        }
    }

    /// Borrows the socket for non-blocking calls, independent of the runtime.
    pub(crate) fn sock_ref(&self) -> SockRef<'_> {
        delegate!(self, stream => SockRef::from(stream))
    }
}

/// A connected socket that is registered with no runtime.
#[derive(Debug)]
pub(crate) enum RawSocket {
    Tcp(net::TcpStream),
    Unix(unix::net::UnixStream),
}

impl AsyncSocket {
    /// Detaches the socket from its runtime.
    pub(crate) fn into_raw(self) -> io::Result<RawSocket> {
        Ok(match self {
            Self::Tcp(stream) => RawSocket::Tcp(stream.into_std()?),
            Self::Unix(stream) => RawSocket::Unix(stream.into_std()?),
        })
    }

    /// Registers the socket with the current runtime.
    pub(crate) fn from_raw(socket: RawSocket) -> io::Result<Self> {
        Ok(match socket {
            RawSocket::Tcp(stream) => Self::Tcp(TcpStream::from_std(stream)?),
            RawSocket::Unix(stream) => Self::Unix(UnixStream::from_std(stream)?),
        })
    }
}

impl RawSocket {
    /// Peer address.
    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr(),
            Self::Unix(_) => Ok(UNIX_PEER),
        }
    }

    /// True if the peer has closed the connection and nothing remains to be read.
    pub(crate) fn is_closed_by_peer(&self) -> bool {
        match SockRef::from(self).peek(&mut [MaybeUninit::uninit()]) {
            Ok(read) => read == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }
}

impl AsFd for RawSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsyncRead for AsyncSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for AsyncSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        delegate!(self, stream => stream.is_write_vectored())
    }
}
