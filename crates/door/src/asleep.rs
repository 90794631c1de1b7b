//! A connection that nothing is expected of for a while.
//!
//! The runtime keeps some hundred bytes for every socket it watches, and a task for whoever waits. A server with
//! many idle clients can put their connections to sleep, watch the bare sockets itself, and wake those that have
//! something to say.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::connection::Connection;
use crate::gate::Place;
use crate::socket::{BareSocket, Socket};

/// A connection that keeps its place at the door, and that no runtime knows of.
pub struct Asleep {
    // Closed first: whoever gets the place next must find the file given back.
    socket: BareSocket,
    place: Place,
}

impl Asleep {
    pub(crate) fn new(socket: Socket, place: Place) -> io::Result<Self> {
        Ok(Self { socket: socket.bare()?, place })
    }

    /// Whether its client has left without a word: then it need not be woken.
    pub fn has_left(&self) -> bool {
        self.socket.has_ended()
    }

    /// The connection as it was, in the runtime that this is called in. Who is at the other end the system knows: it need
    /// not be remembered meanwhile.
    pub fn wake(self) -> io::Result<Connection> {
        let peer = self.socket.peer()?;
        Ok(Connection::woken(Socket::of_bare(self.socket)?, peer, self.place))
    }
}

impl AsFd for Asleep {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for Asleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asleep").field("socket", &self.socket).finish_non_exhaustive()
    }
}
