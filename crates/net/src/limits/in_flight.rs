//! In-flight request limit as a tower layer.
//!
//! A request acquires a permit before the service sees it and holds it until the response body ends or is
//! dropped. Requests of all connections wait in one FIFO queue; a disconnected client leaves the queue. On
//! HTTP/2 each stream is a request.

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
use sluicegate_engine::limiter::AcquireFuture;
use sluicegate_engine::{AcquireError, Limit, LimitError, Limiter, Permit};
use tower_layer::Layer;
use tower_service::Service;

use super::counters::increment;
use super::guarded_body::GuardedBody;

/// Limit on requests in flight, as a tower layer. Clones share the limit, and a request that passes it twice
/// takes one permit.
///
/// ```
/// use axum::{Router, routing::get};
/// use sluicegate_net::LimitedListener;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listener = LimitedListener::builder().max_connections(100).queue(0).in_flight(8).bind("127.0.0.1:0").await?;
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(listener.in_flight_limit());
/// # drop(app);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InFlightLimit {
    shared: Option<Arc<InFlightState>>,
}

struct InFlightState {
    limiter: Limiter,
    max: u64,
    timeout: Option<Duration>,
    rejected: AtomicU64,
}

/// Extension of a request that already waits for or holds a permit.
#[derive(Clone)]
struct PermitMarker(Arc<InFlightState>);

impl InFlightLimit {
    /// Without a limit, every request runs at once.
    pub(crate) fn new(
        in_flight: Option<usize>,
        max_queued: usize,
        timeout: Option<Duration>,
        clock: ClockHandle,
    ) -> Result<Self, LimitError> {
        let Some(max) = in_flight else { return Ok(Self { shared: None }) };
        let limiter = Limiter::builder()
            .limit(Limit::concurrency(max as u64)?)
            .max_waiting(max_queued)
            .max_waiting_total(max_queued)
            .clock(clock)
            .build()?;
        let shared = InFlightState { limiter, max: max as u64, timeout, rejected: AtomicU64::new(0) };
        Ok(Self { shared: Some(Arc::new(shared)) })
    }

    /// Acquires a permit, for servers that do not use the layer. The permit is held until it is dropped;
    /// without a limit it is `None`.
    pub async fn acquire(&self) -> Result<Option<Permit>, AcquireError> {
        let Some(shared) = &self.shared else { return Ok(None) };
        let acquire = shared.limiter.acquire();
        let acquire = match shared.timeout {
            Some(within) => acquire.within(within),
            None => acquire,
        };
        let acquire = acquire.await;
        if acquire.is_err() {
            increment(&shared.rejected);
        }
        acquire.map(Some)
    }

    pub(crate) fn in_flight(&self) -> usize {
        let in_use = |shared: &Arc<InFlightState>| {
            let remaining = shared.limiter.status().first().map_or(shared.max, |status| status.remaining);
            shared.max.saturating_sub(remaining) as usize
        };
        self.shared.as_ref().map_or(0, in_use)
    }

    pub(crate) fn queued(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| shared.limiter.waiting())
    }

    pub(crate) fn rejected(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.rejected.load(Ordering::Relaxed))
    }
}

impl<S> Layer<S> for InFlightLimit {
    type Service = InFlightService<S>;

    fn layer(&self, inner: S) -> InFlightService<S> {
        InFlightService { inner, limit: self.clone() }
    }
}

/// A service with a limit on requests in flight.
#[derive(Clone, Debug)]
pub struct InFlightService<S> {
    inner: S,
    limit: InFlightLimit,
}

impl<S, A, B> Service<Request<A>> for InFlightService<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone,
{
    type Response = Response<GuardedBody<B, Permit>>;
    type Error = S::Error;
    type Future = InFlightFuture<S, A>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<A>) -> InFlightFuture<S, A> {
        // A request that holds a permit and waits for another of the same limit would deadlock.
        let has_permit = |shared: &Arc<InFlightState>| matches!(request.extensions().get(), Some(PermitMarker(of)) if Arc::ptr_eq(of, shared));
        let Some(shared) = self.limit.shared.as_ref().filter(|shared| !has_permit(shared)) else {
            return InFlightFuture { step: RequestStage::Running { response: self.inner.call(request), permit: None } };
        };
        request.extensions_mut().insert(PermitMarker(Arc::clone(shared)));
        let acquire = shared.limiter.acquire();
        let acquire = match shared.timeout {
            Some(within) => acquire.within(within),
            None => acquire,
        };
        // `poll_ready` was called on this service, so this one must be called.
        let another = self.inner.clone();
        let service = std::mem::replace(&mut self.inner, another);
        InFlightFuture {
            step: RequestStage::Queued {
                acquire: acquire.into_future(),
                ready: Some((service, request)),
                shared: Arc::clone(shared),
            },
        }
    }
}

pin_project! {
    /// A request that waits for a permit or runs.
    #[must_use = "futures do nothing unless polled"]
    pub struct InFlightFuture<S, A>
    where
        S: Service<Request<A>>,
    {
        #[pin]
        step: RequestStage<S, A, S::Future>,
    }
}

pin_project! {
    #[project = StepProjection]
    enum RequestStage<S, A, F> {
        Queued { acquire: AcquireFuture, ready: Option<(S, Request<A>)>, shared: Arc<InFlightState> },
        Running { #[pin] response: F, permit: Option<Permit> },
    }
}

impl<S, A, B> Future for InFlightFuture<S, A>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Output = Result<Response<GuardedBody<B, Permit>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut step = self.project().step;
        loop {
            match step.as_mut().project() {
                StepProjection::Queued { acquire, ready, shared } => {
                    let Ok(permit) = ready!(Pin::new(acquire).poll(context)) else {
                        increment(&shared.rejected);
                        return Poll::Ready(Ok(unavailable_response()));
                    };
                    let Some((mut service, request)) = ready.take() else {
                        return Poll::Ready(Ok(unavailable_response()));
                    };
                    let response = service.call(request);
                    step.set(RequestStage::Running { response, permit: Some(permit) });
                }
                StepProjection::Running { response, permit } => {
                    let response = ready!(response.poll(context));
                    let permit = permit.take();
                    return Poll::Ready(response.map(|response| response.map(|body| GuardedBody::new(body, permit))));
                }
            }
        }
    }
}

/// Response to a request that got no permit.
fn unavailable_response<B>() -> Response<GuardedBody<B, Permit>> {
    let mut response = Response::new(GuardedBody::empty());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

impl fmt::Debug for InFlightLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let max = self.shared.as_ref().map(|shared| shared.max);
        f.debug_struct("InFlightLimit").field("in_flight", &max).finish_non_exhaustive()
    }
}

impl<S, A> fmt::Debug for InFlightFuture<S, A>
where
    S: Service<Request<A>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Working").finish_non_exhaustive()
    }
}
