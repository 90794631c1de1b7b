//! One connection's life, from its first byte to its last.

use std::error::Error;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use pin_project_lite::pin_project;
use tokio::sync::watch;
use tower_service::Service;

use crate::activity::{Activity, UnderWay};
use crate::connection::Connection;
use crate::counts::add_one;
use crate::held::Held;
use crate::peer::Peer;
use crate::sending::Sending;
use crate::watchman::{Late, Watchman};

pub(crate) type Http = auto::Builder<TokioExecutor>;

type BoxError = Box<dyn Error + Send + Sync>;

/// Serves a connection until it ends, its client is too slow, or, after `closing` has changed, its requests
/// are answered.
pub(crate) async fn drive<S, B>(connection: Connection, service: S, http: Arc<Http>, mut closing: watch::Receiver<()>)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let gate = Arc::clone(connection.gate());
    let activity = Activity::new(gate.clock.clone());
    let service = Noting { inner: service, peer: Peer(connection.peer_addr()), activity: Arc::clone(&activity) };
    let io = TokioIo::new(connection.noted_in(&activity));
    let mut served = pin!(http.serve_connection_with_upgrades(io, TowerToHyperService::new(service)));
    let mut closing = pin!(closing.changed());
    let mut watchman = Watchman::new(activity, gate.patience, gate.clock.clone());
    let mut told = false;

    poll_fn(|context| {
        if !told && closing.as_mut().poll(context).is_ready() {
            told = true;
            served.as_mut().graceful_shutdown();
        }
        loop {
            if served.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            match watchman.poll_late(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Late::Head) => {
                    add_one(&gate.counters.header_timeouts);
                    return Poll::Ready(());
                }
                Poll::Ready(Late::Idle) => {
                    add_one(&gate.counters.idle_closed);
                    served.as_mut().graceful_shutdown();
                }
                Poll::Ready(Late::Leaving) => return Poll::Ready(()),
            }
        }
    })
    .await;
}

/// Notes when requests begin and end, and says who sent them.
#[derive(Clone)]
struct Noting<S> {
    inner: S,
    peer: Peer,
    activity: Arc<Activity>,
}

impl<S, B> Service<Request<Incoming>> for Noting<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
{
    type Response = Response<Sending<Held<B, UnderWay>>>;
    type Error = S::Error;
    type Future = Noted<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        let http2 = request.version() == Version::HTTP_2;
        let under_way = self.activity.begin(http2);
        let connects = request.method() == Method::CONNECT;
        let activity = http2.then(|| Arc::clone(&self.activity));
        request.extensions_mut().insert(self.peer);
        #[cfg(feature = "axum")]
        request.extensions_mut().insert(::axum::extract::ConnectInfo(self.peer.0));
        Noted { answer: self.inner.call(request), under_way: Some(under_way), activity, connects }
    }
}

pin_project! {
    /// A request that is under way until its answer has ended.
    struct Noted<F> {
        #[pin]
        answer: F,
        under_way: Option<UnderWay>,
        // Of HTTP/2 only.
        activity: Option<Arc<Activity>>,
        connects: bool,
    }
}

impl<F, B, E> Future for Noted<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<Sending<Held<B, UnderWay>>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.answer.poll(context).map(|answer| {
            let (under_way, activity) = (this.under_way.take(), this.activity.take());
            answer.map(|answer| {
                if let Some(activity) = &activity
                    && *this.connects
                    && answer.status().is_success()
                {
                    activity.tunnelled();
                }
                answer.map(|body| Sending::new(Held::new(body, under_way), activity))
            })
        })
    }
}
