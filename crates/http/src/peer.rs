//! Who is on the other end of a connection.

use std::net::SocketAddr;

/// The address of the connection's other end, put among a request's extensions by the server that
/// accepted it: the client itself, or the proxy before us.
///
/// Servers with a place of their own for it (axum's `ConnectInfo`, tonic's `TcpConnectInfo`) need not
/// put it there too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);
