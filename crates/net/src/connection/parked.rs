//! Parked connections: sockets detached from the runtime while they are idle.
//!
//! The runtime keeps some hundred bytes for every registered socket, and a task for each waiter. A server with
//! many idle clients can park their connections, watch the raw sockets itself, and resume those that become
//! readable.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::socket::{AsyncSocket, RawSocket};
use crate::limits::ConnectionPermit;

/// An idle connection that keeps its connection permit and is registered with no runtime.
pub struct ParkedSocket {
    // Dropped first: the next holder of the permit must find the file descriptor released.
    socket: RawSocket,
    permit: ConnectionPermit,
}

impl ParkedSocket {
    pub(crate) fn new(socket: AsyncSocket, permit: ConnectionPermit) -> io::Result<Self> {
        Ok(Self { socket: socket.into_raw()?, permit })
    }

    /// True if the client has closed the connection; then it need not be resumed.
    pub fn is_closed_by_peer(&self) -> bool {
        self.socket.is_closed_by_peer()
    }

    pub(super) fn into_parts(self) -> (RawSocket, ConnectionPermit) {
        (self.socket, self.permit)
    }
}

impl AsFd for ParkedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for ParkedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParkedSocket").field("socket", &self.socket).finish_non_exhaustive()
    }
}
