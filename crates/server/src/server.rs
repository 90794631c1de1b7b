//! The decision server, from startup to shutdown.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_config::settings::{self, Settings};
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_net::{
    Acceptor, CertificateError, ConnectionLimits, ConnectionTasks, DrainReport, IdleStrategy, LimitedListener,
    ListenerError, ListenerHandle, OperatorLog, Process, RejectMode, Shutdown, Socket, TlsFiles, WorkerThreads,
    assign_sockets, default_threads, reload_certificates, serve_until, watch_certificates,
};
use tokio::runtime::Builder;
use tokio::sync::mpsc;

use crate::active_domains::ActiveDomains;
use crate::error::ServerError;
use crate::protocol::{ProtocolHandlers, ServerProtocol};
use crate::rls::LimitCounts;

/// Time idle connections are kept during shutdown, for requests in flight.
const KEEP_ALIVE_GRACE: Duration = Duration::from_secs(1);

/// The acceptor and protocol of a socket.
#[derive(Clone)]
struct SocketHandler {
    acceptor: Arc<Acceptor>,
    protocol: ServerProtocol,
}

/// A decision server that listens but does not serve yet.
pub struct Server {
    handlers: Arc<ProtocolHandlers>,
    connection_limits: ConnectionLimits,
    listeners: Vec<(Vec<Socket>, SocketHandler)>,
    threads: NonZeroUsize,
    drain_timeout: Duration,
    shutdown_delay: Duration,
    busy_poll: Option<Duration>,
}

impl Server {
    /// Opens a server: binds its sockets and reports all configuration errors. Relative file names are resolved
    /// against `base`.
    pub fn open(
        settings: &Settings,
        server: &settings::Server,
        sluice: Sluice,
        domains: ActiveDomains,
        base: &Path,
        process: &mut Process,
    ) -> Result<Self, ServerError> {
        if ServerProtocol::services(server).next().is_none() {
            return Err(ServerError::NoService);
        }
        let connection_limits = connection_limits(server, sluice.clock())?;
        let threads =
            server.threads.and_then(|threads| NonZeroUsize::new(threads as usize)).unwrap_or_else(default_threads);
        let handlers = run_on_thread(ProtocolHandlers::new(settings, server, sluice, domains, base))
            .map_err(ServerError::Thread)??;
        let handlers = Arc::new(handlers);
        let mut listeners = Vec::new();
        for (service, protocol) in ServerProtocol::services(server) {
            if let Some(address) = service.address {
                let tls = service.tls.as_ref();
                let tls = tls.map(|it| TlsFiles::new(base, &it.certificate, &it.key, it.client_ca.as_deref()));
                let acceptor = Arc::new(Acceptor::new(address, tls.as_ref())?);
                let sockets = process.listen(&[address], threads)?.into_iter().flatten().collect();
                listeners.push((sockets, SocketHandler { acceptor, protocol }));
            }
            if let Some(path) = &service.unix {
                let acceptor = Arc::new(Acceptor::plain());
                listeners.push((process.listen_unix(&base.join(path), threads)?, SocketHandler { acceptor, protocol }));
            }
        }
        Ok(Self {
            handlers,
            connection_limits,
            listeners,
            threads,
            drain_timeout: server.timeouts.drain,
            shutdown_delay: server.shutdown_delay,
            busy_poll: server.busy_poll,
        })
    }

    /// A monitor of this server.
    pub fn monitor(&self) -> ServerMonitor {
        ServerMonitor { handlers: Arc::clone(&self.handlers), listener: self.connection_limits.handle() }
    }

    /// Serves on its own threads. `log` receives messages for the operator, one line each.
    pub fn start(self, log: impl Fn(&str) + Send + Sync + 'static) -> Result<RunningServer, ServerError> {
        self.start_with_log(Arc::new(log))
    }

    fn start_with_log(self, log: OperatorLog) -> Result<RunningServer, ServerError> {
        let Self { handlers, connection_limits, listeners, threads, drain_timeout, shutdown_delay, busy_poll } = self;
        let addresses =
            listeners.iter().map(|(sockets, _)| sockets.first().and_then(Socket::address)).collect::<Vec<_>>();
        let acceptors: Vec<_> = listeners.iter().map(|(_, handler)| Arc::clone(&handler.acceptor)).collect();
        // Each thread holds a token while it serves.
        let (serving_token, all_stopped) = mpsc::channel::<Infallible>(1);
        let serving_tokens = Arc::new(Mutex::new(vec![serving_token; threads.get()]));
        let background = Arc::new(Mutex::new(Some((acceptors.clone(), log, all_stopped))));
        let (monitor_handlers, listener_handle) = (Arc::clone(&handlers), connection_limits.handle());
        let work = move |_, listeners: Vec<(LimitedListener, SocketHandler)>, stopped| {
            let handlers = Arc::clone(&handlers);
            let (background, serving_token) = (background.lock().take(), serving_tokens.lock().pop());
            async move {
                // The first thread also runs the background tasks.
                let all_stopped = background.map(|(acceptors, log, all_stopped)| {
                    spawn_background_tasks(&handlers, &acceptors, &log);
                    all_stopped
                });
                let (mut tasks, clock) = (ConnectionTasks::default(), handlers.clock().clone());
                if let Some(poll_time) = busy_poll {
                    tasks = tasks.with_busy_poll(poll_time);
                }
                let connection_tasks = tasks.clone();
                let accept = move |connection, handler: &SocketHandler, host: &_, closed: &_| {
                    let SocketHandler { acceptor, protocol } = handler;
                    handlers.serve(*protocol, connection, acceptor, host, closed, &connection_tasks);
                };
                let report = serve_until(listeners, &tasks, stopped, (drain_timeout, &clock), accept).await;
                drop(serving_token);
                if let Some(mut all_stopped) = all_stopped {
                    // Background tasks run until all threads have stopped: the channel closes with the last token.
                    while all_stopped.recv().await.is_some() {}
                }
                report
            }
        };
        let shares = assign_sockets(listeners, threads);
        let threads = WorkerThreads::start("server", shares, &connection_limits, IdleStrategy::YieldFirst, work)
            .map_err(ServerError::Thread)?;
        Ok(RunningServer {
            monitor: ServerMonitor { handlers: monitor_handlers, listener: listener_handle },
            addresses,
            acceptors,
            threads,
            shutdown_delay,
        })
    }
}

/// Spawns the background tasks: certificate reload and expiry of reservations.
fn spawn_background_tasks(handlers: &Arc<ProtocolHandlers>, acceptors: &[Arc<Acceptor>], log: &OperatorLog) {
    let background = Arc::clone(handlers);
    tokio::spawn(async move { background.run_background().await });
    watch_certificates(acceptors, handlers.clock(), log);
}

/// Statistics of a decision server. Clones refer to the same server.
#[derive(Clone)]
pub struct ServerMonitor {
    handlers: Arc<ProtocolHandlers>,
    listener: ListenerHandle,
}

impl ServerMonitor {
    /// Connection statistics and limits of the listener.
    pub const fn listener(&self) -> &ListenerHandle {
        &self.listener
    }

    /// Number of calls so far by protocol: `rls`, `http` and `resp`.
    pub fn calls(&self) -> [(&'static str, u64); 3] {
        self.handlers.calls()
    }

    /// Counts of limits of zero in the envoyproxy/ratelimit configuration. No rule counts them.
    pub fn zero_limits(&self) -> Vec<LimitCounts> {
        self.handlers.rls().zero_limits()
    }

    /// Counts per value, for limits with `detailed_metric` or `value_to_metric`.
    pub fn detailed_limits(&self) -> Vec<LimitCounts> {
        self.handlers.rls().detailed_limits()
    }
}

/// A running decision server.
pub struct RunningServer {
    monitor: ServerMonitor,
    addresses: Vec<Option<SocketAddr>>,
    acceptors: Vec<Arc<Acceptor>>,
    threads: WorkerThreads,
    shutdown_delay: Duration,
}

impl RunningServer {
    /// The listening addresses in the order of the settings: RLS, HTTP, RESP, each with its TCP address and then its
    /// Unix socket, which is `None`.
    pub fn addresses(&self) -> &[Option<SocketAddr>] {
        &self.addresses
    }

    /// The monitor of this server.
    pub const fn monitor(&self) -> &ServerMonitor {
        &self.monitor
    }

    /// Reloads all certificates. Returns errors; the affected certificates stay unchanged.
    pub async fn reload_certificates(&self) -> Vec<CertificateError> {
        reload_certificates(&self.acceptors).await
    }

    /// True if `server.shutdown_delay` is set.
    pub const fn has_shutdown_delay(&self) -> bool {
        !self.shutdown_delay.is_zero()
    }

    /// Reports draining and continues to serve for `server.shutdown_delay`: load balancers need time to redirect
    /// clients. Dropping the future ends the delay.
    pub async fn drain(&self) {
        if self.has_shutdown_delay() {
            let handlers = &self.monitor.handlers;
            handlers.drain().await;
            handlers.clock().sleep(self.shutdown_delay).await;
        }
    }

    /// Stops the server: accepts no new connections and completes requests in flight.
    pub fn stop(self, shutdown: Shutdown) -> DrainReport {
        let handlers = self.monitor.handlers;
        // If draining cannot be reported, the server stops anyway.
        drop(run_on_thread(async { handlers.drain().await }));
        handlers.close_watchers();
        self.threads.join(shutdown)
    }
}

/// Runs a future on a thread of its own, so that it works inside and outside a runtime: a runtime cannot block on
/// another.
fn run_on_thread<T: Send>(work: impl Future<Output = T> + Send) -> io::Result<T> {
    let runtime = Builder::new_current_thread().build()?;
    let panicked = |_| io::Error::other("the thread panicked");
    thread::scope(|scope| {
        let worker = thread::Builder::new().spawn_scoped(scope, move || runtime.block_on(work))?;
        worker.join().map_err(panicked)
    })
}

fn connection_limits(server: &settings::Server, clock: &ClockHandle) -> Result<ConnectionLimits, ListenerError> {
    let settings::Connections { max, queue, per_client } = server.connections;
    let timeouts = server.timeouts;
    let mut builder = LimitedListener::builder()
        .max_connections(max as usize)
        .queue(queue as usize)
        .reject_mode(RejectMode::Close)
        .header_timeout(timeouts.header)
        .keep_alive(timeouts.idle)
        .write_timeout(timeouts.write)
        .drain_grace(KEEP_ALIVE_GRACE)
        .allow_upgrades(false)
        .clock(clock.clone());
    if let Some(per_client) = per_client {
        builder = builder.per_client(per_client as usize);
    }
    builder.build_limits()
}
