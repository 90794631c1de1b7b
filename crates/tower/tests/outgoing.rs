//! Outgoing calls against a client in memory, on a clock turned by hand: what is sent when, what is
//! refused, and that nothing is left behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

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
use sluicegate_engine::gate::{Height, Notice, Orders};
use sluicegate_engine::rule::{Adaptive, Attribute, CpuGuard, Lists, Queue, Rule, Side, Target};
use sluicegate_engine::{Limit, Rate, Sluice};
use sluicegate_tower::outgoing::{BoxError, Limited, LimitedBy, Outgoing, OutgoingBody, OutgoingBuilder, Pace};
use tower::{Layer, Service, service_fn};

type Answer = Response<OutgoingBody<Full<Bytes>>>;
type Calling = Pin<Box<dyn Future<Output = Result<Answer, BoxError>> + Send>>;

/// A future polled by hand, which knows whether it was woken.
struct Task {
    future: Option<Calling>,
    bell: Arc<Bell>,
}

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Task {
    fn poll(&mut self) -> Poll<Result<Answer, BoxError>> {
        self.bell.0.store(0, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.bell));
        let polled =
            self.future.as_mut().expect("polled after it was done").as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }

    fn is_woken(&self) -> bool {
        self.future.is_some() && self.bell.0.load(Ordering::SeqCst) > 0
    }

    fn now(mut self) -> Result<Answer, BoxError> {
        match self.poll() {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("it should have been decided at once"),
        }
    }

    fn waits(mut self) -> Self {
        assert!(self.poll().is_pending(), "it should have had to wait");
        self
    }
}

/// Polls whoever is woken until nobody is; answers who is done, in order.
fn run(tasks: &mut [Task]) -> Vec<(usize, Result<Answer, BoxError>)> {
    let mut done = Vec::new();
    // The last comes first, so that order of arrival is not kept by accident.
    while let Some(at) = tasks.iter().rposition(Task::is_woken) {
        if let Poll::Ready(result) = tasks[at].poll() {
            done.push((at, result));
        }
    }
    done
}

/// A server in memory: what it answers to each request, and what reached it when.
#[derive(Clone)]
struct Server {
    clock: ManualClock,
    reached: Arc<Mutex<Vec<Duration>>>,
    answers: Arc<Mutex<Vec<Response<Full<Bytes>>>>>,
}

impl Server {
    fn new(clock: &ManualClock) -> Self {
        Self { clock: clock.clone(), reached: Arc::default(), answers: Arc::default() }
    }

    /// Answers the next request like this; 200 without a word if nothing is left to say.
    fn says(&self, status: u16, headers: &[(&str, &str)]) {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        self.answers.lock().unwrap().insert(0, response.body(Full::from("body")).unwrap());
    }

    fn answer(&self) -> Response<Full<Bytes>> {
        self.reached.lock().unwrap().push(self.clock.now() - ManualClock::new().now());
        self.answers.lock().unwrap().pop().unwrap_or_else(|| Response::new(Full::from("body")))
    }

    /// When requests arrived, in milliseconds.
    fn reached(&self) -> Vec<u128> {
        self.reached.lock().unwrap().iter().map(Duration::as_millis).collect()
    }
}

struct World {
    clock: ManualClock,
    server: Server,
    outgoing: Outgoing,
    sluice: Sluice,
}

fn outbound(name: &str, limit: Limit) -> Rule {
    Rule { side: Side::Outbound, target: Target::parse("caller-of bank").unwrap(), ..Rule::new(name, [limit]) }
}

fn queued(mut rule: Rule, max_wait: u64) -> Rule {
    rule.on_limit.queue = Some(Queue { max_wait: Duration::from_secs(max_wait), max_waiting: 100 });
    rule
}

fn world(rules: Vec<Rule>, set: impl FnOnce(OutgoingBuilder) -> OutgoingBuilder) -> World {
    let clock = ManualClock::new();
    let sluice = rules.into_iter().fold(Sluice::builder().clock(clock.clone()), |sluice, rule| sluice.rule(rule));
    let sluice = sluice.build().unwrap();
    let builder = Outgoing::builder(sluice.clone()).service("bank").jitter(|_| Duration::ZERO);
    let outgoing = set(builder.max_wait(Duration::from_secs(60))).build();
    World { server: Server::new(&clock), clock, outgoing, sluice }
}

impl World {
    fn call(&self) -> Task {
        self.call_to("http://api.bank.example/pay")
    }

    fn call_to(&self, uri: &str) -> Task {
        let server = self.server.clone();
        let inner = service_fn(move |_: Request<()>| {
            let answer = server.answer();
            async move { Ok::<_, std::io::Error>(answer) }
        });
        let request = Request::get(uri).body(()).unwrap();
        Task { future: Some(self.outgoing.layer(inner).call(request)), bell: Arc::default() }
    }

    fn after(&self, seconds: f64) {
        self.clock.advance(Duration::from_secs_f64(seconds));
    }

    fn in_flight(&self) -> u64 {
        self.outgoing.state().iter().map(|state| state.in_flight).sum()
    }

    fn waiting(&self) -> usize {
        self.outgoing.state().iter().map(|state| state.waiting).sum()
    }

    /// What may still be sent to the only destination.
    fn left(&self) -> Option<u64> {
        self.outgoing.state()[0].left.map(|(left, _)| left)
    }
}

fn limited(result: Result<Answer, BoxError>) -> Limited {
    Limited::find(&*result.expect_err("it should have been refused")).expect("Limited").clone()
}

#[test]
fn a_rule_refuses_and_says_which_and_how_long() {
    let world = world(vec![outbound("bank-calls", "1/s".parse().unwrap())], |set| set);
    world.call().now().unwrap();
    let refused = limited(world.call().now());
    assert_eq!(refused.by, LimitedBy::Rule("bank-calls".into()));
    assert_eq!(&*refused.destination, "bank");
    let text = refused.to_string();
    assert!(text.starts_with("call to bank not made: over the limit of rule bank-calls: try again in "), "{text}");
    let wait = refused.retry_after().unwrap();
    world.clock.advance(wait - Duration::from_nanos(1));
    assert!(world.call().now().is_err());
    world.clock.advance(Duration::from_nanos(1));
    world.call().now().unwrap();
    let counts = world.outgoing.counts();
    assert_eq!((counts.sent, counts.refused_by_rules, counts.refused_by_advice), (2, 2, 0));
}

/// Another spelling of host or path must not lead around a rule.
#[test]
fn a_rule_meets_every_spelling_of_host_and_path() {
    for (target, first, second) in [
        ("caller-of api.shop.example", "http://api.shop.example/", "http://API.Shop.Example./"),
        ("caller-of port", "http://ported.example:81/", "http://Ported.example.:81/"),
        ("caller-of dotted", "http://dotted.example/", "https://dotted.example./"),
        ("caller-of a /caf\u{e9}", "http://a/caf%C3%A9", "http://a//x/../caf%c3%a9"),
    ] {
        let rule = Rule { target: Target::parse(target).unwrap(), ..outbound("spelled", "1/1h".parse().unwrap()) };
        let clock = ManualClock::new();
        let sluice = Sluice::builder().clock(clock.clone()).rule(rule).build().unwrap();
        let outgoing =
            Outgoing::builder(sluice.clone()).host("ported.example:81", "port").host("Dotted.example.", "dotted");
        let world = World { server: Server::new(&clock), clock, outgoing: outgoing.build(), sluice };
        world.call_to(first).now().unwrap();
        assert_eq!(limited(world.call_to(second).now()).by, LimitedBy::Rule("spelled".into()), "{target}");
    }
}

/// A server that is broken or hostile names a hold without end: chance must not stretch it either.
#[test]
fn more_by_chance_is_more_of_the_hold_that_counts() {
    let set = |set: OutgoingBuilder| set.longest_hold(Duration::from_secs(100)).jitter(|hold| hold * 2);
    let world = world(Vec::new(), set);
    world.server.says(429, &[("retry-after", "18446744073709551615")]);
    world.call().now().unwrap();
    assert_eq!(world.outgoing.state()[0].held_for, Some(Duration::from_secs(300)));
}

/// Calls to `/pay` one every so many seconds; all others freely.
fn paced(seconds: u64) -> Rule {
    let leaky = Limit::leaky_bucket(Rate::new(1, Duration::from_secs(seconds)).unwrap(), 15).unwrap();
    let rule = queued(outbound("paced", leaky), 60);
    Rule { target: Target::parse("caller-of bank /pay").unwrap(), ..rule }
}

/// Whoever is called back after its turn was there before those in line, however full that is.
#[test]
fn a_call_that_is_called_back_finds_its_place_in_a_full_line() {
    let world = world(vec![paced(1)], |set| set.max_waiting(1));
    world.call().now().unwrap();
    let called_back = world.call().waits();
    world.server.says(429, &[("retry-after", "5")]);
    world.call_to("http://api.bank.example/other").now().unwrap();
    let in_line = world.call_to("http://api.bank.example/other").waits();
    assert_eq!(limited(world.call().now()).by, LimitedBy::LineFull);
    world.after(1.0);
    let tasks = &mut [called_back, in_line];
    assert!(run(tasks).is_empty(), "both wait");
    world.after(4.0);
    assert_eq!(run(tasks).iter().filter(|(_, result)| result.is_ok()).count(), 2);
}

/// How long a call waits for a rule is the rule's to say, and nothing that the server must answer for.
#[test]
fn time_spent_on_a_rule_is_no_waiting_for_the_server() {
    let world = world(vec![paced(5)], |set| set.max_wait(Duration::from_secs(6)));
    world.call().now().unwrap();
    let tasks = &mut [world.call().waits()];
    world.after(4.0);
    world.server.says(429, &[("retry-after", "6")]);
    world.call_to("http://api.bank.example/other").now().unwrap();
    world.after(1.0);
    assert!(run(tasks).is_empty(), "its turn has come, the server has not");
    world.after(5.0);
    assert!(run(tasks)[0].1.is_ok());
}

/// A client that is busy until told otherwise.
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
        std::future::ready(Ok(self.server.answer()))
    }
}

/// The client beneath may keep a call waiting, a pool or a concurrency limit, say. What the server asks for
/// meanwhile counts for that call too, and until it is sent it has spent nothing.
#[test]
fn a_call_for_which_the_client_was_not_ready_is_held_too() {
    let world = world(vec![outbound("bank-calls", "2/1h".parse().unwrap())], |set| set);
    let busy = Busy { server: world.server.clone(), is_free: Arc::default() };
    let call = || {
        let request = Request::get("http://api.bank.example/pay").body(()).unwrap();
        Task { future: Some(world.outgoing.layer(busy.clone()).call(request)), bell: Arc::default() }
    };
    drop(call().waits());
    let mut waiting = call().waits();
    world.server.says(429, &[("retry-after", "5")]);
    assert_eq!(world.call().now().unwrap().status(), 429);
    busy.is_free.store(1, Ordering::SeqCst);
    assert!(waiting.poll().is_pending());
    assert_eq!((world.server.reached().len(), world.waiting()), (1, 1));
    world.after(5.0);
    assert!(waiting.poll().is_ready());
    assert_eq!(world.server.reached(), [0, 5_000]);
    assert_eq!(world.outgoing.counts().sent, 2);
}

#[test]
fn a_leaky_bucket_paces_calls() {
    let leaky = Limit::leaky_bucket(Rate::per_second(5).unwrap(), 15).unwrap();
    let world = world(vec![queued(outbound("bank", leaky), 10)], |set| set);
    world.call().now().unwrap();
    let mut tasks: Vec<Task> = (0..4).map(|_| world.call().waits()).collect();
    for _ in 0..4 {
        world.after(0.2);
        run(&mut tasks);
    }
    assert_eq!(world.server.reached(), [0, 200, 400, 600, 800]);
    assert_eq!((world.outgoing.counts().queued, world.clock.alarms()), (4, 0));
}

#[test]
fn rules_for_another_service_or_side_do_not_apply() {
    let mut inbound = outbound("inbound", "1/1h".parse().unwrap());
    inbound.side = Side::Inbound;
    let mut other = outbound("other", "1/1h".parse().unwrap());
    other.target = Target::parse("caller-of shop").unwrap();
    let world = world(vec![inbound, other], |set| set);
    for _ in 0..3 {
        world.call().now().unwrap();
    }
}

#[test]
fn retry_after_holds_the_next_call_until_its_moment() {
    let world = world(vec![], |set| set);
    world.server.says(429, &[("retry-after", "5")]);
    let answer = world.call().now().unwrap();
    assert_eq!(answer.status(), 429, "the answer is handed on as it is");
    let mut waiting = [world.call().waits(), world.call().waits()];
    assert_eq!(world.outgoing.state()[0].held_for, Some(Duration::from_secs(5)));
    world.after(4.999);
    assert!(run(&mut waiting).is_empty());
    world.after(0.001);
    assert_eq!(run(&mut waiting).len(), 2);
    assert_eq!(world.server.reached(), [0, 5_000, 5_000]);
    let counts = world.outgoing.counts();
    assert_eq!((counts.sent, counts.held, counts.holds), (3, 2, 1));
    assert_eq!(world.clock.alarms(), 0);
}

#[test]
fn who_would_wait_too_long_is_told_at_once_and_exactly() {
    let world = world(vec![], |set| set.max_wait(Duration::from_secs(4)));
    world.server.says(503, &[("retry-after", "5")]);
    world.call().now().unwrap();
    let refused = limited(world.call().now());
    assert_eq!((&refused.by, refused.retry_after()), (&LimitedBy::RetryAfter, Some(Duration::from_secs(5))));
    assert_eq!(refused.to_string(), "call to bank not made: the server asked not to be called: try again in 5s");
    world.after(1.0);
    world.call().waits();
    assert_eq!(world.outgoing.counts().refused_by_advice, 1);
}

#[test]
fn a_hold_is_jittered_upward() {
    let world = world(vec![], |set| set.jitter(|hold| hold / 4));
    world.server.says(429, &[("retry-after", "4")]);
    world.call().now().unwrap();
    let mut waiting = [world.call().waits()];
    world.after(4.999);
    assert!(run(&mut waiting).is_empty());
    world.after(0.001);
    assert_eq!(run(&mut waiting).len(), 1);
}

#[test]
fn no_server_silences_us_for_ever() {
    let world = world(vec![], |set| set.longest_hold(Duration::from_secs(30)));
    world.server.says(429, &[("retry-after", "99999999999999999999")]);
    world.call().now().unwrap();
    let mut waiting = [world.call().waits()];
    world.after(30.0);
    assert_eq!(run(&mut waiting).len(), 1);
}

#[test]
fn a_budget_is_spent_once_by_however_many_and_then_in_the_next_window() {
    let world = world(vec![], |set| set);
    let says = |left: &str| {
        let headers = [("ratelimit-limit", "3"), ("ratelimit-remaining", left), ("ratelimit-reset", "10")];
        world.server.says(200, &headers);
    };
    says("3");
    world.call().now().unwrap();
    ["2", "1", "0", "2", "1", "0"].into_iter().for_each(says);
    let mut tasks: Vec<Task> = (0..10).map(|_| world.call()).collect();
    let at_once: Vec<bool> = tasks.iter_mut().map(|task| task.poll().is_ready()).collect();
    assert_eq!(at_once.iter().filter(|ready| **ready).count(), 3, "{at_once:?}");
    assert_eq!(world.outgoing.state()[0].left, Some((0, Duration::from_secs(10))));
    world.after(10.0);
    let went: Vec<usize> = run(&mut tasks).into_iter().map(|(task, _)| task).collect();
    assert_eq!(went, [3, 4, 5], "first in, first out, and no more than the quota");
    world.after(10.0);
    assert_eq!(run(&mut tasks)[0].0, 6);
}

#[test]
fn an_even_pace_spreads_what_remains() {
    let world = world(vec![], |set| set.pace(Pace::Evenly));
    world.server.says(200, &[("ratelimit", "\"a\";r=4;t=10")]);
    world.call().now().unwrap();
    // The answers say nothing more, so what was said first goes on to count.
    let mut tasks: Vec<Task> = (0..4).map(|_| world.call().waits()).collect();
    for _ in 0..4 {
        world.after(2.0);
        run(&mut tasks);
    }
    assert_eq!(world.server.reached(), [0, 2_000, 4_000, 6_000, 8_000]);
}

#[test]
fn rules_see_calls_when_they_go_and_not_when_they_came() {
    // Fifty calls come during a hold; the rule lets five a second go, also after it.
    let rule = queued(outbound("bank", Limit::token_bucket(Rate::per_second(5).unwrap(), 5).unwrap()), 60);
    let world = world(vec![rule], |set| set);
    world.server.says(429, &[("retry-after", "10")]);
    world.call().now().unwrap();
    let mut tasks = Vec::new();
    for _ in 0..50 {
        world.after(0.1);
        tasks.push(world.call().waits());
    }
    for _ in 0..200 {
        world.after(0.1);
        run(&mut tasks);
    }
    let reached = world.server.reached();
    assert_eq!(reached.len(), 51);
    assert_eq!(reached[1], 10_000);
    for (at, first) in reached.iter().enumerate() {
        let within = reached[at..].iter().filter(|later| **later <= first + 1_000).count();
        assert!(within <= 10, "{within} in the second from {first}: burst and rate allow 10");
    }
}

#[test]
fn a_call_that_waits_for_a_rule_is_called_back_if_the_server_asks_for_peace_meanwhile() {
    let rule = queued(outbound("bank", Limit::token_bucket(Rate::per_second(1).unwrap(), 1).unwrap()), 10);
    let world = world(vec![rule], |set| set);
    world.server.says(200, &[("ratelimit", "\"a\";r=5;t=60")]);
    world.call().now().unwrap();
    let mut queue = [world.call().waits()];
    // Another call to the same destination, which no rule holds, hears that it wants peace.
    world.server.says(429, &[("retry-after", "5")]);
    world.sluice.replace(vec![], Lists::default()).unwrap();
    world.call().now().unwrap();
    assert_eq!(world.left(), Some(3), "one sent, one about to be");
    world.after(1.0);
    assert!(run(&mut queue).is_empty(), "its turn by the rule has come, but the server wants peace");
    assert_eq!(world.left(), Some(4), "what it was to take is there again");
    world.after(4.0);
    assert_eq!(run(&mut queue).len(), 1);
    assert_eq!(world.server.reached(), [0, 0, 5_000]);
    assert_eq!((world.in_flight(), world.waiting(), world.clock.alarms()), (0, 0, 0));
}

#[test]
fn a_refusal_by_a_rule_takes_nothing_of_the_budget() {
    let world = world(vec![outbound("bank", "1/1m".parse().unwrap())], |set| set);
    world.server.says(200, &[("ratelimit", "\"a\";r=5;t=60")]);
    world.call().now().unwrap();
    for _ in 0..10 {
        limited(world.call().now());
    }
    assert_eq!(world.outgoing.state()[0].left, Some((5, Duration::from_secs(60))));
}

#[test]
fn dropping_a_waiting_call_leaves_nothing_behind() {
    let at_once = outbound("at-once", Limit::concurrency(2).unwrap());
    let paced = queued(outbound("paced", Limit::leaky_bucket(Rate::per_second(1).unwrap(), 5).unwrap()), 60);
    let world = world(vec![at_once, paced], |set| set);
    world.server.says(200, &[("ratelimit", "\"a\";r=2;t=30")]);
    drop(world.call().now().unwrap());
    // One waits for the rule with a part of the budget in hand.
    let for_rule = world.call().waits();
    assert_eq!(world.left(), Some(1));
    drop(for_rule);
    assert_eq!((world.left(), world.clock.alarms()), (Some(2), 0));
    // Others wait for the server.
    world.server.says(429, &[("retry-after", "20")]);
    world.after(1.0);
    drop(world.call().now().unwrap());
    let mut waiting: Vec<Task> = (0..3).map(|_| world.call().waits()).collect();
    assert_eq!((world.waiting(), world.clock.alarms()), (3, 3));
    // The first leaves, and the second is woken to take its place.
    drop(waiting.remove(0));
    assert!(waiting[0].is_woken() && !waiting[1].is_woken());
    waiting.clear();
    assert_eq!((world.waiting(), world.clock.alarms(), world.in_flight()), (0, 0, 0));
    world.after(40.0);
    let first = world.call().now().unwrap();
    world.after(1.0);
    drop((first, world.call().now().unwrap()));
}

#[test]
fn a_permit_is_held_until_the_body_has_been_read() {
    let world = world(vec![outbound("at-once", Limit::concurrency(1).unwrap())], |set| set);
    let mut body = world.call().now().unwrap().into_body();
    let refused = limited(world.call().now());
    assert_eq!((&refused.by, refused.retry_after()), (&LimitedBy::Rule("at-once".into()), None));
    assert!(refused.to_string().ends_with("try again when others have finished"));
    let polled = {
        let mut frame = std::pin::pin!(body.frame());
        frame.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    };
    let Poll::Ready(Some(Ok(frame))) = polled else { panic!("a frame") };
    assert_eq!(frame.into_data().unwrap(), "body");
    // The last byte has been read; nobody need ask for more, or drop it.
    let answer = world.call().now().unwrap();
    limited(world.call().now());
    drop(answer);
    world.call().now().unwrap();
}

#[test]
fn an_empty_body_holds_nothing() {
    let world = world(vec![outbound("at-once", Limit::concurrency(1).unwrap())], |set| set);
    world.server.answers.lock().unwrap().push(Response::new(Full::default()));
    let _kept = world.call().now().unwrap();
    world.call().now().unwrap();
}

#[test]
fn a_call_that_fails_panics_or_is_dropped_under_way_gives_back() {
    let world = world(vec![outbound("at-once", Limit::concurrency(1).unwrap())], |set| set);
    let request = || Request::get("http://x/").body(()).unwrap();
    world.server.says(200, &[("ratelimit", "\"a\";r=9;t=60")]);
    drop(world.call().now().unwrap());
    let mut context = Context::from_waker(Waker::noop());

    let failing =
        service_fn(|_: Request<()>| async { Err::<Response<Full<Bytes>>, _>(std::io::Error::other("broken")) });
    let mut call = world.outgoing.layer(failing).call(request());
    let Poll::Ready(Err(error)) = call.as_mut().poll(&mut context) else { panic!("an error") };
    assert!(error.downcast_ref::<std::io::Error>().is_some(), "the client's own error is handed on");

    let panicking = service_fn(|_: Request<()>| -> std::future::Ready<Result<Response<Full<Bytes>>, std::io::Error>> {
        panic!("on purpose")
    });
    let mut call = world.outgoing.layer(panicking).call(request());
    assert!(catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context).is_ready())).is_err());
    drop(call);

    let silent = service_fn(|_: Request<()>| std::future::pending::<Result<Response<Full<Bytes>>, std::io::Error>>());
    let mut call = world.outgoing.layer(silent).call(request());
    assert!(call.as_mut().poll(&mut context).is_pending());
    assert_eq!(world.in_flight(), 1);
    drop(call);

    assert_eq!(world.in_flight(), 0);
    assert_eq!(world.left(), Some(6), "each may have been counted by the server");
    world.call().now().unwrap();
}

#[test]
fn grpc_pushback_in_the_trailers_is_heard() {
    let world = world(vec![], |set| set);
    let inner = service_fn(|_: Request<()>| async {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", "8".parse().unwrap());
        trailers.insert("grpc-retry-pushback-ms", "1500".parse().unwrap());
        let frames = [http_body::Frame::data(Bytes::from("x")), http_body::Frame::trailers(trailers)];
        let body = StreamBody::new(futures_util::stream::iter(frames.map(Ok::<_, std::io::Error>)));
        Ok::<_, std::io::Error>(Response::new(body))
    });
    let mut call = world.outgoing.layer(inner).call(Request::new(()));
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(answer)) = call.as_mut().poll(&mut context) else { panic!("an answer") };
    assert_eq!(world.outgoing.state()[0].held_for, None);
    assert!(std::pin::pin!(answer.into_body().collect()).poll(&mut context).is_ready());
    assert_eq!(world.outgoing.state()[0].held_for, Some(Duration::from_millis(1_500)));
}

#[test]
fn destinations_are_held_apart_by_service_or_by_host_and_port() {
    let clock = ManualClock::new();
    let sluice = Sluice::builder().clock(clock.clone()).build().unwrap();
    let outgoing = Outgoing::builder(sluice.clone())
        .host("API.bank.example", "bank")
        .host("eu.bank.example", "bank")
        .service_by(|call| call.path.strip_prefix("/of/").map(str::to_owned))
        .build();
    let world = World { server: Server::new(&clock), clock, outgoing, sluice };
    world.server.says(429, &[("retry-after", "5")]);
    world.call_to("http://api.bank.example/").now().unwrap();
    world.call_to("https://eu.bank.example:8443/").waits();
    world.call_to("http://elsewhere.example/of/bank").waits();
    world.server.says(429, &[("retry-after", "5")]);
    world.call_to("http://shop.example/").now().unwrap();
    world.call_to("http://SHOP.example:80/").waits();
    world.call_to("https://shop.example/").now().unwrap();
    let names: Vec<String> = world.outgoing.state().into_iter().map(|state| state.name).collect();
    assert_eq!(names, ["bank", "shop.example:443", "shop.example:80"]);
}

#[test]
fn rules_can_ask_for_what_the_program_knows() {
    let mut rule = outbound("per-account", "1/1m".parse().unwrap());
    rule.key = vec![Attribute::custom("account").into()];
    let world = world(vec![rule], |set| {
        set.attributes(|call, attributes| {
            attributes.insert(Attribute::custom("account"), call.path.trim_start_matches('/'));
        })
    });
    world.call_to("http://x/alice").now().unwrap();
    world.call_to("http://x/bob").now().unwrap();
    limited(world.call_to("http://x/alice").now());
}

#[test]
fn too_many_in_line_are_told_so() {
    let world = world(vec![], |set| set.max_waiting(2));
    world.server.says(429, &[("retry-after", "5")]);
    world.call().now().unwrap();
    let _waiting = [world.call().waits(), world.call().waits()];
    let refused = limited(world.call().now());
    assert_eq!((refused.by.clone(), refused.retry_after()), (LimitedBy::LineFull, Some(Duration::from_secs(5))));
}

#[test]
fn a_longer_hold_tells_those_without_hope_at_once() {
    let world = world(vec![], |set| set);
    // Under way before the first hold; its answer brings the second.
    let (sender, receiver) = tokio::sync::oneshot::channel::<Response<Full<Bytes>>>();
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let inner = service_fn(move |_: Request<()>| receiver.lock().unwrap().take().unwrap());
    let calling = world.outgoing.layer(inner).call(Request::new(()));
    let mut early = Task { future: Some(calling), bell: Arc::default() }.waits();
    world.server.says(429, &[("retry-after", "5")]);
    world.call().now().unwrap();
    let mut waiting = [world.call().waits(), world.call().waits()];
    sender.send(Response::builder().status(503).header("retry-after", "61").body(Full::default()).unwrap()).unwrap();
    assert!(early.is_woken() && early.poll().is_ready());
    let refused: Vec<Limited> = run(&mut waiting).into_iter().map(|(_, result)| limited(result)).collect();
    assert_eq!(refused.len(), 2);
    assert_eq!(refused[0].retry_after(), Some(Duration::from_secs(61)));
    assert_eq!((world.waiting(), world.clock.alarms()), (0, 0));
}

#[test]
fn a_rule_that_protects_this_process_says_which_readings_hold_calls_back() {
    let mut guard = outbound("guard", "100/s".parse().unwrap());
    guard.adaptive = Some(Adaptive::Cpu(CpuGuard::default()));
    let world = world(vec![guard], |set| set);
    let gate = world.sluice.gates().remove(0).1;
    gate.order(Orders { rate: Some(Height { count: 1.0, window: Duration::from_secs(1) }), ..Orders::OPEN });
    let reason = "cpu 97% > 85%: at most 1 per 1s".to_owned();
    gate.post(Notice { state: "limited", reason: reason.clone(), readings: Vec::new() });
    world.call().now().unwrap();
    let refused = limited(world.call().now());
    assert_eq!(refused.by, LimitedBy::Strain { rule: "guard".into(), reason });
    assert_eq!(
        refused.to_string(),
        "call to bank not made: rule guard holds calls back (cpu 97% > 85%: at most 1 per 1s): try again in 1020ms"
    );
}
