//! Attempts of a request on servers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::outlier::ProbeId;
use super::server::Server;

/// Servers that a request was already sent to.
#[derive(Debug, Default)]
pub(crate) struct AttemptedServers(SmallVec<[usize; 4]>);

impl AttemptedServers {
    /// Adds a server.
    pub(crate) fn add(&mut self, server: &Server) {
        self.0.push(server.position());
    }

    /// True if the server at this position was tried.
    pub(super) fn contains(&self, position: usize) -> bool {
        self.0.contains(&position)
    }
}

/// A request on its way to one server: counts as in flight until dropped.
pub(crate) struct Attempt {
    server: Arc<Server>,
    /// Set if this request probes an ejected server.
    probe: Option<ProbeId>,
}

impl Attempt {
    pub(super) fn new(server: &Arc<Server>, probe: Option<ProbeId>) -> Self {
        server.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { server: Arc::clone(server), probe }
    }

    /// The server.
    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Records that a response head arrived: the server works, whatever failed before.
    #[inline]
    pub(crate) fn succeeded(&self) {
        self.server.outlier.record_success();
    }

    /// Records a failure: not connected, reset, or timed out. To be called once. An idle connection that the server
    /// closed before the request reached it is not a failure.
    pub(crate) fn failed(&self) {
        self.server.failures.fetch_add(1, Ordering::Relaxed);
        self.server.outlier.record_failure(self.probe);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(probe) = self.probe {
            self.server.outlier.release_probe(probe);
        }
        self.server.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
