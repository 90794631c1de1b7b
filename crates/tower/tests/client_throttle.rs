//! The client-side throttle around an in-memory client, on a manual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use http::{Request, Response};
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::{ClockHandle, ManualClock};
use sluicegate_engine::rule::{Direction, Rule};
use sluicegate_tower::client::{
    BoxError, CallResult, ClientLimit, Limited, LimitedBy, ThrottleCounts, ThrottleLayer, ThrottleLayerBuilder,
};
use tower::{Layer, Service, service_fn};

/// An in-memory server: its response status, 0 for a broken connection, and the number of calls received.
#[derive(Clone, Default)]
struct Server {
    status: Arc<AtomicU16>,
    reached: Arc<AtomicU64>,
}

impl Server {
    fn new(status: u16) -> Self {
        let server = Self::default();
        server.set_status(status);
        server
    }

    fn set_status(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    fn reached(&self) -> u64 {
        self.reached.swap(0, Ordering::SeqCst)
    }

    fn client(
        &self,
    ) -> impl Service<Request<String>, Response = Response<String>, Error = BoxError, Future: Send + 'static>
    + Clone
    + Send
    + 'static {
        let server = self.clone();
        service_fn(move |_: Request<String>| {
            server.reached.fetch_add(1, Ordering::SeqCst);
            let status = server.status.load(Ordering::SeqCst);
            async move {
                if status == 0 {
                    return Err(BoxError::from("connection refused"));
                }
                Ok(Response::builder().status(status).body(String::new())?)
            }
            .boxed()
        })
    }
}

fn throttle(clock: &ManualClock) -> ThrottleLayerBuilder {
    ThrottleLayer::builder(ClockHandle::new(clock.clone()))
}

/// Makes this many calls, one per millisecond. Returns the number not made.
fn call<S>(client: &mut S, clock: &ManualClock, host: &str, calls: u32) -> u32
where
    S: Service<Request<String>, Response = Response<String>, Error = BoxError>,
{
    let mut throttled = 0;
    for _ in 0..calls {
        clock.advance(Duration::from_millis(1));
        let request = Request::get(format!("http://{host}/x")).body(String::new()).unwrap();
        let response = client.call(request).now_or_never().expect("an immediate response");
        if let Err(error) = response
            && let Some(limited) = Limited::find(&*error)
        {
            assert_eq!(limited.by, LimitedBy::Throttle);
            assert_eq!(&*limited.destination, format!("{host}:80"));
            assert!(limited.retry_after() <= Some(Duration::from_secs(1)));
            throttled += 1;
        }
    }
    throttled
}

#[test]
fn default_rejection_criteria() {
    for (status, turned_away) in [(200, false), (404, false), (500, false), (429, true), (503, true), (0, true)] {
        let (clock, server) = (ManualClock::new(), Server::new(status));
        let mut client = throttle(&clock).build().layer(server.client());
        let throttled = call(&mut client, &clock, "bank.example", 1_000);
        assert_eq!(throttled > 900, turned_away, "{status}: {throttled} not made");
        assert_eq!(server.reached(), u64::from(1_000 - throttled));
    }
}

#[test]
fn a_custom_rejection_predicate_is_used() {
    let (clock, server) = (ManualClock::new(), Server::new(500));
    let layer = throttle(&clock)
        .rejects(|response| matches!(response, CallResult::Head(status, _) if status.is_server_error()))
        .build();
    assert!(call(&mut layer.layer(server.client()), &clock, "bank.example", 1_000) > 900);
    server.set_status(0);
    assert_eq!(call(&mut layer.layer(server.client()), &clock, "other.example", 1_000), 0);
}

#[test]
fn backends_are_separate_and_clones_share_state() {
    let (clock, server) = (ManualClock::new(), Server::new(503));
    let layer = throttle(&clock).max_backends(2).build();
    call(&mut layer.layer(server.client()), &clock, "one.example", 1_000);
    server.set_status(200);
    assert_eq!(call(&mut layer.clone().layer(server.client()), &clock, "two.example", 500), 0);
    assert!(call(&mut layer.clone().layer(server.client()), &clock, "one.example", 500) > 400);
    // A third backend evicts the one with the fewest calls.
    call(&mut layer.layer(server.client()), &clock, "three.example", 10);
    let names: Vec<String> = layer.state().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["one.example:80", "three.example:80"]);
}

#[test]
fn a_server_that_is_back_is_called_again() {
    let (clock, server) = (ManualClock::new(), Server::new(200));
    let mut client = throttle(&clock).build().layer(server.client());
    assert_eq!(call(&mut client, &clock, "bank.example", 10_000), 0);
    server.set_status(503);
    call(&mut client, &clock, "bank.example", 10_000);
    server.reached();
    call(&mut client, &clock, "bank.example", 10_000);
    assert!((9..40).contains(&server.reached()), "a probe per second and a little");
    server.set_status(200);
    call(&mut client, &clock, "bank.example", 13_000);
    assert_eq!(call(&mut client, &clock, "bank.example", 1_000), 0);
}

#[test]
fn dropped_calls_count_and_throttled_calls_do_not() {
    let clock = ManualClock::new();
    let layer = throttle(&clock).build();
    let mut stuck = layer
        .layer(service_fn(|_: Request<String>| std::future::pending::<Result<Response<String>, BoxError>>().boxed()));
    let request = || Request::get("http://bank.example/x").body(String::new()).unwrap();
    (0..5).for_each(|_| drop(stuck.call(request())));
    assert_eq!(layer.state()[0].1.rejected, 5);
    // An inner rule refuses: the server never receives the call.
    let mut rule = Rule::new("none", ["1/1h".parse().unwrap()]);
    rule.direction = Direction::Outbound;
    let sluice = Sluice::builder().rule(rule).clock(clock.clone()).build().unwrap();
    let outgoing = ClientLimit::builder(sluice).build();
    let server = service_fn(|_: Request<String>| async { Ok::<_, BoxError>(Response::new(String::from("x"))) });
    let layer = throttle(&clock).build();
    let mut client = layer.layer(outgoing.layer(server));
    for _ in 0..100 {
        let _ = client.call(request()).now_or_never().unwrap().map(drop);
    }
    let state = layer.state()[0].1;
    assert_eq!((state.requested, state.accepted, state.rejected), (1, 1, 0));
    assert_eq!(layer.counts(), ThrottleCounts { made: 1, ..ThrottleCounts::default() });
}

/// Metrics must match the calls on the wire.
#[test]
fn calls_are_counted_as_they_were_made() {
    let (clock, server) = (ManualClock::new(), Server::new(503));
    let layer = throttle(&clock).build();
    let throttled = u64::from(call(&mut layer.layer(server.client()), &clock, "one.example", 1_000));
    let reached = server.reached();
    assert_eq!(layer.counts(), ThrottleCounts { made: reached, rejected: reached, throttled });
    server.set_status(200);
    assert_eq!(call(&mut layer.layer(server.client()), &clock, "two.example", 10), 0);
    assert_eq!(layer.counts(), ThrottleCounts { made: reached + 10, rejected: reached, throttled });
}
