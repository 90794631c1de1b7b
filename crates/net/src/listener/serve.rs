//! Accept loop with graceful shutdown.

use std::error::Error;
use std::fmt;
use std::future::{IntoFuture, Pending, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower_layer::Layer;
use tower_service::Service;

use super::limited_listener::LimitedListener;
use super::peer::Peer;
use crate::connection::{AcceptedIo, Connection};

type BoxError = Box<dyn Error + Send + Sync>;

/// A listener that is about to serve. Await it.
///
/// Without [`with_graceful_shutdown`](Serve::with_graceful_shutdown) it serves forever; dropping it closes all
/// connections.
///
/// ```
/// use std::time::Duration;
/// use axum::{Router, routing::get};
/// use sluicegate_net::LimitedListener;
/// use tokio::sync::oneshot;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listener = LimitedListener::builder().max_connections(100).queue(10).bind("127.0.0.1:0").await?;
/// let app = Router::new().route("/", get(|| async { "hello" }));
/// let (stop, stopped) = oneshot::channel::<()>();
/// let server = tokio::spawn(
///     listener
///         .serve(app)
///         .with_graceful_shutdown(async { drop(stopped.await) })
///         .grace(Duration::from_secs(5))
///         .into_future(),
/// );
/// drop(stop);
/// let report = server.await?;
/// assert_eq!(report.aborted, 0);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is served until this is awaited"]
pub struct Serve<S, F = Pending<()>> {
    listener: LimitedListener,
    service: S,
    signal: F,
    grace: Duration,
}

/// Report of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Connections that were open when the shutdown began and ended by themselves.
    pub finished: usize,
    /// Connections that were aborted when the grace period expired.
    pub aborted: usize,
    /// Connections that were rejected because they were not admitted yet.
    pub rejected: u64,
}

impl LimitedListener {
    /// Serves HTTP/1 and HTTP/2. See [`Serve`].
    pub fn serve<S>(self, service: S) -> Serve<S> {
        Serve { listener: self, service, signal: pending(), grace: Duration::from_secs(30) }
    }
}

impl<S, F> Serve<S, F> {
    /// Shuts down when `signal` resolves: no new connections are accepted, queued ones are rejected, requests
    /// in flight are finished, and then connections are closed.
    pub fn with_graceful_shutdown<G>(self, signal: G) -> Serve<S, G>
    where
        G: Future<Output = ()>,
    {
        Serve { listener: self.listener, service: self.service, signal, grace: self.grace }
    }

    /// Maximum time for requests in flight on shutdown before they are aborted. Default: 30 seconds.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

impl<S, F, B> Serve<S, F>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    F: Future<Output = ()>,
{
    async fn run(self) -> ShutdownReport {
        let Self { mut listener, service, signal, grace } = self;
        let server = Arc::new(listener.connection_server());
        let service = listener.in_flight_limit().layer(service);
        let (closing, _) = watch::channel(());
        // Dropping the set aborts all connections.
        let mut connections = JoinSet::new();
        let mut signal = pin!(signal);
        loop {
            tokio::select! {
                biased;
                () = &mut signal => break,
                // Before the next accept, so that finished tasks never pile up.
                Some(_) = connections.join_next() => {}
                connection = listener.accept() => {
                    let service = service.clone();
                    let make_service = move |accepted: &AcceptedIo<Connection>| {
                        TowerToHyperService::new(WithPeer { inner: service, peer: Peer(accepted.client) })
                    };
                    connections.spawn(Arc::clone(&server).serve(connection, accept_plain, make_service, closing.subscribe()));
                }
            }
        }
        while connections.try_join_next().is_some() {}
        drain(listener, connections, closing, grace).await
    }
}

/// Drains all connections, and aborts those left when the grace period expires.
async fn drain(
    mut listener: LimitedListener,
    mut connections: JoinSet<()>,
    closing: watch::Sender<()>,
    grace: Duration,
) -> ShutdownReport {
    let before = listener.handle().counts().rejected.closing;
    // In one poll, regardless of their number.
    let reject_pending = poll_fn(|context| {
        listener.reject_pending(context);
        Poll::Ready(())
    });
    tokio::task::unconstrained(reject_pending).await;
    let limiter = Arc::clone(listener.limiter());
    let mut report =
        ShutdownReport { rejected: listener.handle().counts().rejected.closing - before, ..ShutdownReport::default() };

    let mut rejector = listener.into_rejector();
    let grace_elapsed = limiter.clock.sleep(grace);
    closing.send_replace(());
    let all_closed = async {
        while connections.join_next().await.is_some() {
            report.finished += 1;
        }
        rejector.wait_all_closed().await;
    };
    tokio::select! {
        biased;
        () = all_closed => {}
        () = grace_elapsed => {}
    }
    report.aborted = connections.len();
    connections.shutdown().await;
    report
}

/// Accepts a connection without a handshake.
async fn accept_plain(connection: Connection) -> Option<AcceptedIo<Connection>> {
    let client = connection.peer_addr();
    Some(AcceptedIo { io: connection, client, is_http2: None })
}

/// Adds the peer address to each request.
#[derive(Clone)]
struct WithPeer<S> {
    inner: S,
    peer: Peer,
}

impl<S> Service<Request<Incoming>> for WithPeer<S>
where
    S: Service<Request<Incoming>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> S::Future {
        request.extensions_mut().insert(self.peer);
        #[cfg(feature = "axum")]
        request.extensions_mut().insert(::axum::extract::ConnectInfo(self.peer.0));
        self.inner.call(request)
    }
}

/// Future of a listener that serves.
#[must_use = "futures do nothing unless polled"]
pub struct ServeFuture(Pin<Box<dyn Future<Output = ShutdownReport> + Send>>);

impl<S, F, B> IntoFuture for Serve<S, F>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    F: Future<Output = ()> + Send + 'static,
{
    type Output = ShutdownReport;
    type IntoFuture = ServeFuture;

    fn into_future(self) -> ServeFuture {
        ServeFuture(Box::pin(self.run()))
    }
}

impl Future for ServeFuture {
    type Output = ShutdownReport;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ShutdownReport> {
        self.0.as_mut().poll(context)
    }
}

impl<S, F> fmt::Debug for Serve<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve").field("listener", &self.listener).field("grace", &self.grace).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServeFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").finish_non_exhaustive()
    }
}
