//! The door as a listener of `axum::serve`.
//!
//! Connections are bounded, queued and refused as the door says. What happens inside them is axum's
//! business: deadlines count only where the door [serves](FrontDoor::serve) by itself.

use std::io;
use std::net::SocketAddr;

use ::axum::extract::connect_info::Connected;
use ::axum::serve::{IncomingStream, Listener};

use crate::connection::Connection;
use crate::listener::FrontDoor;
use crate::peer::Peer;

impl Listener for FrontDoor {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let connection = Self::accept(self).await;
        let peer = connection.peer_addr();
        (connection, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }
}

/// For `into_make_service_with_connect_info::<Peer>()`.
impl Connected<IncomingStream<'_, FrontDoor>> for Peer {
    fn connect_info(stream: IncomingStream<'_, FrontDoor>) -> Self {
        Self(*stream.remote_addr())
    }
}
