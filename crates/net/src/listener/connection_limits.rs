//! Connection limits shared by several listeners.

use std::fmt;
use std::sync::Arc;

use super::reject::RejectMode;
use crate::connection::HttpLimits;
use crate::limits::{ConnectionLimiter, InFlightLimit, ListenerHandle};

/// Limits shared by all listeners of a server. Built by
/// [`ListenerBuilder::build_limits`](crate::ListenerBuilder::build_limits), for servers with one runtime
/// per thread: a listener belongs to the runtime it was created in.
#[derive(Clone)]
pub struct ConnectionLimits {
    pub(crate) limiter: Arc<ConnectionLimiter>,
    pub(crate) reject_mode: RejectMode,
    pub(crate) http: HttpLimits,
}

impl ConnectionLimits {
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
