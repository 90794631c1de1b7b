//! Where a request's peer is found.

use std::net::SocketAddr;

use http::Extensions;
use sluicegate_http::Peer;

/// The peer's address, wherever the server has put it.
pub(super) fn find(extensions: &Extensions) -> Option<SocketAddr> {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(address)) = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>() {
        return Some(*address);
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
        return info.remote_addr();
    }
    if let Some(Peer(address)) = extensions.get::<Peer>() {
        return Some(*address);
    }
    extensions.get::<SocketAddr>().copied()
}
