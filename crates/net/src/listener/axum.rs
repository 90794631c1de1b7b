//! `LimitedListener` as a listener for `axum::serve`.
//!
//! Connections are limited, queued and rejected. Everything inside a connection is handled by axum: timeouts
//! apply only to [`LimitedListener::serve`].

use std::io;
use std::net::SocketAddr;

use ::axum::extract::connect_info::Connected;
use ::axum::serve::{IncomingStream, Listener};

use super::limited_listener::LimitedListener;
use super::peer::Peer;
use crate::connection::Connection;

impl Listener for LimitedListener {
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

/// Enables `into_make_service_with_connect_info::<Peer>()`.
impl Connected<IncomingStream<'_, LimitedListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, LimitedListener>) -> Self {
        Self(*stream.remote_addr())
    }
}
