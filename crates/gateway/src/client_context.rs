//! Context of one client connection, shared by its requests.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use sluicegate_net::LazyTimer;

use crate::head::ClientOrigin;
use crate::worker::Worker;

/// A client connection as its requests see it.
pub(crate) struct ClientContext {
    pub(crate) worker: Arc<Worker>,
    pub(crate) origin: ClientOrigin,
    /// Timer of the last request, reused by the next one.
    timer: Mutex<Option<LazyTimer>>,
}

impl ClientContext {
    /// Creates the context of a client connection of this worker.
    pub(crate) fn new(worker: Arc<Worker>, address: SocketAddr, tls: bool) -> Arc<Self> {
        let origin = ClientOrigin::new(address, &worker.gateway.forwarding, tls);
        worker.handle().connection_activated();
        Arc::new(Self { worker, origin, timer: Mutex::new(None) })
    }

    /// Takes the stored timer, or creates one.
    pub(crate) fn take_timer(&self) -> LazyTimer {
        self.timer.lock().take().unwrap_or_else(|| LazyTimer::new(self.worker.gateway.clock.clone()))
    }

    /// Stores a timer for the next request.
    pub(crate) fn return_timer(&self, timer: LazyTimer) {
        *self.timer.lock() = Some(timer);
    }
}

impl Drop for ClientContext {
    fn drop(&mut self) {
        self.worker.handle().connection_deactivated();
    }
}
