//! Not calling who turns calls away: the throttle of [`sluicegate_adaptive::client`] as a tower layer, and with the
//! feature `reqwest` as a middleware of reqwest.
//!
//! It needs no rules and no advice, only answers. Around [`Outgoing`](super::Outgoing) or on its own; inside of a layer
//! that retries, so that a second attempt is asked for like the first.
//!
//! ```
//! use http::{Request, Response};
//! use sluicegate_engine::clock::{ClockHandle, ManualClock};
//! use sluicegate_tower::outgoing::{Limited, LimitedBy, ThrottleLayer};
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
//!         Ok(answer) => made += i32::from(answer.status() == 503), // handed on as it is
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
use sluicegate_adaptive::client::{Attempt, ClientState, ClientThrottle};
use sluicegate_engine::clock::ClockHandle;
use tower_layer::Layer;
use tower_service::Service;

use super::call::Call;
use super::counts::{ThrottleCounters, ThrottleCounts, count};
use super::error::Limited;
use super::service::BoxError;

/// What came back of a call.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// An answer.
    Head(StatusCode, &'a HeaderMap),
    /// An error of the client: no connection, a broken one, a timeout.
    Failed(&'a (dyn Error + 'static)),
}

type NameOf = dyn Fn(&Call<'_>) -> String + Send + Sync;
type Rejects = dyn Fn(Answer<'_>) -> bool + Send + Sync;

/// A throttle per backend around a client. Clones share everything.
#[derive(Clone)]
pub struct ThrottleLayer(Arc<Shared>);

struct Shared {
    options: ThrottleLayerBuilder,
    backends: Mutex<HashMap<String, ClientThrottle>>,
    counters: ThrottleCounters,
}

/// Makes a [`ThrottleLayer`].
#[must_use = "nothing is throttled until `build` is called"]
pub struct ThrottleLayerBuilder {
    clock: ClockHandle,
    window: Duration,
    calls_per_accepted: f64,
    most_backends: usize,
    backend: Box<NameOf>,
    rejects: Box<Rejects>,
}

/// Without a word of the program: 429, 503 and every error of the client.
fn rejects_usually(answer: Answer<'_>) -> bool {
    match answer {
        Answer::Head(status, _) => {
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
        }
        Answer::Failed(_) => true,
    }
}

impl ThrottleLayer {
    /// How it goes by which clock.
    pub fn builder(clock: ClockHandle) -> ThrottleLayerBuilder {
        ThrottleLayerBuilder {
            clock,
            window: Duration::from_secs(120),
            calls_per_accepted: 2.0,
            most_backends: 1_024,
            backend: Box::new(|call| call.authority()),
            rejects: Box::new(rejects_usually),
        }
    }

    /// The backends that are remembered, by name, and what is known of them.
    pub fn state(&self) -> Vec<(String, ClientState)> {
        let backends = self.0.backends.lock();
        let mut states: Vec<_> = backends.iter().map(|(name, throttle)| (name.clone(), throttle.state())).collect();
        drop(backends);
        states.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        states
    }

    /// What became of the calls so far, to all backends: for metrics.
    pub fn counts(&self) -> ThrottleCounts {
        self.0.counters.read()
    }

    /// Whether a call may be made.
    pub(crate) fn ask(&self, call: &Call<'_>) -> Result<Attempt, Limited> {
        let Shared { options, backends, counters } = &*self.0;
        let name = (options.backend)(call);
        let mut backends = backends.lock();
        let throttle = match backends.get(&name) {
            Some(throttle) => throttle.clone(),
            None => {
                if backends.len() >= options.most_backends {
                    forget_one(&mut backends);
                }
                let throttle = options.throttle();
                backends.insert(name.clone(), throttle.clone());
                throttle
            }
        };
        drop(backends);
        let asked = throttle.ask();
        count(if asked.is_ok() { &counters.made } else { &counters.not_made });
        asked.map_err(|throttled| Limited::by_throttle(name.into(), throttled.retry_after))
    }

    /// Tells an attempt what came of it.
    pub(crate) fn hear(&self, attempt: Attempt, answer: Answer<'_>) {
        let Shared { options, counters, .. } = &*self.0;
        if let Answer::Failed(error) = answer
            && Limited::find(error).is_some()
        {
            counters.made.fetch_sub(1, Ordering::Relaxed);
            return attempt.take_back();
        }
        if (options.rejects)(answer) {
            count(&counters.turned_away);
            attempt.rejected();
        } else {
            attempt.accepted();
        }
    }
}

/// Makes room: for the one that knows least, which is none at all for those nobody has called lately.
fn forget_one(backends: &mut HashMap<String, ClientThrottle>) {
    let least = backends.iter().min_by_key(|(_, throttle)| throttle.state().wanted).map(|(name, _)| name.clone());
    if let Some(name) = least {
        backends.remove(&name);
    }
}

impl ThrottleLayerBuilder {
    /// How far back it remembers: two minutes unless told otherwise.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// How many calls per accepted one are made: 2 unless told otherwise.
    pub fn calls_per_accepted(mut self, calls: f64) -> Self {
        self.calls_per_accepted = calls;
        self
    }

    /// How many backends are remembered: 1,024 unless told otherwise.
    pub fn max_backends(mut self, most: usize) -> Self {
        self.most_backends = most;
        self
    }

    /// Which backend a call goes to: host and port unless told otherwise.
    pub fn backend(mut self, name: impl Fn(&Call<'_>) -> String + Send + Sync + 'static) -> Self {
        self.backend = Box::new(name);
        self
    }

    /// Which answers mean that the backend turned the call away: 429, 503 and errors of the client unless told
    /// otherwise. Calls that a layer beneath did not make ([`Limited`]) are not asked about: they count for nothing.
    pub fn rejects(mut self, rejects: impl Fn(Answer<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.rejects = Box::new(rejects);
        self
    }

    /// Ready to be put around a client.
    pub fn build(self) -> ThrottleLayer {
        ThrottleLayer(Arc::new(Shared {
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

/// A client whose calls are throttled. Clones share everything with the [`ThrottleLayer`] they come from.
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
        let asked = self.layer.ask(&Call::new(request.method(), request.uri(), request.headers()));
        let attempt = match asked {
            Ok(attempt) => attempt,
            Err(limited) => return Box::pin(async { Err(limited.into()) }),
        };
        let calling = self.inner.call(request);
        let layer = self.layer.clone();
        Box::pin(async move {
            let answer = calling.await.map_err(Into::into);
            layer.hear(
                attempt,
                match &answer {
                    Ok(answer) => Answer::Head(answer.status(), answer.headers()),
                    Err(error) => Answer::Failed(&**error),
                },
            );
            answer
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
