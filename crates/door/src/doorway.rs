//! The bounds of a door, before there is anything to listen at.

use std::fmt;
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener};

use crate::counts::DoorHandle;
use crate::gate::Gate;
use crate::listener::FrontDoor;
use crate::refusal::Refusal;
use crate::socket::Listening;
use crate::workers::Workers;

/// What all listeners of a door share. Made by [`Builder::doorway`](crate::Builder::doorway), for servers
/// with a runtime per thread: a listener belongs to the runtime it was made in.
#[derive(Clone)]
pub struct Doorway {
    pub(crate) gate: Arc<Gate>,
    pub(crate) refusal: Refusal,
    pub(crate) header_bytes: usize,
    pub(crate) max_streams: u32,
    pub(crate) tunnels: bool,
}

impl Doorway {
    /// A door at this listener. All bounds and counts are for all of them together.
    pub fn at(&self, listener: TcpListener) -> FrontDoor {
        FrontDoor::new(Listening::Tcp(listener), self.clone())
    }

    /// A door at this Unix socket, under the same bounds. All who come through it are one client.
    pub fn at_unix(&self, listener: UnixListener) -> FrontDoor {
        FrontDoor::new(Listening::Unix(listener), self.clone())
    }

    /// The counts, for whoever looks on.
    pub fn handle(&self) -> DoorHandle {
        DoorHandle::new(Arc::clone(&self.gate))
    }

    /// The bound on requests being worked on.
    pub fn workers(&self) -> Workers {
        self.gate.workers.clone()
    }
}

impl fmt::Debug for Doorway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorway").finish_non_exhaustive()
    }
}
