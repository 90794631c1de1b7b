//! Worker thread: its listeners, connections and upstream pools.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_net::{
    Acceptor, Connection, ConnectionServer, ConnectionTasks, DrainReport, LimitedListener, MaybeTlsStream, Shutdown,
    TimeoutKind, serve_until,
};
use tokio::sync::watch;

use crate::affinity::WorkerHandle;
use crate::client_context::ClientContext;
use crate::context::GatewayContext;
use crate::counters::RequestCounters;
use crate::downstream::{Http1Connection, IdlePool};
use crate::head::ClientOrigin;
use crate::log::LogWriter;
use crate::log::request_id::RequestIdGenerator;
use crate::pool::UpstreamPool;
use crate::timer::LazyTimer;

/// Interval of the sweep of idle upstream connections.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The same for upstreams with a connection limit, where requests may wait for a permit.
const BOUNDED_SWEEP_INTERVAL: Duration = Duration::from_millis(20);

/// State of one worker thread.
pub(crate) struct Worker {
    pub(crate) gateway: Arc<GatewayContext>,
    /// Upstream pools, by upstream index.
    pub(crate) pools: Vec<Arc<UpstreamPool>>,
    /// Access-log writer, if a log is configured.
    pub(crate) log: Option<WorkerLog>,
    /// Request counters.
    pub(crate) counters: Arc<RequestCounters>,
    /// Tasks of its connections.
    pub(crate) tasks: ConnectionTasks,
    /// Index of the worker.
    pub(crate) index: usize,
}

/// Access log of one worker.
pub(crate) struct WorkerLog {
    pub(crate) writer: LogWriter,
    pub(crate) ids: RequestIdGenerator,
}

impl Worker {
    pub(crate) fn new(gateway: Arc<GatewayContext>, index: usize) -> Arc<Self> {
        let pools =
            gateway.upstreams.all().iter().map(|it| UpstreamPool::new(Arc::clone(it), gateway.clock.clone())).collect();
        let log =
            gateway.access_log.as_ref().map(|log| WorkerLog { writer: log.writer(), ids: RequestIdGenerator::new() });
        let counters = gateway.counters.register();
        Arc::new(Self { gateway, pools, log, counters, tasks: ConnectionTasks::default(), index })
    }

    /// The part of this worker that other workers can see.
    pub(crate) fn handle(&self) -> &WorkerHandle {
        self.gateway.worker_registry.get(self.index)
    }

    /// Its parked connections; `None` if epoll is not available.
    pub(crate) fn idle_pool(&self) -> Option<&IdlePool> {
        self.handle().idle_pool.as_ref()
    }

    /// Serves all listeners until shutdown, then drains requests in flight until the drain timeout.
    pub(crate) async fn run(
        self: Arc<Self>,
        listeners: Vec<(LimitedListener, Arc<Acceptor>)>,
        stop: watch::Receiver<Shutdown>,
    ) -> DrainReport {
        let sweep_task = tokio::spawn(Arc::clone(&self).sweep());
        let (tasks, clock, drain_timeout) = (&self.tasks, &self.gateway.clock, self.gateway.timeouts.drain);
        let worker = Arc::clone(&self);
        let accept = move |connection,
                           acceptor: &Arc<Acceptor>,
                           server: &Arc<ConnectionServer>,
                           shutdown: &watch::Receiver<()>| {
            worker.accept(connection, acceptor, server, shutdown.clone());
        };
        self.tasks.spawn_background(IdlePool::run(Arc::clone(&self), stop.clone()));
        let report = serve_until(listeners, tasks, stop, (drain_timeout, clock), accept).await;
        sweep_task.abort();
        report
    }

    fn accept(
        self: &Arc<Self>,
        connection: Connection,
        acceptor: &Arc<Acceptor>,
        server: &Arc<ConnectionServer>,
        shutdown: watch::Receiver<()>,
    ) {
        let (worker, acceptor, server) = (Arc::clone(self), Arc::clone(acceptor), Arc::clone(server));
        let clock = self.gateway.clock.clone();
        let since = clock.now();
        let peer = connection.peer_addr();
        if acceptor.is_plain() {
            let connection = Http1Connection::new(
                MaybeTlsStream::Plain(connection),
                worker.client_context(peer, false),
                server,
                shutdown,
                since,
            );
            self.tasks.spawn(connection.serve(None));
            return;
        }
        self.tasks.spawn(async move {
            // Boxed: a handshake is large and short-lived.
            let deadline = since + server.timeouts().head;
            let mut timer = LazyTimer::new(clock);
            match Box::pin(timer.within(deadline, acceptor.accept(connection, peer))).await {
                None => server.record_timeout(TimeoutKind::Header),
                // A failed handshake or an invalid PROXY header closes the connection; no response is possible.
                Some(Err(_)) => {}
                Some(Ok(accepted)) => {
                    let client = worker.client_context(accepted.client, acceptor.is_encrypted());
                    Http1Connection::new(accepted.stream, client, server, shutdown, since).serve(accepted.http2).await;
                }
            }
        });
    }

    /// Creates the context of a client connection.
    pub(crate) fn client_context(self: &Arc<Self>, address: SocketAddr, tls: bool) -> Arc<ClientContext> {
        ClientContext::new(Arc::clone(self), ClientOrigin::new(address, &self.gateway.forwarding, tls))
    }

    /// Closes unneeded idle upstream connections.
    async fn sweep(self: Arc<Self>) {
        let is_bounded = self.pools.iter().any(|pool| pool.upstream().settings().max_connections.is_some());
        let every = if is_bounded { BOUNDED_SWEEP_INTERVAL } else { SWEEP_INTERVAL };
        loop {
            self.gateway.clock.sleep(every).await;
            self.pools.iter().for_each(|pool| pool.sweep());
        }
    }
}
