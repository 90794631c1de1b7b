//! Serving everybody who has a place, until told to stop.

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

use crate::connection::Connection;
use crate::drive::Entered;
use crate::listener::FrontDoor;
use crate::peer::Peer;

type BoxError = Box<dyn Error + Send + Sync>;

/// A door that is about to serve. Await it.
///
/// Without [`with_graceful_shutdown`](Serve::with_graceful_shutdown) it serves for ever; dropping it closes
/// everything.
///
/// ```
/// use std::time::Duration;
/// use axum::{Router, routing::get};
/// use sluicegate_door::FrontDoor;
/// use tokio::sync::oneshot;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let door = FrontDoor::builder().max_connections(100).queue(10).bind("127.0.0.1:0").await?;
/// let app = Router::new().route("/", get(|| async { "hello" }));
/// let (stop, stopped) = oneshot::channel::<()>();
/// let server = tokio::spawn(
///     door.serve(app)
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
    door: FrontDoor,
    service: S,
    signal: F,
    grace: Duration,
}

/// How a door was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Report {
    /// Connections that were open when the door began to close, and ended by themselves.
    pub finished: usize,
    /// Connections that were cut off when the time was up.
    pub aborted: usize,
    /// Connections without a place, told to come again.
    pub turned_away: u64,
}

impl<S> Serve<S> {
    pub(crate) fn new(door: FrontDoor, service: S) -> Self {
        Self { door, service, signal: pending(), grace: Duration::from_secs(30) }
    }
}

impl<S, F> Serve<S, F> {
    /// Stops when `signal` resolves: nobody is let in any more, those who wait are told to come again,
    /// requests under way are answered, and then connections are closed.
    pub fn with_graceful_shutdown<G>(self, signal: G) -> Serve<S, G>
    where
        G: Future<Output = ()>,
    {
        Serve { door: self.door, service: self.service, signal, grace: self.grace }
    }

    /// How long requests under way may take when the door closes, before they are cut off; 30 seconds
    /// unless told otherwise.
    pub fn grace(mut self, longest: Duration) -> Self {
        self.grace = longest;
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
    async fn run(self) -> Report {
        let Self { mut door, service, signal, grace } = self;
        let host = Arc::new(door.host());
        let service = door.workers().layer(service);
        let (closing, _) = watch::channel(());
        // Dropped, it takes all connections with it.
        let mut connections = JoinSet::new();
        let mut signal = pin!(signal);
        loop {
            tokio::select! {
                biased;
                () = &mut signal => break,
                // Before the next is let in, so that those who left are never many.
                Some(_) = connections.join_next() => {}
                connection = door.accept() => {
                    let service = service.clone();
                    let of_connection = move |entered: &Entered<Connection>| {
                        TowerToHyperService::new(ToldPeer { inner: service, peer: Peer(entered.client) })
                    };
                    connections.spawn(Arc::clone(&host).host(connection, as_it_is, of_connection, closing.subscribe()));
                }
            }
        }
        while connections.try_join_next().is_some() {}
        close(door, connections, closing, grace).await
    }
}

/// Lets everybody go, and sees to it that they do.
async fn close(
    mut door: FrontDoor,
    mut connections: JoinSet<()>,
    closing: watch::Sender<()>,
    grace: Duration,
) -> Report {
    let before = door.handle().counts().refused.closing;
    // All of them at once, however many there are.
    let turn_away = poll_fn(|context| {
        door.turn_everybody_away(context);
        Poll::Ready(())
    });
    tokio::task::unconstrained(turn_away).await;
    let gate = Arc::clone(door.gate());
    let mut report = Report { turned_away: door.handle().counts().refused.closing - before, ..Report::default() };

    let mut porter = door.into_porter();
    let time_is_up = gate.clock.sleep(grace);
    closing.send_replace(());
    let everybody_gone = async {
        while connections.join_next().await.is_some() {
            report.finished += 1;
        }
        porter.all_gone().await;
    };
    tokio::select! {
        biased;
        () = everybody_gone => {}
        () = time_is_up => {}
    }
    report.aborted = connections.len();
    connections.shutdown().await;
    report
}

/// Nothing comes before the first request.
async fn as_it_is(connection: Connection) -> Option<Entered<Connection>> {
    let client = connection.peer_addr();
    Some(Entered { io: connection, client, is_http2: None })
}

/// Says of each request who sent it.
#[derive(Clone)]
struct ToldPeer<S> {
    inner: S,
    peer: Peer,
}

impl<S> Service<Request<Incoming>> for ToldPeer<S>
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

/// A door that serves.
#[must_use = "futures do nothing unless polled"]
pub struct Serving(Pin<Box<dyn Future<Output = Report> + Send>>);

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
    type Output = Report;
    type IntoFuture = Serving;

    fn into_future(self) -> Serving {
        Serving(Box::pin(self.run()))
    }
}

impl Future for Serving {
    type Output = Report;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Report> {
        self.0.as_mut().poll(context)
    }
}

impl<S, F> fmt::Debug for Serve<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve").field("door", &self.door).field("grace", &self.grace).finish_non_exhaustive()
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").finish_non_exhaustive()
    }
}
