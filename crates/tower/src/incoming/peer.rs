//! Peer address of a request.

use std::net::SocketAddr;

use http::Extensions;

/// The peer's address from the request extensions of the known servers. Any other server inserts
/// the [`SocketAddr`] itself.
pub(super) fn find(extensions: &Extensions) -> Option<SocketAddr> {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(address)) = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>() {
        return Some(*address);
    }
    #[cfg(all(feature = "axum", feature = "listener"))]
    if let Some(axum::extract::ConnectInfo(peer)) = extensions.get::<axum::extract::ConnectInfo<sluicegate_net::Peer>>()
    {
        return Some(peer.0);
    }
    #[cfg(feature = "listener")]
    if let Some(peer) = extensions.get::<sluicegate_net::Peer>() {
        return Some(peer.0);
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
        return info.remote_addr();
    }
    extensions.get::<SocketAddr>().copied()
}
