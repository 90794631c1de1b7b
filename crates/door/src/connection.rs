//! A connection that has a place.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::activity::Activity;
use crate::asleep::Asleep;
use crate::gate::Place;
use crate::gather::write_gathered;
use crate::socket::Socket;

/// A connection that has a place at the door, and keeps it until it is dropped.
pub struct Connection {
    // Closed first: whoever gets the place next must find the file given back.
    stream: Socket,
    peer: SocketAddr,
    activity: Option<Arc<Activity>>,
    // Given back last, by being dropped.
    place: Place,
}

impl Connection {
    pub(crate) fn new(stream: Socket, peer: SocketAddr, place: Place) -> Self {
        stream.send_at_once();
        Self::woken(stream, peer, place)
    }

    pub(crate) const fn woken(stream: Socket, peer: SocketAddr, place: Place) -> Self {
        Self { stream, peer, activity: None, place }
    }

    /// Takes the connection from its runtime; it keeps its place.
    pub fn sleep(self) -> io::Result<Asleep> {
        Asleep::new(self.stream, self.place)
    }

    /// The address at the other end; over a Unix socket, that of this machine.
    pub const fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// On which core the last of what the other end sent came in: the other end's own, if it is of this machine, or that
    /// which hears the network for it. `None` where the system does not tell.
    pub fn core(&self) -> Option<usize> {
        self.stream.core()
    }

    /// Has the other end told, when it is dropped, that it was broken off, and not that it has ended. What was not sent
    /// by then is not sent.
    pub fn reset_when_dropped(&self) {
        // A socket that cannot be told so is gone already.
        drop(self.stream.as_it_is().set_linger(Some(Duration::ZERO)));
    }

    /// Has what is read and written noted.
    pub(crate) fn noted_in(mut self, activity: &Arc<Activity>) -> Self {
        self.note_in(activity);
        self
    }

    /// The same, from now on.
    pub(crate) fn note_in(&mut self, activity: &Arc<Activity>) {
        self.activity = Some(Arc::clone(activity));
    }

    fn note_written(&self, written: &Poll<io::Result<usize>>) {
        match (&self.activity, written) {
            (Some(activity), Poll::Ready(Ok(1..))) => activity.written(),
            (Some(activity), Poll::Pending) => activity.blocked(),
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
            activity.read();
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note_written(&written);
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
        let written = write_gathered(Pin::new(&mut self.stream), cx, bufs);
        self.note_written(&written);
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
