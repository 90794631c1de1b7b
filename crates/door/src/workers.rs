//! How many requests are worked on at once.
//!
//! A request takes its turn before the service sees it, and holds it until the answer's body has ended or
//! was given up. Requests of all connections wait in one line, first in, first out; a client that goes away
//! leaves it. On HTTP/2 each stream is a request of its own.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::{HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::limiter::Acquiring;
use sluicegate_engine::{Limit, Limiter, Pass, Refused};
use tower_layer::Layer;
use tower_service::Service;

use crate::counts::add_one;
use crate::error::DoorError;
use crate::held::Held;

/// The bound on requests being worked on, as a layer. Clones share it, and a request that passes it twice
/// takes one turn.
///
/// ```
/// use axum::{Router, routing::get};
/// use sluicegate_door::FrontDoor;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let door = FrontDoor::builder().max_connections(100).queue(0).in_flight(8).bind("127.0.0.1:0").await?;
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(door.workers());
/// # drop(app);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Workers {
    shared: Option<Arc<Shared>>,
}

struct Shared {
    limiter: Limiter,
    most: u64,
    within: Option<Duration>,
    refused: AtomicU64,
}

/// Among the extensions of a request that has its turn.
#[derive(Clone)]
struct Turn(Arc<Shared>);

impl Workers {
    /// Without a bound, every request is worked on at once.
    pub(crate) fn new(
        in_flight: Option<usize>,
        waiting: usize,
        within: Option<Duration>,
        clock: ClockHandle,
    ) -> Result<Self, DoorError> {
        let Some(most) = in_flight else { return Ok(Self { shared: None }) };
        let zero = |_| DoorError::Zero { field: "in_flight", remedy: "to set no bound, leave it out" };
        let limiter = Limiter::builder()
            .limit(Limit::concurrency(most as u64).map_err(zero)?)
            .max_waiting(waiting)
            .max_waiting_total(waiting)
            .clock(clock)
            .build()
            .map_err(zero)?;
        let shared = Shared { limiter, most: most as u64, within, refused: AtomicU64::new(0) };
        Ok(Self { shared: Some(Arc::new(shared)) })
    }

    /// Waits for a turn to work on a request, for servers that do not use the layer. The turn lasts until it is
    /// dropped; where there is no bound, none is needed.
    pub async fn turn(&self) -> Result<Option<Pass>, Refused> {
        let Some(shared) = &self.shared else { return Ok(None) };
        let acquire = shared.limiter.acquire();
        let turn = match shared.within {
            Some(within) => acquire.within(within),
            None => acquire,
        };
        let turn = turn.await;
        if turn.is_err() {
            add_one(&shared.refused);
        }
        turn.map(Some)
    }

    pub(crate) fn in_flight(&self) -> usize {
        let used = |shared: &Arc<Shared>| {
            let remaining = shared.limiter.status().first().map_or(shared.most, |status| status.remaining);
            shared.most.saturating_sub(remaining) as usize
        };
        self.shared.as_ref().map_or(0, used)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| shared.limiter.waiting())
    }

    pub(crate) fn refused(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.refused.load(Ordering::Relaxed))
    }
}

impl<S> Layer<S> for Workers {
    type Service = WorkersService<S>;

    fn layer(&self, inner: S) -> WorkersService<S> {
        WorkersService { inner, workers: self.clone() }
    }
}

/// A service of which a bounded number of requests are worked on at once.
#[derive(Clone, Debug)]
pub struct WorkersService<S> {
    inner: S,
    workers: Workers,
}

impl<S, A, B> Service<Request<A>> for WorkersService<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone,
{
    type Response = Response<Held<B, Pass>>;
    type Error = S::Error;
    type Future = Working<S, A>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<A>) -> Working<S, A> {
        // Whoever has a turn and waits for another of the same waits for itself.
        let has_turn =
            |shared: &Arc<Shared>| matches!(request.extensions().get(), Some(Turn(of)) if Arc::ptr_eq(of, shared));
        let Some(shared) = self.workers.shared.as_ref().filter(|shared| !has_turn(shared)) else {
            return Working { step: Step::Worked { answer: self.inner.call(request), pass: None } };
        };
        request.extensions_mut().insert(Turn(Arc::clone(shared)));
        let acquire = shared.limiter.acquire();
        let turn = match shared.within {
            Some(within) => acquire.within(within),
            None => acquire,
        };
        // The service that said it is ready is the one to be called.
        let another = self.inner.clone();
        let service = std::mem::replace(&mut self.inner, another);
        Working {
            step: Step::Waits { turn: turn.into_future(), ready: Some((service, request)), shared: Arc::clone(shared) },
        }
    }
}

pin_project! {
    /// A request that waits to be worked on, or is.
    #[must_use = "futures do nothing unless polled"]
    pub struct Working<S, A>
    where
        S: Service<Request<A>>,
    {
        #[pin]
        step: Step<S, A, S::Future>,
    }
}

pin_project! {
    #[project = StepProjection]
    enum Step<S, A, F> {
        Waits { turn: Acquiring, ready: Option<(S, Request<A>)>, shared: Arc<Shared> },
        Worked { #[pin] answer: F, pass: Option<Pass> },
    }
}

impl<S, A, B> Future for Working<S, A>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Output = Result<Response<Held<B, Pass>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut step = self.project().step;
        loop {
            match step.as_mut().project() {
                StepProjection::Waits { turn, ready, shared } => {
                    let Ok(pass) = ready!(Pin::new(turn).poll(context)) else {
                        add_one(&shared.refused);
                        return Poll::Ready(Ok(busy()));
                    };
                    let Some((mut service, request)) = ready.take() else { return Poll::Ready(Ok(busy())) };
                    let answer = service.call(request);
                    step.set(Step::Worked { answer, pass: Some(pass) });
                }
                StepProjection::Worked { answer, pass } => {
                    let answer = ready!(answer.poll(context));
                    let pass = pass.take();
                    return Poll::Ready(answer.map(|answer| answer.map(|body| Held::new(body, pass))));
                }
            }
        }
    }
}

/// The answer to a request that nobody will work on.
fn busy<B>() -> Response<Held<B, Pass>> {
    let mut response = Response::new(Held::empty());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.shared.as_ref().map(|shared| shared.most);
        f.debug_struct("Workers").field("in_flight", &most).finish_non_exhaustive()
    }
}

impl<S, A> fmt::Debug for Working<S, A>
where
    S: Service<Request<A>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Working").finish_non_exhaustive()
    }
}
