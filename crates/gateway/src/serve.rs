//! Accept path of a worker thread.

use std::sync::Arc;

use sluicegate_net::{
    Acceptor, Connection, ConnectionServer, DrainReport, LazyTimer, LimitedListener, MaybeTlsStream, Shutdown,
    TimeoutKind, serve_until,
};
use tokio::sync::watch;

use crate::client_context::ClientContext;
use crate::downstream::{Http1Connection, watch_parked};
use crate::worker::Worker;

/// Serves all listeners of a worker until shutdown, then drains requests in flight until the drain timeout.
pub(crate) async fn serve(
    worker: Arc<Worker>,
    listeners: Vec<(LimitedListener, Arc<Acceptor>)>,
    stop: watch::Receiver<Shutdown>,
) -> DrainReport {
    let sweep_task = tokio::spawn(Arc::clone(&worker).sweep());
    let (tasks, clock, drain_timeout) = (&worker.tasks, &worker.gateway.clock, worker.gateway.timeouts.drain);
    let accepting = Arc::clone(&worker);
    let accept =
        move |connection, acceptor: &Arc<Acceptor>, server: &Arc<ConnectionServer>, shutdown: &watch::Receiver<()>| {
            spawn_connection(&accepting, connection, acceptor, server, shutdown.clone());
        };
    worker.tasks.spawn_background(watch_parked(Arc::clone(&worker), stop.clone()));
    let report = serve_until(listeners, tasks, stop, (drain_timeout, clock), accept).await;
    sweep_task.abort();
    report
}

/// Spawns the task of an accepted connection.
fn spawn_connection(
    worker: &Arc<Worker>,
    connection: Connection,
    acceptor: &Arc<Acceptor>,
    server: &Arc<ConnectionServer>,
    shutdown: watch::Receiver<()>,
) {
    let (acceptor, server) = (Arc::clone(acceptor), Arc::clone(server));
    let clock = worker.gateway.clock.clone();
    let since = clock.now();
    let peer = connection.peer_addr();
    if acceptor.is_plain() {
        let connection = Http1Connection::new(
            MaybeTlsStream::Plain(connection),
            ClientContext::new(Arc::clone(worker), peer, false),
            server,
            shutdown,
            since,
        );
        worker.tasks.spawn(connection.serve(None));
        return;
    }
    let client_worker = Arc::clone(worker);
    worker.tasks.spawn(async move {
        // Boxed: a handshake is large and short-lived.
        let deadline = since + server.timeouts().head;
        let mut timer = LazyTimer::new(clock);
        match Box::pin(timer.within(deadline, acceptor.accept(connection, peer))).await {
            None => server.record_timeout(TimeoutKind::Header),
            // A failed handshake or an invalid PROXY header closes the connection; no response is possible.
            Some(Err(_)) => {}
            Some(Ok(accepted)) => {
                let client = ClientContext::new(client_worker, accepted.client, acceptor.is_encrypted());
                Http1Connection::new(accepted.stream, client, server, shutdown, since).serve(accepted.http2).await;
            }
        }
    });
}
