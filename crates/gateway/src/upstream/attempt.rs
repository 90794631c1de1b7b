//! A request under way to one server, and the servers it went to before.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::rest::Trial;
use super::server::Server;

/// The servers a request was already sent to.
#[derive(Debug, Default)]
pub(crate) struct Tried(SmallVec<[usize; 4]>);

impl Tried {
    /// Notes a server of the upstream.
    pub(crate) fn add(&mut self, server: &Server) {
        self.0.push(server.position());
    }

    /// Whether the server at this position was tried.
    pub(super) fn has(&self, position: usize) -> bool {
        self.0.contains(&position)
    }
}

/// A request under way to one server: counted as in flight until dropped.
pub(crate) struct Attempt {
    server: Arc<Server>,
    /// If it tries a server that rested.
    trial: Option<Trial>,
}

impl Attempt {
    pub(super) fn new(server: &Arc<Server>, trial: Option<Trial>) -> Self {
        server.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { server: Arc::clone(server), trial }
    }

    /// The server it is sent to.
    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// An answer's head came: the server is there, whatever went wrong before.
    #[inline]
    pub(crate) fn answered(&self) {
        self.server.rests.answered();
    }

    /// Not connected, reset, or timed out: counts against the server. To be called once. A kept connection that
    /// the server had closed before the request reached it is no failure.
    pub(crate) fn failed(&self) {
        self.server.failures.fetch_add(1, Ordering::Relaxed);
        self.server.rests.failed(self.trial);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(trial) = self.trial {
            self.server.rests.give_back(trial);
        }
        self.server.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
