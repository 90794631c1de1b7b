//! The admin listener, from its settings to its shutdown.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use parking_lot::Mutex;
use sluicegate_config::settings;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_net::{
    AcceptedIo, Acceptor, AcceptorError, CertificateError, Connection, ConnectionLimits, ConnectionServer,
    ConnectionTasks, DrainReport, IdleStrategy, LimitedListener, ListenError, ListenerError, OperatorLog, Process,
    RejectMode, Shutdown, Socket, TlsFiles, WorkerThreads, assign_sockets, reload_certificates, serve_until,
    watch_certificates,
};
use thiserror::Error;
use tokio::sync::watch;

use crate::http::{Api, Body};
use crate::metrics::otlp::{OtlpError, OtlpExporter};
use crate::providers::Providers;
use crate::tokens::{Tokens, TokensError};

/// Maximum number of connections. Operators are few; a browser uses six.
const MAX_CONNECTIONS: usize = 256;

/// Maximum number of queued connections.
const MAX_QUEUED_CONNECTIONS: usize = 64;

/// Maximum time a client may pause reading.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time idle connections stay open on shutdown, for calls on their way.
const DRAIN_GRACE: Duration = Duration::from_millis(200);

/// Maximum time for calls in flight on shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of housekeeping: expiry and token file checks.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);

/// Number of housekeeping rounds between checks of the token file.
const TOKEN_CHECK_ROUNDS: u32 = 5;

/// Error opening the admin listener.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The token file is invalid.
    #[error("admin.token_file: {0}")]
    Tokens(#[from] TokensError),
    /// The OTLP collector is invalid.
    #[error(transparent)]
    Otlp(#[from] OtlpError),
    /// The connection limits are invalid.
    #[error(transparent)]
    Limits(#[from] ListenerError),
    /// The address cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The TLS acceptor cannot be created.
    #[error(transparent)]
    Acceptor(#[from] AcceptorError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// An admin listener that is open and does not serve yet.
pub struct Admin {
    service: Arc<AdminService>,
    limits: ConnectionLimits,
    sockets: Vec<Socket>,
}

/// Shared state of all admin calls.
struct AdminService {
    api: Api,
    acceptor: Arc<Acceptor>,
    /// Path of the token file.
    token_file: Option<PathBuf>,
    exporter: Option<OtlpExporter>,
    clock: ClockHandle,
}

impl Admin {
    /// Opens a listener with these settings: binds the socket and reports all configuration errors. File names
    /// are relative to `base`.
    pub fn open(
        settings: &settings::Admin,
        providers: Providers,
        base: &Path,
        process: &mut Process,
    ) -> Result<Self, OpenError> {
        let clock = providers.sluice.clock().clone();
        let limits = LimitedListener::builder()
            .max_connections(MAX_CONNECTIONS)
            .queue(MAX_QUEUED_CONNECTIONS)
            .reject_mode(RejectMode::Close)
            .write_timeout(WRITE_TIMEOUT)
            .drain_grace(DRAIN_GRACE)
            .allow_upgrades(false)
            .clock(clock.clone())
            .build_limits()?;
        let token_file = settings.token_file.as_ref().map(|file| base.join(file));
        let tokens = token_file.as_deref().map(Tokens::read).transpose()?;
        let exporter = settings.otlp.as_ref().map(OtlpExporter::new).transpose()?;
        let tls = settings.tls.as_ref();
        let tls = tls.map(|it| TlsFiles::new(base, &it.certificate, &it.key, it.client_ca.as_deref()));
        let acceptor = Arc::new(Acceptor::new(settings.listen, tls.as_ref())?);
        let sockets = process.listen(&[settings.listen], NonZeroUsize::MIN)?.into_iter().flatten().collect();
        let service = AdminService { api: Api::new(providers, tokens), acceptor, token_file, exporter, clock };
        Ok(Self { service: Arc::new(service), limits, sockets })
    }

    /// Serves on its own thread. `notify` receives messages for the operator, one line at a time.
    pub fn start(self, notify: impl Fn(&str) + Send + Sync + 'static) -> Result<AdminHandle, OpenError> {
        self.start_with_notifier(Arc::new(notify))
    }

    fn start_with_notifier(self, notify: OperatorLog) -> Result<AdminHandle, OpenError> {
        let Self { service, limits, sockets } = self;
        let address = sockets.first().and_then(Socket::address);
        if let Some(warning) = service.token_file.as_deref().and_then(Tokens::permission_warning) {
            notify(&warning);
        }
        let (handle_service, handle_notify) = (Arc::clone(&service), Arc::clone(&notify));
        let first_thread_notify = Arc::new(Mutex::new(Some(notify)));
        let work = move |_, listeners: Vec<(LimitedListener, ())>, stopped| {
            let (service, notify) = (Arc::clone(&service), first_thread_notify.lock().take());
            async move {
                if let Some(notify) = notify {
                    service.spawn_background_tasks(&notify);
                }
                let tasks = ConnectionTasks::default();
                let (connection_tasks, clock) = (tasks.clone(), service.clock.clone());
                let accept = move |connection, &(): &(), server: &_, closed: &_| {
                    service.serve(connection, server, closed, &connection_tasks);
                };
                serve_until(listeners, &tasks, stopped, (SHUTDOWN_TIMEOUT, &clock), accept).await
            }
        };
        let shares = assign_sockets(vec![(sockets, ())], NonZeroUsize::MIN);
        let threads =
            WorkerThreads::start("admin", shares, &limits, IdleStrategy::Block, work).map_err(OpenError::Thread)?;
        Ok(AdminHandle { service: handle_service, notify: handle_notify, address, threads })
    }
}

impl AdminService {
    /// Starts the background tasks: certificate renewal, event stream, housekeeping and metrics push.
    fn spawn_background_tasks(self: &Arc<Self>, notify: &OperatorLog) {
        watch_certificates(&[Arc::clone(&self.acceptor)], &self.clock, notify);
        let service = Arc::clone(self);
        tokio::spawn(async move { service.api.run_event_stream().await });
        let (service, log) = (Arc::clone(self), Arc::clone(notify));
        tokio::spawn(async move { service.run_housekeeping(&log).await });
        let (service, log) = (Arc::clone(self), Arc::clone(notify));
        tokio::spawn(async move {
            if let Some(exporter) = &service.exporter {
                exporter.run(service.api.providers(), &*log).await;
            }
        });
    }

    async fn run_housekeeping(&self, notify: &OperatorLog) {
        let mut watched = self.token_file.as_deref().map(WatchedFile::new);
        for round in 1u32.. {
            self.clock.sleep(HOUSEKEEPING_INTERVAL).await;
            self.api.expire();
            if let Some(watched) = &mut watched
                && round.is_multiple_of(TOKEN_CHECK_ROUNDS)
                && watched.has_changed()
            {
                self.reload_tokens(notify);
            }
        }
    }

    /// Reads the token file again. If it is invalid, the error is reported and the old tokens stay in force.
    fn reload_tokens(&self, notify: &OperatorLog) {
        let Some(file) = &self.token_file else { return };
        match Tokens::read(file) {
            Ok(tokens) => {
                self.api.set_tokens(tokens);
                notify("token file reloaded");
            }
            Err(error) => notify(&format!("token file not reloaded; the previous tokens stay valid: {error}")),
        }
    }

    fn serve(
        self: &Arc<Self>,
        connection: Connection,
        server: &Arc<ConnectionServer>,
        closed: &watch::Receiver<()>,
        tasks: &ConnectionTasks,
    ) {
        let (service, acceptor) = (Arc::clone(self), Arc::clone(&self.acceptor));
        let handshake = |connection: Connection| async move {
            let peer = connection.peer_addr();
            // A failed handshake has no client to respond to.
            let accepted = acceptor.accept(connection, peer).await.ok()?;
            Some(AcceptedIo { io: accepted.stream, client: accepted.client, is_http2: accepted.http2 })
        };
        let make_service = move |accepted: &AcceptedIo<_>| ConnectionService { service, peer: accepted.client };
        tasks.spawn(Arc::clone(server).serve(connection, handshake, make_service, closed.clone()));
    }
}

/// Contents of a watched file as of the last check.
struct WatchedFile<'f> {
    file: &'f Path,
    contents: Option<Vec<u8>>,
}

impl<'f> WatchedFile<'f> {
    fn new(file: &'f Path) -> Self {
        Self { file, contents: std::fs::read(file).ok() }
    }

    /// True if the contents have changed since the last check.
    fn has_changed(&mut self) -> bool {
        let now = std::fs::read(self.file).ok();
        std::mem::replace(&mut self.contents, now) != self.contents
    }
}

/// Service of one connection.
struct ConnectionService {
    service: Arc<AdminService>,
    peer: SocketAddr,
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (service, peer) = (Arc::clone(&self.service), self.peer);
        Box::pin(async move { Ok(service.api.handle(request, peer).await) })
    }
}

/// Handle of a serving admin listener.
pub struct AdminHandle {
    service: Arc<AdminService>,
    notify: OperatorLog,
    address: Option<SocketAddr>,
    threads: WorkerThreads,
}

impl AdminHandle {
    /// Local address.
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Reads certificate and tokens again. Invalid ones are reported, and the old ones stay in force.
    pub async fn reload_certificates(&self) -> Vec<CertificateError> {
        self.service.reload_tokens(&self.notify);
        reload_certificates(&[Arc::clone(&self.service.acceptor)]).await
    }

    /// Shuts down: no new connections are accepted, calls in flight are finished, and event streams end.
    pub fn stop(self, shutdown: Shutdown) -> DrainReport {
        self.service.api.drain();
        self.threads.join(shutdown)
    }
}
