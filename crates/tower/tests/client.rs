//! Client-side limits around an in-memory client on a manual clock: send times,
//! refusals, and cleanup.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::overload::{GateLimits, OverloadNotice, VariableRate};
use sluicegate_engine::rule::{Adaptive, Attribute, CpuGuard, Direction, Lists, Queue, Rule, Target};
use sluicegate_engine::{Limit, Rate, Sluice};
use sluicegate_tower::client::{BoxError, ClientLimit, ClientLimitBuilder, Limited, LimitedBy, OutgoingBody, Pace};
use tower::{Layer, Service, service_fn};

type ClientResponse = Response<OutgoingBody<Full<Bytes>>>;
type CallFuture = Pin<Box<dyn Future<Output = Result<ClientResponse, BoxError>> + Send>>;

/// A manually polled future that records wakeups.
struct PolledCall {
    future: Option<CallFuture>,
    wake_counter: Arc<WakeCounter>,
}

#[derive(Default)]
struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl PolledCall {
    fn poll(&mut self) -> Poll<Result<ClientResponse, BoxError>> {
        self.wake_counter.0.store(0, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.wake_counter));
        let polled =
            self.future.as_mut().expect("polled after it was done").as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }

    fn is_woken(&self) -> bool {
        self.future.is_some() && self.wake_counter.0.load(Ordering::SeqCst) > 0
    }

    fn expect_ready(mut self) -> Result<ClientResponse, BoxError> {
        match self.poll() {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("it should have been decided at once"),
        }
    }

    fn expect_pending(mut self) -> Self {
        assert!(self.poll().is_pending(), "it should have had to wait");
        self
    }
}

/// Polls woken tasks until none is left; returns the completed ones, in order.
fn poll_woken(tasks: &mut [PolledCall]) -> Vec<(usize, Result<ClientResponse, BoxError>)> {
    let mut done = Vec::new();
    // Last first, so that arrival order is not preserved by accident.
    while let Some(at) = tasks.iter().rposition(PolledCall::is_woken) {
        if let Poll::Ready(result) = tasks[at].poll() {
            done.push((at, result));
        }
    }
    done
}

/// An in-memory server: scripted responses, and arrival times.
#[derive(Clone)]
struct Server {
    clock: ManualClock,
    reached: Arc<Mutex<Vec<Duration>>>,
    responses: Arc<Mutex<Vec<Response<Full<Bytes>>>>>,
}

impl Server {
    fn new(clock: &ManualClock) -> Self {
        Self { clock: clock.clone(), reached: Arc::default(), responses: Arc::default() }
    }

    /// Adds a response; without any left, the server sends a plain 200.
    fn respond_with(&self, status: u16, headers: &[(&str, &str)]) {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        self.responses.lock().unwrap().insert(0, response.body(Full::from("body")).unwrap());
    }

    fn next_response(&self) -> Response<Full<Bytes>> {
        self.reached.lock().unwrap().push(self.clock.now() - ManualClock::new().now());
        self.responses.lock().unwrap().pop().unwrap_or_else(|| Response::new(Full::from("body")))
    }

    /// Arrival times in milliseconds.
    fn reached(&self) -> Vec<u128> {
        self.reached.lock().unwrap().iter().map(Duration::as_millis).collect()
    }
}

struct Fixture {
    clock: ManualClock,
    server: Server,
    outgoing: ClientLimit,
    sluice: Sluice,
}

fn outbound(name: &str, limit: Limit) -> Rule {
    Rule { direction: Direction::Outbound, target: Target::parse("calls-to bank").unwrap(), ..Rule::new(name, [limit]) }
}

fn queued(mut rule: Rule, max_wait: u64) -> Rule {
    rule.on_limit.queue = Some(Queue { max_wait: Duration::from_secs(max_wait), max_waiting: 100 });
    rule
}

fn fixture(rules: Vec<Rule>, set: impl FnOnce(ClientLimitBuilder) -> ClientLimitBuilder) -> Fixture {
    let clock = ManualClock::new();
    let sluice = rules.into_iter().fold(Sluice::builder().clock(clock.clone()), |sluice, rule| sluice.rule(rule));
    let sluice = sluice.build().unwrap();
    let builder = ClientLimit::builder(sluice.clone()).service("bank").jitter(|_| Duration::ZERO);
    let outgoing = set(builder.max_wait(Duration::from_secs(60))).build();
    Fixture { server: Server::new(&clock), clock, outgoing, sluice }
}

impl Fixture {
    fn call(&self) -> PolledCall {
        self.call_to("http://api.bank.example/pay")
    }

    fn call_to(&self, uri: &str) -> PolledCall {
        let server = self.server.clone();
        let inner = service_fn(move |_: Request<()>| {
            let response = server.next_response();
            async move { Ok::<_, std::io::Error>(response) }
        });
        let request = Request::get(uri).body(()).unwrap();
        PolledCall { future: Some(self.outgoing.layer(inner).call(request)), wake_counter: Arc::default() }
    }

    fn advance(&self, seconds: f64) {
        self.clock.advance(Duration::from_secs_f64(seconds));
    }

    fn in_flight(&self) -> u64 {
        self.outgoing.state().iter().map(|state| state.in_flight).sum()
    }

    fn waiting(&self) -> usize {
        self.outgoing.state().iter().map(|state| state.waiting).sum()
    }

    /// Remaining requests of the only destination.
    fn remaining(&self) -> Option<u64> {
        self.outgoing.state()[0].remaining.map(|(left, _)| left)
    }
}

fn limited(result: Result<ClientResponse, BoxError>) -> Limited {
    Limited::find(&*result.expect_err("it should have been refused")).expect("Limited").clone()
}

#[test]
fn a_rule_refuses_and_says_which_and_how_long() {
    let fixture = fixture(vec![outbound("bank-calls", "1/s".parse().unwrap())], |set| set);
    fixture.call().expect_ready().unwrap();
    let refused = limited(fixture.call().expect_ready());
    assert_eq!(refused.by, LimitedBy::Rule("bank-calls".into()));
    assert_eq!(&*refused.destination, "bank");
    let text = refused.to_string();
    assert!(text.starts_with("call to bank not made: over the limit of rule bank-calls: try again in "), "{text}");
    let wait = refused.retry_after().unwrap();
    fixture.clock.advance(wait - Duration::from_nanos(1));
    assert!(fixture.call().expect_ready().is_err());
    fixture.clock.advance(Duration::from_nanos(1));
    fixture.call().expect_ready().unwrap();
    let counts = fixture.outgoing.counts();
    assert_eq!((counts.sent, counts.refused_by_rules, counts.refused_by_server), (2, 2, 0));
}

/// Another spelling of host or path must not bypass a rule.
#[test]
fn a_rule_matches_every_spelling_of_host_and_path() {
    for (target, first, second) in [
        ("calls-to api.shop.example", "http://api.shop.example/", "http://API.Shop.Example./"),
        ("calls-to port", "http://ported.example:81/", "http://Ported.example.:81/"),
        ("calls-to dotted", "http://dotted.example/", "https://dotted.example./"),
        ("calls-to a /caf\u{e9}", "http://a/caf%C3%A9", "http://a//x/../caf%c3%a9"),
    ] {
        let rule = Rule { target: Target::parse(target).unwrap(), ..outbound("spelled", "1/1h".parse().unwrap()) };
        let clock = ManualClock::new();
        let sluice = Sluice::builder().clock(clock.clone()).rule(rule).build().unwrap();
        let outgoing =
            ClientLimit::builder(sluice.clone()).host("ported.example:81", "port").host("Dotted.example.", "dotted");
        let fixture = Fixture { server: Server::new(&clock), clock, outgoing: outgoing.build(), sluice };
        fixture.call_to(first).expect_ready().unwrap();
        assert_eq!(limited(fixture.call_to(second).expect_ready()).by, LimitedBy::Rule("spelled".into()), "{target}");
    }
}

/// A broken or hostile server sends an endless hold: jitter must not extend it either.
#[test]
fn jitter_applies_to_the_capped_hold() {
    let set = |set: ClientLimitBuilder| set.max_hold(Duration::from_secs(100)).jitter(|hold| hold * 2);
    let fixture = fixture(Vec::new(), set);
    fixture.server.respond_with(429, &[("retry-after", "18446744073709551615")]);
    fixture.call().expect_ready().unwrap();
    assert_eq!(fixture.outgoing.state()[0].blocked_for, Some(Duration::from_secs(300)));
}

/// Paces calls to `/pay` to one per `seconds`; all others are free.
fn paced(seconds: u64) -> Rule {
    let leaky = Limit::leaky_bucket(Rate::new(1, Duration::from_secs(seconds)).unwrap(), 15).unwrap();
    let rule = queued(outbound("paced", leaky), 60);
    Rule { target: Target::parse("calls-to bank /pay").unwrap(), ..rule }
}

/// A revoked call precedes the queued ones, even if the queue is full.
#[test]
fn a_revoked_call_keeps_its_position_in_a_full_queue() {
    let fixture = fixture(vec![paced(1)], |set| set.max_waiting(1));
    fixture.call().expect_ready().unwrap();
    let called_back = fixture.call().expect_pending();
    fixture.server.respond_with(429, &[("retry-after", "5")]);
    fixture.call_to("http://api.bank.example/other").expect_ready().unwrap();
    let in_line = fixture.call_to("http://api.bank.example/other").expect_pending();
    assert_eq!(limited(fixture.call().expect_ready()).by, LimitedBy::QueueFull);
    fixture.advance(1.0);
    let tasks = &mut [called_back, in_line];
    assert!(poll_woken(tasks).is_empty(), "both wait");
    fixture.advance(4.0);
    assert_eq!(poll_woken(tasks).iter().filter(|(_, result)| result.is_ok()).count(), 2);
}

/// The wait for a rule is bounded by the rule, and does not count as waiting for the server.
#[test]
fn time_queued_by_a_rule_does_not_count_toward_max_wait() {
    let fixture = fixture(vec![paced(5)], |set| set.max_wait(Duration::from_secs(6)));
    fixture.call().expect_ready().unwrap();
    let tasks = &mut [fixture.call().expect_pending()];
    fixture.advance(4.0);
    fixture.server.respond_with(429, &[("retry-after", "6")]);
    fixture.call_to("http://api.bank.example/other").expect_ready().unwrap();
    fixture.advance(1.0);
    assert!(poll_woken(tasks).is_empty(), "the rule admits it, the server does not");
    fixture.advance(5.0);
    assert!(poll_woken(tasks)[0].1.is_ok());
}

/// A client that is not ready until set free.
#[derive(Clone)]
struct Busy {
    server: Server,
    is_free: Arc<AtomicUsize>,
}

impl Service<Request<()>> for Busy {
    type Response = Response<Full<Bytes>>;
    type Error = std::io::Error;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        context.waker().wake_by_ref();
        if self.is_free.load(Ordering::SeqCst) > 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        std::future::ready(Ok(self.server.next_response()))
    }
}

/// The inner client may delay a call, such as a pool or a concurrency limit. A hold that arrives
/// meanwhile applies to that call too, and until it is sent it has spent nothing.
#[test]
fn a_call_waiting_for_the_client_is_held_too() {
    let fixture = fixture(vec![outbound("bank-calls", "2/1h".parse().unwrap())], |set| set);
    let busy = Busy { server: fixture.server.clone(), is_free: Arc::default() };
    let call = || {
        let request = Request::get("http://api.bank.example/pay").body(()).unwrap();
        PolledCall { future: Some(fixture.outgoing.layer(busy.clone()).call(request)), wake_counter: Arc::default() }
    };
    drop(call().expect_pending());
    let mut waiting = call().expect_pending();
    fixture.server.respond_with(429, &[("retry-after", "5")]);
    assert_eq!(fixture.call().expect_ready().unwrap().status(), 429);
    busy.is_free.store(1, Ordering::SeqCst);
    assert!(waiting.poll().is_pending());
    assert_eq!((fixture.server.reached().len(), fixture.waiting()), (1, 1));
    fixture.advance(5.0);
    assert!(waiting.poll().is_ready());
    assert_eq!(fixture.server.reached(), [0, 5_000]);
    assert_eq!(fixture.outgoing.counts().sent, 2);
}

#[test]
fn a_leaky_bucket_paces_calls() {
    let leaky = Limit::leaky_bucket(Rate::per_second(5).unwrap(), 15).unwrap();
    let fixture = fixture(vec![queued(outbound("bank", leaky), 10)], |set| set);
    fixture.call().expect_ready().unwrap();
    let mut tasks: Vec<PolledCall> = (0..4).map(|_| fixture.call().expect_pending()).collect();
    for _ in 0..4 {
        fixture.advance(0.2);
        poll_woken(&mut tasks);
    }
    assert_eq!(fixture.server.reached(), [0, 200, 400, 600, 800]);
    assert_eq!((fixture.outgoing.counts().queued, fixture.clock.pending_timers()), (4, 0));
}

#[test]
fn rules_for_another_service_or_side_do_not_apply() {
    let mut inbound = outbound("inbound", "1/1h".parse().unwrap());
    inbound.direction = Direction::Inbound;
    let mut other = outbound("other", "1/1h".parse().unwrap());
    other.target = Target::parse("calls-to shop").unwrap();
    let fixture = fixture(vec![inbound, other], |set| set);
    for _ in 0..3 {
        fixture.call().expect_ready().unwrap();
    }
}

#[test]
fn retry_after_delays_the_next_call() {
    let fixture = fixture(vec![], |set| set);
    fixture.server.respond_with(429, &[("retry-after", "5")]);
    let response = fixture.call().expect_ready().unwrap();
    assert_eq!(response.status(), 429, "the response is passed on unchanged");
    let mut waiting = [fixture.call().expect_pending(), fixture.call().expect_pending()];
    assert_eq!(fixture.outgoing.state()[0].blocked_for, Some(Duration::from_secs(5)));
    fixture.advance(4.999);
    assert!(poll_woken(&mut waiting).is_empty());
    fixture.advance(0.001);
    assert_eq!(poll_woken(&mut waiting).len(), 2);
    assert_eq!(fixture.server.reached(), [0, 5_000, 5_000]);
    let counts = fixture.outgoing.counts();
    assert_eq!((counts.sent, counts.delayed, counts.hold_responses), (3, 2, 1));
    assert_eq!(fixture.clock.pending_timers(), 0);
}

#[test]
fn a_call_that_would_wait_too_long_is_refused_at_once() {
    let fixture = fixture(vec![], |set| set.max_wait(Duration::from_secs(4)));
    fixture.server.respond_with(503, &[("retry-after", "5")]);
    fixture.call().expect_ready().unwrap();
    let refused = limited(fixture.call().expect_ready());
    assert_eq!((&refused.by, refused.retry_after()), (&LimitedBy::RetryAfter, Some(Duration::from_secs(5))));
    assert_eq!(refused.to_string(), "call to bank not made: the server sent Retry-After: try again in 5s");
    fixture.advance(1.0);
    fixture.call().expect_pending();
    assert_eq!(fixture.outgoing.counts().refused_by_server, 1);
}

#[test]
fn a_hold_is_jittered_upward() {
    let fixture = fixture(vec![], |set| set.jitter(|hold| hold / 4));
    fixture.server.respond_with(429, &[("retry-after", "4")]);
    fixture.call().expect_ready().unwrap();
    let mut waiting = [fixture.call().expect_pending()];
    fixture.advance(4.999);
    assert!(poll_woken(&mut waiting).is_empty());
    fixture.advance(0.001);
    assert_eq!(poll_woken(&mut waiting).len(), 1);
}

#[test]
fn a_hold_is_capped() {
    let fixture = fixture(vec![], |set| set.max_hold(Duration::from_secs(30)));
    fixture.server.respond_with(429, &[("retry-after", "99999999999999999999")]);
    fixture.call().expect_ready().unwrap();
    let mut waiting = [fixture.call().expect_pending()];
    fixture.advance(30.0);
    assert_eq!(poll_woken(&mut waiting).len(), 1);
}

#[test]
fn a_budget_is_never_spent_twice() {
    let fixture = fixture(vec![], |set| set);
    let respond = |left: &str| {
        let headers = [("ratelimit-limit", "3"), ("ratelimit-remaining", left), ("ratelimit-reset", "10")];
        fixture.server.respond_with(200, &headers);
    };
    respond("3");
    fixture.call().expect_ready().unwrap();
    ["2", "1", "0", "2", "1", "0"].into_iter().for_each(respond);
    let mut tasks: Vec<PolledCall> = (0..10).map(|_| fixture.call()).collect();
    let at_once: Vec<bool> = tasks.iter_mut().map(|task| task.poll().is_ready()).collect();
    assert_eq!(at_once.iter().filter(|ready| **ready).count(), 3, "{at_once:?}");
    assert_eq!(fixture.outgoing.state()[0].remaining, Some((0, Duration::from_secs(10))));
    fixture.advance(10.0);
    let sent: Vec<usize> = poll_woken(&mut tasks).into_iter().map(|(task, _)| task).collect();
    assert_eq!(sent, [3, 4, 5], "first in, first out, and no more than the quota");
    fixture.advance(10.0);
    assert_eq!(poll_woken(&mut tasks)[0].0, 6);
}

#[test]
fn an_even_pace_spreads_what_remains() {
    let fixture = fixture(vec![], |set| set.pace(Pace::Evenly));
    fixture.server.respond_with(200, &[("ratelimit", "\"a\";r=4;t=10")]);
    fixture.call().expect_ready().unwrap();
    // The responses carry no further hints, so the first one stays valid.
    let mut tasks: Vec<PolledCall> = (0..4).map(|_| fixture.call().expect_pending()).collect();
    for _ in 0..4 {
        fixture.advance(2.0);
        poll_woken(&mut tasks);
    }
    assert_eq!(fixture.server.reached(), [0, 2_000, 4_000, 6_000, 8_000]);
}

#[test]
fn rules_count_calls_at_send_time() {
    // Fifty calls arrive during a hold; the rule admits five a second, also after it.
    let rule = queued(outbound("bank", Limit::token_bucket(Rate::per_second(5).unwrap(), 5).unwrap()), 60);
    let fixture = fixture(vec![rule], |set| set);
    fixture.server.respond_with(429, &[("retry-after", "10")]);
    fixture.call().expect_ready().unwrap();
    let mut tasks = Vec::new();
    for _ in 0..50 {
        fixture.advance(0.1);
        tasks.push(fixture.call().expect_pending());
    }
    for _ in 0..200 {
        fixture.advance(0.1);
        poll_woken(&mut tasks);
    }
    let reached = fixture.server.reached();
    assert_eq!(reached.len(), 51);
    assert_eq!(reached[1], 10_000);
    for (at, first) in reached.iter().enumerate() {
        let within = reached[at..].iter().filter(|later| **later <= first + 1_000).count();
        assert!(within <= 10, "{within} in the second from {first}: burst and rate allow 10");
    }
}

#[test]
fn a_hold_revokes_a_call_queued_by_a_rule() {
    let rule = queued(outbound("bank", Limit::token_bucket(Rate::per_second(1).unwrap(), 1).unwrap()), 10);
    let fixture = fixture(vec![rule], |set| set);
    fixture.server.respond_with(200, &[("ratelimit", "\"a\";r=5;t=60")]);
    fixture.call().expect_ready().unwrap();
    let mut queue = [fixture.call().expect_pending()];
    // Another call to the same destination, not limited by a rule, receives a hold.
    fixture.server.respond_with(429, &[("retry-after", "5")]);
    fixture.sluice.replace(vec![], Lists::default()).unwrap();
    fixture.call().expect_ready().unwrap();
    assert_eq!(fixture.remaining(), Some(3), "one sent, one about to be");
    fixture.advance(1.0);
    assert!(poll_woken(&mut queue).is_empty(), "the rule admits it, but Retry-After has not elapsed");
    assert_eq!(fixture.remaining(), Some(4), "what it was to take is there again");
    fixture.advance(4.0);
    assert_eq!(poll_woken(&mut queue).len(), 1);
    assert_eq!(fixture.server.reached(), [0, 0, 5_000]);
    assert_eq!((fixture.in_flight(), fixture.waiting(), fixture.clock.pending_timers()), (0, 0, 0));
}

#[test]
fn a_refusal_by_a_rule_spends_no_budget() {
    let fixture = fixture(vec![outbound("bank", "1/1m".parse().unwrap())], |set| set);
    fixture.server.respond_with(200, &[("ratelimit", "\"a\";r=5;t=60")]);
    fixture.call().expect_ready().unwrap();
    for _ in 0..10 {
        limited(fixture.call().expect_ready());
    }
    assert_eq!(fixture.outgoing.state()[0].remaining, Some((5, Duration::from_secs(60))));
}

#[test]
fn dropping_a_waiting_call_leaves_nothing_behind() {
    let at_once = outbound("at-once", Limit::concurrency(2).unwrap());
    let paced = queued(outbound("paced", Limit::leaky_bucket(Rate::per_second(1).unwrap(), 5).unwrap()), 60);
    let fixture = fixture(vec![at_once, paced], |set| set);
    fixture.server.respond_with(200, &[("ratelimit", "\"a\";r=2;t=30")]);
    drop(fixture.call().expect_ready().unwrap());
    // One waits for the rule with a claimed part of the budget.
    let for_rule = fixture.call().expect_pending();
    assert_eq!(fixture.remaining(), Some(1));
    drop(for_rule);
    assert_eq!((fixture.remaining(), fixture.clock.pending_timers()), (Some(2), 0));
    // Others wait for the server.
    fixture.server.respond_with(429, &[("retry-after", "20")]);
    fixture.advance(1.0);
    drop(fixture.call().expect_ready().unwrap());
    let mut waiting: Vec<PolledCall> = (0..3).map(|_| fixture.call().expect_pending()).collect();
    assert_eq!((fixture.waiting(), fixture.clock.pending_timers()), (3, 3));
    // The first leaves, and the second is woken to take its position.
    drop(waiting.remove(0));
    assert!(waiting[0].is_woken() && !waiting[1].is_woken());
    waiting.clear();
    assert_eq!((fixture.waiting(), fixture.clock.pending_timers(), fixture.in_flight()), (0, 0, 0));
    fixture.advance(40.0);
    let first = fixture.call().expect_ready().unwrap();
    fixture.advance(1.0);
    drop((first, fixture.call().expect_ready().unwrap()));
}

#[test]
fn a_permit_is_held_until_the_body_has_been_read() {
    let fixture = fixture(vec![outbound("at-once", Limit::concurrency(1).unwrap())], |set| set);
    let mut body = fixture.call().expect_ready().unwrap().into_body();
    let refused = limited(fixture.call().expect_ready());
    assert_eq!((&refused.by, refused.retry_after()), (&LimitedBy::Rule("at-once".into()), None));
    assert!(refused.to_string().ends_with("try again when running calls have finished"));
    let polled = {
        let mut frame = std::pin::pin!(body.frame());
        frame.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    };
    let Poll::Ready(Some(Ok(frame))) = polled else { panic!("a frame") };
    assert_eq!(frame.into_data().unwrap(), "body");
    // The last byte has been read; no further poll or drop is needed.
    let response = fixture.call().expect_ready().unwrap();
    limited(fixture.call().expect_ready());
    drop(response);
    fixture.call().expect_ready().unwrap();
}

#[test]
fn an_empty_body_holds_nothing() {
    let fixture = fixture(vec![outbound("at-once", Limit::concurrency(1).unwrap())], |set| set);
    fixture.server.responses.lock().unwrap().push(Response::new(Full::default()));
    let _kept = fixture.call().expect_ready().unwrap();
    fixture.call().expect_ready().unwrap();
}

#[test]
fn a_call_that_fails_panics_or_is_dropped_in_flight_releases_its_permit() {
    let fixture = fixture(vec![outbound("at-once", Limit::concurrency(1).unwrap())], |set| set);
    let request = || Request::get("http://x/").body(()).unwrap();
    fixture.server.respond_with(200, &[("ratelimit", "\"a\";r=9;t=60")]);
    drop(fixture.call().expect_ready().unwrap());
    let mut context = Context::from_waker(Waker::noop());

    let failing =
        service_fn(|_: Request<()>| async { Err::<Response<Full<Bytes>>, _>(std::io::Error::other("broken")) });
    let mut call = fixture.outgoing.layer(failing).call(request());
    let Poll::Ready(Err(error)) = call.as_mut().poll(&mut context) else { panic!("an error") };
    assert!(error.downcast_ref::<std::io::Error>().is_some(), "the client's own error is handed on");

    let panicking = service_fn(|_: Request<()>| -> std::future::Ready<Result<Response<Full<Bytes>>, std::io::Error>> {
        panic!("on purpose")
    });
    let mut call = fixture.outgoing.layer(panicking).call(request());
    assert!(catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context).is_ready())).is_err());
    drop(call);

    let silent = service_fn(|_: Request<()>| std::future::pending::<Result<Response<Full<Bytes>>, std::io::Error>>());
    let mut call = fixture.outgoing.layer(silent).call(request());
    assert!(call.as_mut().poll(&mut context).is_pending());
    assert_eq!(fixture.in_flight(), 1);
    drop(call);

    assert_eq!(fixture.in_flight(), 0);
    assert_eq!(fixture.remaining(), Some(6), "each may have been counted by the server");
    fixture.call().expect_ready().unwrap();
}

#[test]
fn grpc_pushback_in_the_trailers_is_applied() {
    let fixture = fixture(vec![], |set| set);
    let inner = service_fn(|_: Request<()>| async {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", "8".parse().unwrap());
        trailers.insert("grpc-retry-pushback-ms", "1500".parse().unwrap());
        let frames = [http_body::Frame::data(Bytes::from("x")), http_body::Frame::trailers(trailers)];
        let body = StreamBody::new(futures_util::stream::iter(frames.map(Ok::<_, std::io::Error>)));
        Ok::<_, std::io::Error>(Response::new(body))
    });
    let mut call = fixture.outgoing.layer(inner).call(Request::new(()));
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(response)) = call.as_mut().poll(&mut context) else { panic!("a response") };
    assert_eq!(fixture.outgoing.state()[0].blocked_for, None);
    assert!(std::pin::pin!(response.into_body().collect()).poll(&mut context).is_ready());
    assert_eq!(fixture.outgoing.state()[0].blocked_for, Some(Duration::from_millis(1_500)));
}

#[test]
fn destinations_are_separated_by_service_or_by_host_and_port() {
    let clock = ManualClock::new();
    let sluice = Sluice::builder().clock(clock.clone()).build().unwrap();
    let outgoing = ClientLimit::builder(sluice.clone())
        .host("API.bank.example", "bank")
        .host("eu.bank.example", "bank")
        .service_by(|call| call.path.strip_prefix("/of/").map(str::to_owned))
        .build();
    let fixture = Fixture { server: Server::new(&clock), clock, outgoing, sluice };
    fixture.server.respond_with(429, &[("retry-after", "5")]);
    fixture.call_to("http://api.bank.example/").expect_ready().unwrap();
    fixture.call_to("https://eu.bank.example:8443/").expect_pending();
    fixture.call_to("http://elsewhere.example/of/bank").expect_pending();
    fixture.server.respond_with(429, &[("retry-after", "5")]);
    fixture.call_to("http://shop.example/").expect_ready().unwrap();
    fixture.call_to("http://SHOP.example:80/").expect_pending();
    fixture.call_to("https://shop.example/").expect_ready().unwrap();
    let names: Vec<String> = fixture.outgoing.state().into_iter().map(|state| state.name).collect();
    assert_eq!(names, ["bank", "shop.example:443", "shop.example:80"]);
}

#[test]
fn rules_can_use_custom_attributes() {
    let mut rule = outbound("per-account", "1/1m".parse().unwrap());
    rule.key = vec![Attribute::custom("account").into()];
    let fixture = fixture(vec![rule], |set| {
        set.attributes(|call, attributes| {
            attributes.insert(Attribute::custom("account"), call.path.trim_start_matches('/'));
        })
    });
    fixture.call_to("http://x/alice").expect_ready().unwrap();
    fixture.call_to("http://x/bob").expect_ready().unwrap();
    limited(fixture.call_to("http://x/alice").expect_ready());
}

#[test]
fn a_full_queue_refuses_calls() {
    let fixture = fixture(vec![], |set| set.max_waiting(2));
    fixture.server.respond_with(429, &[("retry-after", "5")]);
    fixture.call().expect_ready().unwrap();
    let _waiting = [fixture.call().expect_pending(), fixture.call().expect_pending()];
    let refused = limited(fixture.call().expect_ready());
    assert_eq!((refused.by.clone(), refused.retry_after()), (LimitedBy::QueueFull, Some(Duration::from_secs(5))));
}

#[test]
fn a_longer_hold_refuses_calls_past_their_deadline_at_once() {
    let fixture = fixture(vec![], |set| set);
    // In flight before the first hold; its response brings the second.
    let (sender, receiver) = tokio::sync::oneshot::channel::<Response<Full<Bytes>>>();
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let inner = service_fn(move |_: Request<()>| receiver.lock().unwrap().take().unwrap());
    let calling = fixture.outgoing.layer(inner).call(Request::new(()));
    let mut early = PolledCall { future: Some(calling), wake_counter: Arc::default() }.expect_pending();
    fixture.server.respond_with(429, &[("retry-after", "5")]);
    fixture.call().expect_ready().unwrap();
    let mut waiting = [fixture.call().expect_pending(), fixture.call().expect_pending()];
    sender.send(Response::builder().status(503).header("retry-after", "61").body(Full::default()).unwrap()).unwrap();
    assert!(early.is_woken() && early.poll().is_ready());
    let refused: Vec<Limited> = poll_woken(&mut waiting).into_iter().map(|(_, result)| limited(result)).collect();
    assert_eq!(refused.len(), 2);
    assert_eq!(refused[0].retry_after(), Some(Duration::from_secs(61)));
    assert_eq!((fixture.waiting(), fixture.clock.pending_timers()), (0, 0));
}

#[test]
fn an_overload_refusal_names_the_readings() {
    let mut guard = outbound("guard", "100/s".parse().unwrap());
    guard.adaptive = Some(Adaptive::Cpu(CpuGuard::default()));
    let fixture = fixture(vec![guard], |set| set);
    let gate = fixture.sluice.gates().remove(0).1;
    gate.set_limits(GateLimits {
        rate: Some(VariableRate { count: 1.0, window: Duration::from_secs(1) }),
        ..GateLimits::OPEN
    });
    let reason = "cpu 97% > 85%: at most 1 per 1s".to_owned();
    gate.set_notice(OverloadNotice { state: "limited", reason: reason.clone(), readings: Vec::new() });
    fixture.call().expect_ready().unwrap();
    let refused = limited(fixture.call().expect_ready());
    assert_eq!(refused.by, LimitedBy::Overload { rule: "guard".into(), reason });
    assert_eq!(
        refused.to_string(),
        "call to bank not made: limited by overload protection guard (cpu 97% > 85%: at most 1 per 1s): try again in 1020ms"
    );
}
