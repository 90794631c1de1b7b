//! Lifecycle of a gateway: open, start, statistics, shutdown.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_config::settings::{self, Settings};
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http_adapter::Renderer;
use sluicegate_http_adapter::identity::TrustedProxies;
use sluicegate_net::{
    Acceptor, AcceptorError, CertificateError, ConnectionLimits, DrainReport, IdleStrategy, LimitedListener,
    ListenError, ListenerError, ListenerHandle, OperatorLog, Process, Shutdown, Socket, TlsFiles, WorkerThreads,
    assign_sockets, default_threads, reload_certificates, watch_certificates,
};
use thiserror::Error;

use crate::affinity::WorkerRegistry;
use crate::context::GatewayContext;
use crate::counters::CounterRegistry;
use crate::identity::{self, IdentityError};
use crate::log::{AccessLog, LogError};
use crate::route::{RouteError, Router};
use crate::route_targets::{self, UnknownUpstream};
use crate::serve::serve;
use crate::upstream::{UpstreamError, UpstreamStatus, Upstreams};
use crate::worker::Worker;

/// Time that idle connections stay open during shutdown, for requests that are on their way.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Error that prevents a gateway from running.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Invalid routes.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// An invalid upstream.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// A route to an upstream that does not exist.
    #[error(transparent)]
    UnknownUpstream(#[from] UnknownUpstream),
    /// Invalid client identification settings.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Invalid connection limits.
    #[error(transparent)]
    Limits(#[from] ListenerError),
    /// An address that cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// An invalid TLS setting.
    #[error(transparent)]
    Acceptor(#[from] AcceptorError),
    /// PROXY protocol is enabled, but no proxy is trusted.
    #[error("{address}: proxy_protocol is on, but trusted_proxies is empty; list the proxies in trusted_proxies")]
    NoTrustedProxies {
        /// Listener address.
        address: SocketAddr,
    },
    /// An access log that cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A thread that cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A gateway with bound sockets that does not serve yet.
pub struct Gateway {
    context: Arc<GatewayContext>,
    connection_limits: ConnectionLimits,
    /// The sockets and the acceptor of each configured listener.
    listeners: Vec<(Vec<Socket>, Arc<Acceptor>)>,
    threads: NonZeroUsize,
}

impl Gateway {
    /// Opens a gateway: binds its sockets and reports all configuration errors. Relative file names start at
    /// `base`.
    pub fn open(
        settings: &Settings,
        gateway: &settings::Gateway,
        sluice: Sluice,
        base: &Path,
        process: &mut Process,
    ) -> Result<Self, GatewayError> {
        let clock: ClockHandle = sluice.clock().clone();
        let limits = connection_limits(gateway, &clock)?;
        let upstreams = Upstreams::new(&gateway.upstreams, base, &clock)?;
        let forwarding = identity::forwarding(gateway);
        let acceptors = gateway.listen.iter().map(|it| open_acceptor(it, forwarding.trusted(), base).map(Arc::new));
        let acceptors = acceptors.collect::<Result<Vec<_>, _>>()?;
        let threads =
            gateway.threads.and_then(|threads| NonZeroUsize::new(threads as usize)).unwrap_or_else(default_threads);
        let context = Arc::new(GatewayContext {
            router: Router::new(&gateway.routes)?,
            route_targets: route_targets::build(gateway, &upstreams)?,
            renderer: Renderer::new(settings.headers),
            sources: identity::attributes(gateway, base, &clock)?,
            in_flight_limit: limits.in_flight_limit(),
            access_log: gateway.access_log.as_ref().map(AccessLog::open).transpose()?,
            timeouts: gateway.timeouts,
            worker_registry: WorkerRegistry::new(threads.get()),
            counters: CounterRegistry::default(),
            max_head_bytes: gateway.max_header_size as usize,
            forwarding,
            clock,
            sluice,
            upstreams,
        });
        let addresses: Vec<SocketAddr> = gateway.listen.iter().map(|listener| listener.address).collect();
        let sockets = process.listen(&addresses, threads)?;
        Ok(Self {
            context,
            connection_limits: limits,
            listeners: sockets.into_iter().zip(acceptors).collect(),
            threads,
        })
    }

    /// Statistics handle.
    pub fn monitor(&self) -> GatewayMonitor {
        GatewayMonitor { context: Arc::clone(&self.context), listener: self.connection_limits.handle() }
    }

    /// Starts serving on worker threads. `notify` receives messages for the operator, one line at a time.
    pub fn start(self, notify: impl Fn(&str) + Send + Sync + 'static) -> Result<GatewayHandle, GatewayError> {
        self.start_with(Arc::new(notify))
    }

    fn start_with(self, notify: OperatorLog) -> Result<GatewayHandle, GatewayError> {
        let addresses = self.listeners.iter().filter_map(|(sockets, _)| sockets.first()?.address()).collect();
        let acceptors: Vec<_> = self.listeners.iter().map(|(_, acceptor)| Arc::clone(acceptor)).collect();
        let maintained = Arc::new(Mutex::new(Some((acceptors.clone(), notify))));
        let context = Arc::clone(&self.context);
        let work = move |index, listeners, stopped| {
            let context = Arc::clone(&context);
            // The first worker thread runs the tasks that belong to no client.
            if let Some((acceptors, notify)) = maintained.lock().take() {
                spawn_maintenance(&context, &acceptors, &notify);
            }
            serve(Worker::new(context, index), listeners, stopped)
        };
        let threads = WorkerThreads::start(
            "gateway",
            assign_sockets(self.listeners, self.threads),
            &self.connection_limits,
            IdleStrategy::Block,
            work,
        );
        let threads = threads.map_err(GatewayError::Thread)?;
        let stats = GatewayMonitor { context: self.context, listener: self.connection_limits.handle() };
        Ok(GatewayHandle { stats, addresses, acceptors, threads })
    }
}

/// Spawns health checks and certificate reload.
fn spawn_maintenance(context: &Arc<GatewayContext>, acceptors: &[Arc<Acceptor>], notify: &OperatorLog) {
    let health_context = Arc::clone(context);
    tokio::spawn(async move { health_context.upstreams.run_health_checks().await });
    watch_certificates(acceptors, &context.clock, notify);
}

/// Statistics of a gateway. Clones refer to the same gateway.
#[derive(Clone)]
pub struct GatewayMonitor {
    context: Arc<GatewayContext>,
    listener: ListenerHandle,
}

impl GatewayMonitor {
    /// Statistics of the listeners.
    pub const fn listener(&self) -> &ListenerHandle {
        &self.listener
    }

    /// Status of the upstreams.
    pub fn upstreams(&self) -> Vec<UpstreamStatus> {
        self.context.upstreams.status()
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.context.counters.totals().0
    }

    /// Responses so far by status class: 1xx first, 5xx last.
    pub fn responses_by_class(&self) -> [u64; 5] {
        self.context.counters.totals().1
    }

    /// Connections migrated to another worker thread so far.
    pub fn migrated_connections(&self) -> u64 {
        self.context.worker_registry.migrated()
    }

    /// Access-log lines dropped because the disk was too slow, and failed writes; `None` without a log.
    pub fn log_stats(&self) -> Option<(u64, u64)> {
        self.context.access_log.as_ref().map(|log| (log.dropped_lines(), log.write_errors()))
    }
}

/// Handle of a running gateway.
pub struct GatewayHandle {
    stats: GatewayMonitor,
    addresses: Vec<SocketAddr>,
    acceptors: Vec<Arc<Acceptor>>,
    threads: WorkerThreads,
}

impl GatewayHandle {
    /// Bound addresses, in the order of the settings.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Statistics.
    pub const fn stats(&self) -> &GatewayMonitor {
        &self.stats
    }

    /// The active rules.
    pub fn sluice(&self) -> &Sluice {
        &self.stats.context.sluice
    }

    /// Reopens the access log, after log rotation.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.stats.context.access_log {
            log.reopen();
        }
    }

    /// Reloads all certificates. Invalid ones are returned as errors, and the previous certificates stay active.
    pub async fn reload_certificates(&self) -> Vec<CertificateError> {
        reload_certificates(&self.acceptors).await
    }

    /// Stops the gateway: no new connections are accepted, requests in flight are completed, and the access log is
    /// flushed.
    pub fn stop(self, shutdown: Shutdown) -> DrainReport {
        let report = self.threads.join(shutdown);
        if let Some(log) = &self.stats.context.access_log {
            log.close();
        }
        report
    }
}

/// Creates the acceptor of a listener and reads its certificate, if any. File names are relative to `base`.
fn open_acceptor(
    listener: &settings::Listener,
    trusted: &TrustedProxies,
    base: &Path,
) -> Result<Acceptor, GatewayError> {
    let address = listener.address;
    if listener.proxy_protocol && trusted.is_empty() {
        return Err(GatewayError::NoTrustedProxies { address });
    }
    let tls = listener.tls.as_ref();
    let tls = tls.map(|it| TlsFiles::new(base, &it.certificate, &it.key, it.client_ca.as_deref()));
    let acceptor = Acceptor::new(address, tls.as_ref())?;
    if !listener.proxy_protocol {
        return Ok(acceptor);
    }
    let trusted = trusted.clone();
    Ok(acceptor.with_proxy_protocol(move |peer| trusted.contains(peer)))
}

fn connection_limits(gateway: &settings::Gateway, clock: &ClockHandle) -> Result<ConnectionLimits, ListenerError> {
    let settings::Connections { max, queue, per_client } = gateway.connections;
    let timeouts = gateway.timeouts;
    let mut listener = LimitedListener::builder()
        .max_connections(max as usize)
        .queue(queue as usize)
        .header_timeout(timeouts.header)
        .keep_alive(timeouts.idle)
        .write_timeout(timeouts.write)
        .drain_grace(DRAIN_GRACE)
        .header_bytes(gateway.max_header_size as usize)
        .allow_upgrades(false)
        .clock(clock.clone());
    if let Some(per_client) = per_client {
        listener = listener.per_client(per_client as usize);
    }
    if let Some(in_flight) = gateway.max_in_flight {
        listener = listener.in_flight(in_flight as usize);
    }
    listener.build_limits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_protocol_without_trusted_proxies_is_refused() {
        let address = ([127, 0, 0, 1], 0).into();
        let listener = settings::Listener { address, tls: None, proxy_protocol: true };
        let open = |trusted: &TrustedProxies| open_acceptor(&listener, trusted, Path::new("")).map(drop);
        let error = open(&TrustedProxies::none()).unwrap_err().to_string();
        assert!(error.contains("list the proxies in trusted_proxies"), "{error}");
        assert!(open(&TrustedProxies::loopback()).is_ok());
    }
}
