//! Peer address as a request extension.

use std::net::SocketAddr;

/// Peer address of a connection. Inserted into the extensions of each served request.
///
/// ```
/// use sluicegate_net::Peer;
///
/// fn client_ip<B>(request: &http::Request<B>) -> Option<std::net::IpAddr> {
///     request.extensions().get::<Peer>().map(|peer| peer.0.ip())
/// }
/// # let mut request = http::Request::new(());
/// # request.extensions_mut().insert(Peer(([203, 0, 113, 9], 4000).into()));
/// # assert_eq!(client_ip(&request), Some([203, 0, 113, 9].into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(pub SocketAddr);
