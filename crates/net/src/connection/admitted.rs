//! Admitted connection: a socket with its connection permit.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::Activity;
use super::coalesce::write_coalesced;
use super::parked::ParkedSocket;
use super::socket::AsyncSocket;
use crate::limits::ConnectionPermit;

/// A connection that holds a permit until it is dropped.
pub struct Connection {
    // Dropped first: the next holder of the permit must find the file descriptor released.
    stream: AsyncSocket,
    peer: SocketAddr,
    activity: Option<Arc<Activity>>,
    // Dropped last, which releases the permit.
    permit: ConnectionPermit,
}

impl Connection {
    pub(crate) fn new(stream: AsyncSocket, peer: SocketAddr, permit: ConnectionPermit) -> Self {
        stream.set_nodelay();
        Self { stream, peer, activity: None, permit }
    }

    /// Detaches the connection from its runtime; it keeps its permit.
    pub fn park(self) -> io::Result<ParkedSocket> {
        ParkedSocket::new(self.stream, self.permit)
    }

    /// Resumes a parked connection in the current runtime. The peer address is read from the socket, so it is not
    /// stored while parked.
    pub fn resume(parked: ParkedSocket) -> io::Result<Self> {
        let (socket, permit) = parked.into_parts();
        let peer = socket.peer_addr()?;
        Ok(Self { stream: AsyncSocket::from_raw(socket)?, peer, activity: None, permit })
    }

    /// Peer address; on a Unix socket, the loopback address.
    pub const fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// CPU that received the last data of this socket (`SO_INCOMING_CPU`): the CPU of the peer if it is local,
    /// or the one that handles the network queue. `None` if the system does not report it.
    pub fn incoming_cpu(&self) -> Option<usize> {
        self.stream.incoming_cpu()
    }

    /// Resets the connection on drop instead of closing it. Unsent data is discarded.
    pub fn reset_on_drop(&self) {
        // Fails only for a socket that is already gone.
        drop(self.stream.sock_ref().set_linger(Some(Duration::ZERO)));
    }

    /// Records reads and writes in `activity`.
    pub(crate) fn with_activity(mut self, activity: &Arc<Activity>) -> Self {
        self.set_activity(activity);
        self
    }

    /// Records reads and writes in `activity` from now on.
    pub(crate) fn set_activity(&mut self, activity: &Arc<Activity>) {
        self.activity = Some(Arc::clone(activity));
    }

    fn record_write(&self, written: &Poll<io::Result<usize>>) {
        match (&self.activity, written) {
            (Some(activity), Poll::Ready(Ok(1..))) => activity.record_write(),
            (Some(activity), Poll::Pending) => activity.record_write_blocked(),
            _ => {}
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Some(activity) = &self.activity
            && buf.filled().len() > before
        {
            activity.record_read();
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.record_write(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = write_coalesced(Pin::new(&mut self.stream), cx, bufs);
        self.record_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("peer", &self.peer).finish_non_exhaustive()
    }
}
