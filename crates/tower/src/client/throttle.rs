//! Adaptive client-side throttling: the throttle of [`sluicegate_adaptive::client`] as a tower layer, and with
//! the feature `reqwest` as a reqwest middleware.
//!
//! It needs no rules and no server hints, only responses. Use it around [`ClientLimit`](super::ClientLimit) or
//! alone; inside of a retry layer, so that every attempt is checked.
//!
//! ```
//! use http::{Request, Response};
//! use sluicegate_engine::clock::{ClockHandle, ManualClock};
//! use sluicegate_tower::client::{Limited, LimitedBy, ThrottleLayer};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let throttle = ThrottleLayer::builder(ClockHandle::new(ManualClock::new())).build();
//! let client = ServiceBuilder::new().layer(throttle).service(service_fn(|_: Request<String>| async {
//!     Response::builder().status(503).body(String::from("overloaded"))
//! }));
//!
//! let mut made = 0;
//! for _ in 0..1_000 {
//!     match client.clone().oneshot(Request::get("http://bank.example/rates").body(String::new())?).await {
//!         Ok(response) => made += i32::from(response.status() == 503), // passed on unchanged
//!         Err(error) => assert_eq!(Limited::find(&*error).unwrap().by, LimitedBy::Throttle),
//!     }
//! }
//! assert!(made < 60, "{made} of a thousand calls were made");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode};
use parking_lot::Mutex;
use sluicegate_adaptive::client::{Attempt, ClientThrottle, ThrottleStats};
use sluicegate_engine::clock::ClockHandle;
use tower_layer::Layer;
use tower_service::Service;

use super::call::Call;
use super::counts::{ThrottleCounters, ThrottleCounts, count};
use super::error::Limited;
use super::service::BoxError;

/// Result of a call.
#[derive(Clone, Copy, Debug)]
pub enum CallResult<'a> {
    /// A response.
    Head(StatusCode, &'a HeaderMap),
    /// A client error: no connection, a broken one, a timeout.
    Failed(&'a (dyn Error + 'static)),
}

type NameOf = dyn Fn(&Call<'_>) -> String + Send + Sync;
type Rejects = dyn Fn(CallResult<'_>) -> bool + Send + Sync;

/// Client layer with one throttle per backend. Clones share everything.
#[derive(Clone)]
pub struct ThrottleLayer(Arc<ThrottleState>);

struct ThrottleState {
    options: ThrottleLayerBuilder,
    backends: Mutex<HashMap<String, ClientThrottle>>,
    counters: ThrottleCounters,
}

/// Builds a [`ThrottleLayer`].
#[must_use = "nothing is throttled until `build` is called"]
pub struct ThrottleLayerBuilder {
    clock: ClockHandle,
    window: Duration,
    calls_per_accepted: f64,
    max_backends: usize,
    backend: Box<NameOf>,
    rejects: Box<Rejects>,
}

/// Default rejection criteria: 429, 503 and every client error.
fn default_rejects(result: CallResult<'_>) -> bool {
    match result {
        CallResult::Head(status, _) => {
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
        }
        CallResult::Failed(_) => true,
    }
}

impl ThrottleLayer {
    /// Builder with this clock.
    pub fn builder(clock: ClockHandle) -> ThrottleLayerBuilder {
        ThrottleLayerBuilder {
            clock,
            window: Duration::from_secs(120),
            calls_per_accepted: 2.0,
            max_backends: 1_024,
            backend: Box::new(|call| call.authority()),
            rejects: Box::new(default_rejects),
        }
    }

    /// The tracked backends, by name, with their state.
    pub fn state(&self) -> Vec<(String, ThrottleStats)> {
        let backends = self.0.backends.lock();
        let mut states: Vec<_> = backends.iter().map(|(name, throttle)| (name.clone(), throttle.state())).collect();
        drop(backends);
        states.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        states
    }

    /// Counts of calls to all backends so far, for metrics.
    pub fn counts(&self) -> ThrottleCounts {
        self.0.counters.read()
    }

    /// Checks if a call may be made.
    pub(crate) fn check(&self, call: &Call<'_>) -> Result<Attempt, Limited> {
        let ThrottleState { options, backends, counters } = &*self.0;
        let name = (options.backend)(call);
        let mut backends = backends.lock();
        let throttle = match backends.get(&name) {
            Some(throttle) => throttle.clone(),
            None => {
                if backends.len() >= options.max_backends {
                    evict_one(&mut backends);
                }
                let throttle = options.throttle();
                backends.insert(name.clone(), throttle.clone());
                throttle
            }
        };
        drop(backends);
        let attempt = throttle.try_call();
        count(if attempt.is_ok() { &counters.made } else { &counters.throttled });
        attempt.map_err(|throttled| Limited::by_throttle(name.into(), throttled.retry_after))
    }

    /// Records the result of an attempt.
    pub(crate) fn record(&self, attempt: Attempt, result: CallResult<'_>) {
        let ThrottleState { options, counters, .. } = &*self.0;
        if let CallResult::Failed(error) = result
            && Limited::find(error).is_some()
        {
            counters.made.fetch_sub(1, Ordering::Relaxed);
            return attempt.cancel();
        }
        if (options.rejects)(result) {
            count(&counters.rejected);
            attempt.rejected();
        } else {
            attempt.accepted();
        }
    }
}

/// Evicts the backend with the fewest recent calls.
fn evict_one(backends: &mut HashMap<String, ClientThrottle>) {
    let least = backends.iter().min_by_key(|(_, throttle)| throttle.state().requested).map(|(name, _)| name.clone());
    if let Some(name) = least {
        backends.remove(&name);
    }
}

impl ThrottleLayerBuilder {
    /// Length of the observation window; default two minutes.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Calls made per accepted call; default 2.
    pub fn calls_per_accepted(mut self, calls: f64) -> Self {
        self.calls_per_accepted = calls;
        self
    }

    /// Maximum tracked backends; default 1,024.
    pub fn max_backends(mut self, max: usize) -> Self {
        self.max_backends = max;
        self
    }

    /// Function that names the backend of a call; default host and port.
    pub fn backend(mut self, name: impl Fn(&Call<'_>) -> String + Send + Sync + 'static) -> Self {
        self.backend = Box::new(name);
        self
    }

    /// Predicate for rejections by the backend; default 429, 503 and client errors. Calls that an inner layer
    /// did not make ([`Limited`]) are not passed to it: they do not count.
    pub fn rejects(mut self, rejects: impl Fn(CallResult<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.rejects = Box::new(rejects);
        self
    }

    /// Builds the layer.
    pub fn build(self) -> ThrottleLayer {
        ThrottleLayer(Arc::new(ThrottleState {
            options: self,
            backends: Mutex::default(),
            counters: ThrottleCounters::default(),
        }))
    }

    fn throttle(&self) -> ClientThrottle {
        let builder = ClientThrottle::builder(self.clock.clone());
        builder.window(self.window).calls_per_accepted(self.calls_per_accepted).build()
    }
}

/// A throttled client. Clones share everything with their [`ThrottleLayer`].
#[derive(Clone, Debug)]
pub struct ThrottleService<S> {
    inner: S,
    layer: ThrottleLayer,
}

impl<S> Layer<S> for ThrottleLayer {
    type Service = ThrottleService<S>;

    fn layer(&self, inner: S) -> ThrottleService<S> {
        ThrottleService { inner, layer: self.clone() }
    }
}

impl<S, B, R> Service<Request<B>> for ThrottleService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    R: 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let checked = self.layer.check(&Call::new(request.method(), request.uri(), request.headers()));
        let attempt = match checked {
            Ok(attempt) => attempt,
            Err(limited) => return Box::pin(async { Err(limited.into()) }),
        };
        let calling = self.inner.call(request);
        let layer = self.layer.clone();
        Box::pin(async move {
            let result = calling.await.map_err(Into::into);
            layer.record(
                attempt,
                match &result {
                    Ok(response) => CallResult::Head(response.status(), response.headers()),
                    Err(error) => CallResult::Failed(&**error),
                },
            );
            result
        })
    }
}

impl fmt::Debug for ThrottleLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleLayer").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ThrottleLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleLayerBuilder").field("window", &self.window).finish_non_exhaustive()
    }
}
