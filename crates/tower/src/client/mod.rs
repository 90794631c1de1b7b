//! Client side: limits around outgoing requests.
//!
//! [`ClientLimit`] wraps a client: it is a tower layer, and with the feature `reqwest` a middleware
//! of `reqwest-middleware`. A call passes these steps:
//!
//! 1. **Server hints** of earlier responses: not before the time given by `Retry-After`,
//!    and no more than the remaining `RateLimit` budget. Calls wait for that in a FIFO queue.
//! 2. **Rules** of the sluice with `direction: outbound`. They queue, pace or refuse.
//! 3. **Sending**, unless the destination requested a hold meanwhile: then the rules' permits
//!    are released, and the call is first in the queue again.
//! 4. **The response** is read for hints ([`sluicegate_http_adapter::server_hints`]) and passed on unchanged. Permits of the
//!    rules are released once its body has been read or dropped.
//!
//! [`ThrottleLayer`] is a separate layer: calls to a backend that rejects most of them are not made.
//!
//! Hints come before rules so that rules count calls at the time they are sent: calls that passed the
//! rules first and then waited for a hold together would leave all at once, over the limit.
//!
//! ```
//! use http::{Request, Response};
//! use sluicegate_engine::{Sluice, clock::ManualClock, rule::{Rule, Direction, Target}};
//! use sluicegate_tower::client::{ClientLimit, Limited, LimitedBy};
//! use std::time::Duration;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let mut bank = Rule::new("bank", ["2/1m".parse()?]);
//! bank.direction = Direction::Outbound;
//! bank.target = Target::parse("calls-to bank")?;
//! let sluice = Sluice::builder().rule(bank).clock(ManualClock::new()).build()?;
//!
//! let limit = ClientLimit::builder(sluice).service("bank").build();
//! let client = ServiceBuilder::new().layer(limit).service(service_fn(|_: Request<String>| async {
//!     Ok::<_, std::io::Error>(Response::new(String::from("paid")))
//! }));
//!
//! let call = || client.clone().oneshot(Request::new(String::new()));
//! assert!(call().await.is_ok() && call().await.is_ok());
//! let error = call().await.unwrap_err();
//! let limited = Limited::find(&*error).unwrap();
//! assert_eq!(limited.by, LimitedBy::Rule("bank".into()));
//! assert!(limited.retry_after() > Some(Duration::from_secs(59)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod body;
mod builder;
mod call;
mod counts;
mod destination;
mod destinations;
mod error;
mod jitter;
mod pacer;
mod service;
mod throttle;
mod wait;

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, StatusCode};
use sluicegate_engine::rule::AttributeMap;
use sluicegate_engine::{Outcome, Sluice, Timestamp};
use sluicegate_http_adapter::normalize_path;
use sluicegate_http_adapter::server_hints::ServerHints;

pub use body::OutgoingBody;
pub use builder::ClientLimitBuilder;
pub use call::Call;
pub use counts::{ClientLimitCounts, ThrottleCounts};
pub use destination::DestinationState;
pub use error::{Limited, LimitedBy};
pub use pacer::Pace;
pub use service::{BoxError, ClientLimitService};
pub use throttle::{CallResult, ThrottleLayer, ThrottleLayerBuilder, ThrottleService};

pub(crate) use body::ResponseGuard;
use builder::{AddAttributes, ServiceNames};
use call::CallAttributes;
use counts::{ClientLimitCounters, count};
use destination::{Destination, InFlightCall, WaitBounds};
use destinations::Destinations;
use jitter::Jitter;
use wait::DestinationWait;

/// Limits around outgoing calls. Clones share rules, server hints and counts.
#[derive(Clone)]
pub struct ClientLimit(Arc<ClientLimitState>);

struct ClientLimitState {
    sluice: Sluice,
    names: ServiceNames,
    attributes: AddAttributes,
    destinations: Destinations,
    max_wait: Duration,
    max_waiting: usize,
    max_hold: Duration,
    jitter: Jitter,
    counters: ClientLimitCounters,
}

impl ClientLimit {
    /// Builder for the `direction: outbound` rules of this sluice, service names, waits and pacing. Uses
    /// the sluice's clock.
    pub fn builder(sluice: Sluice) -> ClientLimitBuilder {
        ClientLimitBuilder::new(sluice)
    }

    /// Counts of outgoing calls so far.
    pub fn counts(&self) -> ClientLimitCounts {
        self.0.counters.read(self.0.destinations.evicted_early())
    }

    /// The tracked destinations, by name, and their holds.
    pub fn state(&self) -> Vec<DestinationState> {
        self.0.destinations.states(self.now())
    }

    fn now(&self) -> Timestamp {
        self.0.sluice.clock().now()
    }

    /// Waits until a call may be sent, or refuses it. `ready` makes the client ready, as the last
    /// step. Dropping the future leaves every queue and releases everything.
    pub(crate) async fn acquire<C, E, R>(
        &self,
        call: &Call<'_>,
        mut ready: impl FnMut() -> R,
    ) -> Result<(SentCall, C), E>
    where
        E: From<Limited>,
        R: Future<Output = Result<C, E>>,
    {
        let ClientLimitState { sluice, names, destinations, counters, .. } = &*self.0;
        let arrived = self.now();
        let (service, destination) = names.service_and_destination(call);
        let destination = destinations.get(&destination, arrived);
        let path = normalize_path(call.path);
        let ticket = destination.new_ticket();
        let mut left = self.0.max_wait;
        let mut delayed = CountOnce::new(&counters.delayed);
        let mut queued = CountOnce::new(&counters.queued);
        loop {
            let began = self.now();
            let bounds = WaitBounds { deadline: began + left, max_waiting: self.0.max_waiting };
            let state = DestinationWait::new(&destination, sluice.clock(), ticket, bounds);
            let claim = delayed.if_pending(state).await.inspect_err(|_| count(&counters.refused_by_server))?;
            left = left.saturating_sub(self.now() - began);
            let admission = {
                let mut added = AttributeMap::new();
                if let Some(add) = &self.0.attributes {
                    add(call, &mut added);
                }
                sluice.admit(&call.describe(&service, &path, &CallAttributes { call, added }))
            };
            let outcome = queued.if_pending(admission).await;
            if !outcome.is_admitted() {
                count(&counters.refused_by_rules);
                return Err(Limited::by_rules(destination.name(), &outcome).into());
            }
            let granted = CallPermit(Some(outcome));
            let client = ready().await?;
            // Unless the destination requested a hold meanwhile.
            if let Some(in_flight) = claim.send(self.now())
                && let Some(outcome) = granted.spend()
            {
                count(&counters.sent);
                return Ok((SentCall { outcome, in_flight, limit: self.clone() }, client));
            }
        }
    }

    fn read_hints(&self, read: impl FnOnce(SystemTime) -> ServerHints, now: Timestamp) -> (ServerHints, Duration) {
        let hints = read(UNIX_EPOCH + now.to_unix());
        let Some(hold) = hints.retry_after else { return (hints, Duration::ZERO) };
        count(&self.0.counters.hold_responses);
        (hints, self.0.jitter.extra(hold.min(self.0.max_hold)))
    }

    fn apply_trailers(&self, destination: &Destination, trailers: &HeaderMap) {
        let now = self.now();
        let (hints, jitter) = self.read_hints(|now| ServerHints::read_trailers(trailers, now), now);
        if let Some(hold) = hints.retry_after {
            destination.hold(hold, jitter, now);
        }
    }
}

/// Permits of a call that is not sent yet. Released on drop.
struct CallPermit(Option<Outcome>);

impl CallPermit {
    fn spend(mut self) -> Option<Outcome> {
        self.0.take()
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        if let Some(outcome) = self.0.take() {
            outcome.give_back();
        }
    }
}

/// A sent call. Dropped, it ended without a response.
pub(crate) struct SentCall {
    outcome: Outcome,
    in_flight: InFlightCall,
    limit: ClientLimit,
}

impl SentCall {
    /// Applies the response's hints. Returns the guard to hold until the body has been read.
    pub(crate) fn on_response(self, status: StatusCode, headers: &HeaderMap) -> ResponseGuard {
        let Self { outcome, in_flight, limit } = self;
        let now = limit.now();
        let (hints, jitter) = limit.read_hints(|now| ServerHints::read(status, headers, now), now);
        let destination = in_flight.on_response(&hints, jitter, now);
        ResponseGuard { _permits: outcome, destination, limit }
    }
}

/// Counts at most once.
struct CountOnce<'c>(Option<&'c AtomicU64>);

impl<'c> CountOnce<'c> {
    const fn new(counter: &'c AtomicU64) -> Self {
        Self(Some(counter))
    }

    /// Awaits a future and counts if it is pending.
    async fn if_pending<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let polled = Pin::new(&mut future).poll(context);
            if let Poll::Pending = polled
                && let Some(counter) = self.0.take()
            {
                count(counter);
            }
            polled
        })
        .await
    }
}

impl fmt::Debug for ClientLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("sluice", &self.0.sluice).finish_non_exhaustive()
    }
}
