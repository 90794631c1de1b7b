//! Connection limits shared by several listeners.

use std::fmt;
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener};

use crate::counts::ListenerHandle;
use crate::in_flight::InFlightLimit;
use crate::limiter::ConnectionLimiter;
use crate::listener::LimitedListener;
use crate::reject::RejectMode;
use crate::socket::ListenerSocket;

/// Limits shared by all listeners of a server. Built by
/// [`ListenerBuilder::build_limits`](crate::ListenerBuilder::build_limits), for servers with one runtime
/// per thread: a listener belongs to the runtime it was created in.
#[derive(Clone)]
pub struct ConnectionLimits {
    pub(crate) limiter: Arc<ConnectionLimiter>,
    pub(crate) reject_mode: RejectMode,
    pub(crate) header_bytes: usize,
    pub(crate) max_streams: u32,
    pub(crate) allow_upgrades: bool,
}

impl ConnectionLimits {
    /// Wraps a TCP listener. All limits and counters are shared.
    pub fn wrap_tcp(&self, listener: TcpListener) -> LimitedListener {
        LimitedListener::new(ListenerSocket::Tcp(listener), self.clone())
    }

    /// Wraps a Unix listener under the same limits. All its peers count as one client.
    pub fn wrap_unix(&self, listener: UnixListener) -> LimitedListener {
        LimitedListener::new(ListenerSocket::Unix(listener), self.clone())
    }

    /// Returns a handle for reading the counters.
    pub fn handle(&self) -> ListenerHandle {
        ListenerHandle::new(Arc::clone(&self.limiter))
    }

    /// Returns the in-flight request limit.
    pub fn in_flight_limit(&self) -> InFlightLimit {
        self.limiter.in_flight_limit.clone()
    }
}

impl fmt::Debug for ConnectionLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionLimits").finish_non_exhaustive()
    }
}
