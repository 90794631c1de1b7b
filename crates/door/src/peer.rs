//! Who is at the other end.

use std::net::SocketAddr;

/// The address at the other end of a connection, among the extensions of each request that the door serves.
///
/// ```
/// use sluicegate_door::Peer;
///
/// fn who<B>(request: &http::Request<B>) -> Option<std::net::IpAddr> {
///     request.extensions().get::<Peer>().map(|peer| peer.0.ip())
/// }
/// # let mut request = http::Request::new(());
/// # request.extensions_mut().insert(Peer(([203, 0, 113, 9], 4000).into()));
/// # assert_eq!(who(&request), Some([203, 0, 113, 9].into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(pub SocketAddr);
