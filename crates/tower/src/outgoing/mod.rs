//! The calling side: limits around requests that go out.
//!
//! [`Outgoing`] is put around a client: it is a tower layer, and with the feature `reqwest` a middleware
//! of `reqwest-middleware`. A call passes through in this order:
//!
//! 1. **Advice.** What the destination's answers said so far: not before the moment that `Retry-After`
//!    named, and no more than its `RateLimit` left. Calls wait for that in line, first in, first out.
//! 2. **Rules.** Those of the sluice with `side: outbound`. They queue, pace or refuse.
//! 3. **Sending**, unless the destination asked to be left alone meanwhile: then what the rules took
//!    goes back, and the call is first in line again.
//! 4. **The answer** is heard ([`sluicegate_http::advice`]) and handed on as it is. What the rules lent
//!    is given back when its body has been read or dropped.
//!
//! [`ThrottleLayer`] is a layer of its own: calls to a backend that turns most of them away are not made.
//!
//! Advice comes before the rules so that the rules see calls at the moment they go: calls that took their
//! turns first and then sat out a hold together would leave all at once, over the limit.
//!
//! ```
//! use http::{Request, Response};
//! use sluicegate_engine::{Sluice, clock::ManualClock, rule::{Rule, Side, Target}};
//! use sluicegate_tower::outgoing::{Limited, LimitedBy, Outgoing};
//! use std::time::Duration;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let mut bank = Rule::new("bank", ["2/1m".parse()?]);
//! bank.side = Side::Outbound;
//! bank.target = Target::parse("caller-of bank")?;
//! let sluice = Sluice::builder().rule(bank).clock(ManualClock::new()).build()?;
//!
//! let outgoing = Outgoing::builder(sluice).service("bank").build();
//! let client = ServiceBuilder::new().layer(outgoing).service(service_fn(|_: Request<String>| async {
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
mod gate;
mod jitter;
mod pacer;
mod service;
mod throttle;

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
use sluicegate_http::advice::Advice;
use sluicegate_http::normal_path;

pub use body::OutgoingBody;
pub use builder::OutgoingBuilder;
pub use call::Call;
pub use counts::{OutgoingCounts, ThrottleCounts};
pub use destination::DestinationState;
pub use error::{Limited, LimitedBy};
pub use pacer::Pace;
pub use service::{BoxError, OutgoingService};
pub use throttle::{Answer, ThrottleLayer, ThrottleLayerBuilder, ThrottleService};

pub(crate) use body::Held;
use builder::{AddAttributes, Names};
use call::OfCall;
use counts::{Counters, count};
use destination::{Destination, InFlight, Patience};
use destinations::Destinations;
use gate::Gate;
use jitter::Jitter;

/// Limits around outgoing calls. Clones share everything: rules, what servers said, counts.
#[derive(Clone)]
pub struct Outgoing(Arc<Shared>);

struct Shared {
    sluice: Sluice,
    names: Names,
    attributes: AddAttributes,
    destinations: Destinations,
    max_wait: Duration,
    most_waiting: usize,
    longest_hold: Duration,
    jitter: Jitter,
    counters: Counters,
}

impl Outgoing {
    /// The rules with `side: outbound` of this sluice, and how calls are named, held and paced. Time is
    /// the sluice's.
    pub fn builder(sluice: Sluice) -> OutgoingBuilder {
        OutgoingBuilder::new(sluice)
    }

    /// What became of the calls so far.
    pub fn counts(&self) -> OutgoingCounts {
        self.0.counters.read(self.0.destinations.forgotten_early())
    }

    /// The destinations that are remembered, by name, and what holds them back.
    pub fn state(&self) -> Vec<DestinationState> {
        self.0.destinations.states(self.now())
    }

    fn now(&self) -> Timestamp {
        self.0.sluice.clock().now()
    }

    /// Waits until a call may be made, or says why it may not. `ready` makes the client ready for it, last
    /// of all. Dropping the future leaves every line and gives back everything.
    pub(crate) async fn depart<C, E, R>(
        &self,
        call: &Call<'_>,
        mut ready: impl FnMut() -> R,
    ) -> Result<(Departed, C), E>
    where
        E: From<Limited>,
        R: Future<Output = Result<C, E>>,
    {
        let Shared { sluice, names, destinations, counters, .. } = &*self.0;
        let arrived = self.now();
        let (service, destination) = names.service_and_destination(call);
        let destination = destinations.get(&destination, arrived);
        let path = normal_path(call.path);
        let place = destination.arrive();
        let mut left = self.0.max_wait;
        let mut held = Once::new(&counters.held);
        let mut queued = Once::new(&counters.queued);
        loop {
            let began = self.now();
            let patience = Patience { deadline: began + left, most_waiting: self.0.most_waiting };
            let gate = Gate::new(&destination, sluice.clock(), place, patience);
            let claim = held.if_pending(gate).await.inspect_err(|_| count(&counters.refused_by_advice))?;
            left = left.saturating_sub(self.now() - began);
            let admission = {
                let mut added = AttributeMap::new();
                if let Some(add) = &self.0.attributes {
                    add(call, &mut added);
                }
                sluice.admit(&call.describe(&service, &path, &OfCall { call, added }))
            };
            let outcome = queued.if_pending(admission).await;
            if !outcome.is_admitted() {
                count(&counters.refused_by_rules);
                return Err(Limited::by_rules(destination.name(), &outcome).into());
            }
            let granted = Granted(Some(outcome));
            let client = ready().await?;
            // Unless the destination asked to be left alone meanwhile.
            if let Some(flying) = claim.depart(self.now())
                && let Some(outcome) = granted.spend()
            {
                count(&counters.sent);
                return Ok((Departed { outcome, flying, outgoing: self.clone() }, client));
            }
        }
    }

    fn read(&self, read: impl FnOnce(SystemTime) -> Advice, now: Timestamp) -> (Advice, Duration) {
        let advice = read(UNIX_EPOCH + now.to_unix());
        let Some(hold) = advice.hold_for else { return (advice, Duration::ZERO) };
        count(&self.0.counters.holds);
        (advice, self.0.jitter.of(hold.min(self.0.longest_hold)))
    }

    fn hear_trailers(&self, destination: &Destination, trailers: &HeaderMap) {
        let now = self.now();
        let (advice, jitter) = self.read(|now| Advice::read_trailers(trailers, now), now);
        if let Some(hold) = advice.hold_for {
            destination.hold(hold, jitter, now);
        }
    }
}

/// What the rules granted to a call that is not on its way yet. Dropped, it goes back.
struct Granted(Option<Outcome>);

impl Granted {
    fn spend(mut self) -> Option<Outcome> {
        self.0.take()
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if let Some(outcome) = self.0.take() {
            outcome.give_back();
        }
    }
}

/// A call on its way. Dropped, it ended without an answer.
pub(crate) struct Departed {
    outcome: Outcome,
    flying: InFlight,
    outgoing: Outgoing,
}

impl Departed {
    /// Hears the answer. What is left to hold until its body has been read is answered.
    pub(crate) fn answered(self, status: StatusCode, headers: &HeaderMap) -> Held {
        let Self { outcome, flying, outgoing } = self;
        let now = outgoing.now();
        let (advice, jitter) = outgoing.read(|now| Advice::read(status, headers, now), now);
        let destination = flying.answered(&advice, jitter, now);
        Held { _permits: outcome, destination, outgoing }
    }
}

/// Counts at most once.
struct Once<'c>(Option<&'c AtomicU64>);

impl<'c> Once<'c> {
    const fn new(counter: &'c AtomicU64) -> Self {
        Self(Some(counter))
    }

    /// Awaits a future and counts if that takes waiting.
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

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("sluice", &self.0.sluice).finish_non_exhaustive()
    }
}
