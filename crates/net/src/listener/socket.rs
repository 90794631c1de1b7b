//! Listening TCP and Unix sockets behind one type.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use tokio::net::{TcpListener, UnixListener};

use crate::connection::{AsyncSocket, UNIX_PEER};

/// A listening socket.
#[derive(Debug)]
pub(crate) enum ListenerSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl ListenerSocket {
    pub(crate) fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(AsyncSocket, SocketAddr)>> {
        match self {
            Self::Tcp(listener) => {
                listener.poll_accept(context).map_ok(|(stream, peer)| (AsyncSocket::Tcp(stream), peer))
            }
            Self::Unix(listener) => {
                listener.poll_accept(context).map_ok(|(stream, _)| (AsyncSocket::Unix(stream), UNIX_PEER))
            }
        }
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Unix(_) => Ok(UNIX_PEER),
        }
    }
}
