//! Resumes the parked connections of a worker.

use std::sync::Arc;

use sluicegate_net::Shutdown;
use tokio::sync::watch;

use super::connection::Http1Connection;
use crate::worker::Worker;

/// Watches the parked connections of a worker until shutdown, and resumes them as tasks. A broken one is closed.
pub(crate) async fn watch_parked(worker: Arc<Worker>, stop: watch::Receiver<Shutdown>) {
    let Some(pool) = worker.idle_pool() else { return };
    let resume = |parked| {
        if let Ok(connection) = Http1Connection::resume(parked, &worker) {
            worker.tasks.spawn(connection.serve_resumed());
        }
    };
    pool.run(&worker.gateway.clock, stop, resume).await;
}
