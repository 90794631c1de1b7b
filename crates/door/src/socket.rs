//! What a door stands at: the network, or a Unix socket.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{self, IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Who comes over a Unix socket is of this machine, and has no address: all of them are one client.
const NEIGHBOUR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What connections are taken from.
#[derive(Debug)]
pub(crate) enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listening {
    pub(crate) fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Socket, SocketAddr)>> {
        match self {
            Self::Tcp(listener) => listener.poll_accept(context).map_ok(|(stream, peer)| (Socket::Tcp(stream), peer)),
            Self::Unix(listener) => {
                listener.poll_accept(context).map_ok(|(stream, _)| (Socket::Unix(stream), NEIGHBOUR))
            }
        }
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Unix(_) => Ok(NEIGHBOUR),
        }
    }
}

/// A connection as the system has it.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Hands a call to whichever it is.
macro_rules! whichever {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
        }
    };
}

impl Socket {
    /// An answer must not wait for the client's acknowledgement of what was sent before it. A connection that
    /// cannot be told so is as good as gone, which the first read will find.
    pub(crate) fn send_at_once(&self) {
        if let Self::Tcp(stream) = self {
            drop(stream.set_nodelay(true));
        }
    }

    /// On which core what comes is received, if the system tells.
    pub(crate) fn core(&self) -> Option<usize> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Tcp(stream) => SockRef::from(stream).cpu_affinity().ok(),
            _ => None,
        }
    }

    /// The socket for calls that wait for nothing, whatever the runtime knows of it.
    pub(crate) fn as_it_is(&self) -> SockRef<'_> {
        whichever!(self, stream => SockRef::from(stream))
    }
}

/// A connection that no runtime knows of.
#[derive(Debug)]
pub(crate) enum BareSocket {
    Tcp(net::TcpStream),
    Unix(unix::net::UnixStream),
}

impl Socket {
    /// Takes it from its runtime.
    pub(crate) fn bare(self) -> io::Result<BareSocket> {
        Ok(match self {
            Self::Tcp(stream) => BareSocket::Tcp(stream.into_std()?),
            Self::Unix(stream) => BareSocket::Unix(stream.into_std()?),
        })
    }

    /// Gives it to the runtime that this is called in.
    pub(crate) fn of_bare(socket: BareSocket) -> io::Result<Self> {
        Ok(match socket {
            BareSocket::Tcp(stream) => Self::Tcp(TcpStream::from_std(stream)?),
            BareSocket::Unix(stream) => Self::Unix(UnixStream::from_std(stream)?),
        })
    }
}

impl BareSocket {
    /// The address at the other end.
    pub(crate) fn peer(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr(),
            Self::Unix(_) => Ok(NEIGHBOUR),
        }
    }

    /// Whether the other end has closed it, and nothing is left to be read.
    pub(crate) fn has_ended(&self) -> bool {
        match SockRef::from(self).peek(&mut [MaybeUninit::uninit()]) {
            Ok(read) => read == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }
}

impl AsFd for BareSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        whichever!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        whichever!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        whichever!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        whichever!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        whichever!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        whichever!(self, stream => stream.is_write_vectored())
    }
}
