//! Where a request's peer is found.

use std::net::SocketAddr;

use http::Extensions;

/// The peer's address, wherever the server has put it among the request's extensions. A server of none of
/// these kinds puts the [`SocketAddr`] itself there.
pub(super) fn find(extensions: &Extensions) -> Option<SocketAddr> {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(address)) = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>() {
        return Some(*address);
    }
    #[cfg(all(feature = "axum", feature = "door"))]
    if let Some(axum::extract::ConnectInfo(peer)) =
        extensions.get::<axum::extract::ConnectInfo<sluicegate_door::Peer>>()
    {
        return Some(peer.0);
    }
    #[cfg(feature = "door")]
    if let Some(peer) = extensions.get::<sluicegate_door::Peer>() {
        return Some(peer.0);
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
        return info.remote_addr();
    }
    extensions.get::<SocketAddr>().copied()
}
