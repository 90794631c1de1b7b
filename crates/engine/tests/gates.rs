//! Overload gates of rules: refusals, queueing, slot release and measurements.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::overload::{Completion, Gate, GateLimits, OverloadNotice, QueueBounds, VariableRate};
use sluicegate_engine::rule::{Adaptive, Attribute, AttributeMap, Auto, Ban, Expr, Mode, Priority, Request, Rule};
use sluicegate_engine::sluice::{Admission, Cause};
use sluicegate_engine::{Limit, Outcome, Rate, Sluice, Verdict};

const SECOND: Duration = Duration::from_secs(1);

fn guard() -> Rule {
    let mut guard = Rule::new("guard", []);
    guard.adaptive = Some(Adaptive::Auto(Auto::default()));
    guard
}

fn class(name: &str, priority: Priority) -> Rule {
    let mut rule = Rule::new(name, ["1000000/s".parse().unwrap()]);
    rule.when = Some(Expr::parse(&format!("header['x-class'] == '{name}'")).unwrap());
    rule.priority = priority;
    rule
}

fn sluice(rules: impl IntoIterator<Item = Rule>) -> (Sluice, ManualClock) {
    let clock = ManualClock::new();
    let builder = Sluice::builder().clock(clock.clone());
    let builder = rules.into_iter().fold(builder, |builder, rule| builder.rule(rule));
    (builder.build().unwrap(), clock)
}

fn gate(sluice: &Sluice) -> Gate {
    sluice.gates().into_iter().find(|(rule, _)| rule.name == "guard").unwrap().1
}

const QUEUE_BOUNDS: QueueBounds =
    QueueBounds { max_wait: Duration::from_millis(100), target: Duration::from_millis(5), max_waiting: 2 };

fn concurrency_limit(max_in_flight: usize) -> GateLimits {
    GateLimits { max_in_flight: Some(max_in_flight), queue: QUEUE_BOUNDS, ..GateLimits::OPEN }
}

fn poll(admission: &mut Admission) -> Poll<Outcome> {
    Pin::new(admission).poll(&mut Context::from_waker(Waker::noop()))
}

fn ready(mut admission: Admission) -> Outcome {
    match poll(&mut admission) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("should not wait"),
    }
}

#[test]
fn a_full_gate_refuses_with_rule_and_reason_and_takes_nothing() {
    let (sluice, clock) = sluice([Rule::new("total", ["3/1m".parse().unwrap()]), guard()]);
    let gate = gate(&sluice);
    gate.set_limits(GateLimits { max_in_flight: Some(1), ..GateLimits::OPEN });
    gate.set_notice(OverloadNotice {
        state: "steady",
        reason: "median 90ms against 10ms".to_owned(),
        readings: Vec::new(),
    });
    let request = Request::new("GET", "/");

    let admitted_outcome = sluice.decide(&request);
    assert!(admitted_outcome.is_admitted() && admitted_outcome.holds_resources());
    for _ in 0..5 {
        let refused = sluice.decide(&request);
        assert_eq!(refused.cause(), Cause::Overload(1));
        assert_eq!(refused.verdict(), Verdict::Denied { retry_after: Some(SECOND) });
        assert_eq!(refused.rule().map(|rule| rule.name.as_str()), Some("guard"));
        assert_eq!(
            refused.overload_notice().map(|notice| notice.reason.clone()).as_deref(),
            Some("median 90ms against 10ms")
        );
    }
    clock.advance(Duration::from_millis(250));
    drop(admitted_outcome);
    // If the refused requests had kept any quota of the other rule, none would remain.
    drop(sluice.decide(&request));
    drop(sluice.decide(&request));
    assert_eq!(sluice.decide(&request).cause(), Cause::Limit(0));

    let counts = sluice.counts();
    assert_eq!((counts[1].admitted, counts[1].refused), (3, 5));
    assert_eq!((counts[0].admitted, counts[0].refused), (3, 1));
    let interval = gate.take_interval();
    assert_eq!(
        (interval.arrived, interval.refused, interval.completed, interval.failed),
        (8, 5, 3, 0),
        "requests over a limit do not reach the gate"
    );
    assert_eq!(interval.peak_in_flight, 1);
}

#[test]
fn a_queued_request_is_admitted_when_another_completes() {
    let (sluice, clock) = sluice([guard()]);
    let gate = gate(&sluice);
    gate.set_limits(concurrency_limit(1));
    let request = Request::new("GET", "/");
    let admitted_outcome = ready(sluice.admit(&request));
    let mut waits = sluice.admit(&request);
    assert!(waits.decided().is_none() && poll(&mut waits).is_pending());
    assert_eq!((gate.waiting(), sluice.counts()[0].waiting), (1, 1));
    clock.advance(Duration::from_millis(40));
    drop(admitted_outcome);
    let Poll::Ready(entered) = poll(&mut waits) else { panic!("a slot is free") };
    assert!(entered.is_admitted());
    assert_eq!((gate.in_flight(), gate.waiting()), (1, 0));
    clock.advance(Duration::from_millis(10));
    drop(entered);
    // Response times exclude the time in the queue.
    let average = gate.take_interval().average.unwrap();
    assert!((average - 0.025).abs() < 1e-6, "{average}");
    let counts = &sluice.counts()[0];
    assert_eq!(
        (counts.admitted, counts.refused, counts.waited, counts.waits.sum),
        (2, 0, 1, Duration::from_millis(40))
    );
}

#[test]
fn queue_waits_are_bounded_and_a_full_queue_refuses() {
    let (sluice, clock) = sluice([guard()]);
    gate(&sluice).set_limits(concurrency_limit(1));
    let request = Request::new("GET", "/");
    let _admitted = ready(sluice.admit(&request));
    let mut waiting = [sluice.admit(&request), sluice.admit(&request)];
    assert!(waiting.iter_mut().all(|it| poll(it).is_pending()));
    assert_eq!(ready(sluice.admit(&request)).cause(), Cause::Overload(0));
    clock.advance(Duration::from_millis(101));
    for waiter in &mut waiting {
        let Poll::Ready(refused) = poll(waiter) else { panic!("the maximum wait has passed") };
        assert_eq!(refused.cause(), Cause::Overload(0));
    }
    assert_eq!(sluice.counts()[0].refused, 3);
}

#[test]
fn a_cancelled_wait_leaks_nothing() {
    let (sluice, clock) = sluice([Rule::new("total", ["3/1m".parse().unwrap()]), guard()]);
    let gate = gate(&sluice);
    gate.set_limits(concurrency_limit(1));
    let request = Request::new("GET", "/");
    let admitted_outcome = ready(sluice.admit(&request));
    let mut waits = sluice.admit(&request);
    assert!(poll(&mut waits).is_pending());
    drop(waits);
    assert_eq!(gate.waiting(), 0);
    // Request that was woken but never polled again.
    let mut called = sluice.admit(&request);
    assert!(poll(&mut called).is_pending());
    clock.advance(Duration::from_millis(1));
    drop(admitted_outcome);
    assert_eq!(gate.in_flight(), 1);
    drop(called);
    assert_eq!(gate.in_flight(), 0);
    drop(ready(sluice.admit(&request)));
    drop(ready(sluice.admit(&request)));
    assert_eq!(ready(sluice.admit(&request)).cause(), Cause::Limit(0), "both returned their charges");
}

#[test]
fn the_highest_priority_is_admitted_first_and_the_lowest_is_shed() {
    let rules = [guard(), class("vip", Priority::Vip), class("job", Priority::Background)];
    let (sluice, _clock) = sluice(rules);
    gate(&sluice).set_limits(concurrency_limit(1));
    let headers =
        |name: &'static str| AttributeMap::from_iter([("header['x-class']".parse().unwrap(), name.to_owned())]);
    let (vip, job, other) = (headers("vip"), headers("job"), headers("other"));
    fn from(map: &AttributeMap) -> Request<'_> {
        Request::new("GET", "/").with_attributes(map)
    }
    let admitted_outcome = ready(sluice.admit(&from(&other)));
    let mut job_waits = sluice.admit(&from(&job));
    let mut other_waits = sluice.admit(&from(&other));
    assert!(poll(&mut job_waits).is_pending() && poll(&mut other_waits).is_pending());
    let mut vip_waits = sluice.admit(&from(&vip));
    let Poll::Ready(refused) = poll(&mut job_waits) else { panic!("must be evicted") };
    assert_eq!(refused.cause(), Cause::Overload(0));
    assert!(poll(&mut vip_waits).is_pending());
    drop(admitted_outcome);
    assert!(poll(&mut other_waits).is_pending());
    assert!(poll(&mut vip_waits).is_ready());
}

#[test]
fn a_gate_rate_covers_all_requests_of_the_rule() {
    let (sluice, clock) = sluice([guard()]);
    gate(&sluice)
        .set_limits(GateLimits { rate: Some(VariableRate { count: 100.0, window: SECOND }), ..GateLimits::OPEN });
    let request = Request::new("GET", "/");
    let mut admitted = 0;
    for millis in 0..10_000 {
        let outcome = if millis % 2 == 0 { sluice.decide(&request) } else { ready(sluice.decide_async(&request)) };
        admitted += usize::from(outcome.is_admitted());
        clock.advance(Duration::from_millis(1));
    }
    assert!((950..=1_000).contains(&admitted), "{admitted}");
}

#[test]
fn decide_async_takes_no_gate_slot() {
    let (sluice, _clock) = sluice([guard()]);
    let gate = gate(&sluice);
    gate.set_limits(concurrency_limit(0));
    let request = Request::new("GET", "/");
    assert!(ready(sluice.decide_async(&request)).is_admitted());
    assert_eq!(sluice.decide(&request).cause(), Cause::Overload(0));
    assert_eq!(gate.in_flight(), 0);
}

#[test]
fn a_shadow_rule_counts_and_refuses_nothing() {
    let mut shadow = guard();
    shadow.mode = Mode::Shadow;
    let (sluice, _clock) = sluice([shadow]);
    let gate = gate(&sluice);
    gate.set_limits(concurrency_limit(1));
    let request = Request::new("GET", "/");
    let held: Vec<Outcome> = (0..3).map(|_| sluice.decide(&request)).collect();
    assert!(held.iter().all(Outcome::is_admitted));
    assert_eq!(held.iter().map(|outcome| outcome.would_refuse().count()).sum::<usize>(), 2);
    assert_eq!(ready(sluice.admit(&request)).would_refuse().count(), 1);
    assert_eq!(gate.in_flight(), 3);
    let counts = &sluice.counts()[0];
    assert_eq!((counts.admitted, counts.refused), (1, 3));
}

#[test]
fn measurements_depend_on_the_completion() {
    let (sluice, clock) = sluice([guard()]);
    let gate = gate(&sluice);
    let request = Request::new("GET", "/");
    let mut succeeded = sluice.decide(&request);
    let mut fails = sluice.decide(&request);
    let given_back = sluice.decide(&request);
    clock.advance(Duration::from_millis(20));
    succeeded.record(Completion::Ok);
    fails.record(Completion::Failed);
    drop(fails);
    given_back.give_back();
    // A slow-reading client keeps its slot but is not measured.
    clock.advance(Duration::from_millis(20));
    assert_eq!(gate.in_flight(), 1);
    drop(succeeded);
    let interval = gate.take_interval();
    assert_eq!((interval.arrived, interval.completed, interval.failed, interval.refused), (3, 1, 1, 0));
    assert!((interval.average.unwrap() - 0.02).abs() < 1e-9);
    assert!((interval.in_flight - 2.0).abs() < 1e-9);
    assert_eq!(gate.in_flight(), 0);
}

/// A request shed for overload is not at fault.
#[test]
fn overload_refusals_cause_no_bans() {
    let mut banning = guard();
    banning.limits = vec!["100/s".parse().unwrap()];
    banning.key = vec![Attribute::ClientIp.into()];
    banning.ban = Some(Ban { after: 1, within: SECOND, duration: 10 * SECOND });
    let (sluice, _clock) = sluice([banning]);
    gate(&sluice).set_limits(concurrency_limit(0));
    let request = Request::new("GET", "/").with_client_ip([203, 0, 113, 9]);
    for _ in 0..5 {
        assert_eq!(sluice.decide(&request).cause(), Cause::Overload(0));
    }
    assert!(sluice.bans().is_empty());
}

#[test]
fn a_replaced_rule_keeps_its_gate() {
    let (sluice, _clock) = sluice([guard()]);
    gate(&sluice).set_limits(concurrency_limit(1));
    let request = Request::new("GET", "/");
    let admitted_outcome = sluice.decide(&request);
    let mut changed = guard();
    changed.adaptive = Some(Adaptive::Auto(Auto { max: 50, ..Auto::default() }));
    sluice.replace(vec![changed], Default::default()).unwrap();
    assert_eq!(sluice.decide(&request).cause(), Cause::Overload(0));
    drop(admitted_outcome);
    assert!(sluice.decide(&request).is_admitted());
    sluice.replace(vec![Rule::new("guard", ["1/s".parse().unwrap()])], Default::default()).unwrap();
    assert!(sluice.gates().is_empty());
}

#[test]
fn a_leaky_bucket_wait_comes_before_the_gate() {
    let leaky = Rule::new("paced", [Limit::leaky_bucket(Rate::per_second(10).unwrap(), 10).unwrap()]);
    let (sluice, clock) = sluice([leaky, guard()]);
    let gate = gate(&sluice);
    gate.set_limits(concurrency_limit(1));
    let request = Request::new("GET", "/");
    let admitted_outcome = ready(sluice.admit(&request));
    let mut paused = sluice.admit(&request);
    assert!(poll(&mut paused).is_pending());
    assert_eq!(gate.waiting(), 0);
    clock.advance(Duration::from_millis(100));
    assert!(poll(&mut paused).is_pending());
    assert_eq!(gate.waiting(), 1);
    drop(admitted_outcome);
    assert!(matches!(poll(&mut paused), Poll::Ready(outcome) if outcome.is_admitted()));
}

/// Threads enter, queue, cancel and leave at random: at the end no slot is taken, and the limit was never
/// exceeded.
#[test]
fn slots_are_conserved_under_concurrency() {
    let gate = Gate::default();
    gate.set_limits(GateLimits {
        max_in_flight: Some(3),
        rate: None,
        queue: QueueBounds { max_waiting: 8, ..QUEUE_BOUNDS },
    });
    let (admitted_outcome, max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (gate, admitted_outcome, max) = (gate.clone(), Arc::clone(&admitted_outcome), Arc::clone(&max));
            scope.spawn(move || {
                let mut random = thread + 1;
                for _ in 0..5_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let class = [Priority::Background, Priority::Normal, Priority::Vip][(random >> 60) as usize % 3];
                    let mut enter = pin!(gate.enter(class));
                    let polls = (random >> 50) % 4;
                    for _ in 0..=polls {
                        if let Poll::Ready(entered) = enter.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                            if let Ok(permit) = entered {
                                max.fetch_max(admitted_outcome.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                                std::thread::yield_now();
                                admitted_outcome.fetch_sub(1, Ordering::SeqCst);
                                drop(permit);
                            }
                            break;
                        }
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!((gate.in_flight(), gate.waiting()), (0, 0));
    assert!((1..=3).contains(&max.load(Ordering::SeqCst)), "{max:?}");
}

/// A refusal by the rate of one gate consumes nothing of another gate's rate.
#[test]
fn a_refusal_for_one_rate_takes_nothing_from_another() {
    let named = |name: &str, count: f64, path: &str| {
        let when = Some(Expr::parse(&format!("path.startsWith('{path}')")).unwrap());
        (Rule { name: name.to_owned(), when, ..guard() }, VariableRate { count, window: SECOND })
    };
    let admitted = |rules: &[(Rule, VariableRate)], paths: &[&str]| {
        let (sluice, _clock) = sluice(rules.iter().map(|(rule, _)| rule.clone()));
        for ((_, rate), (_, gate)) in rules.iter().zip(sluice.gates()) {
            gate.set_limits(GateLimits { rate: Some(*rate), ..GateLimits::OPEN });
        }
        let calls = |path: &&str| {
            let request = Request::new("GET", path);
            let both = (0..100).map(|_| [sluice.decide(&request), ready(sluice.admit(&request))]);
            both.flatten().filter(Outcome::is_admitted).count()
        };
        paths.iter().map(calls).collect::<Vec<_>>()
    };
    let (all, few) = (named("all", 100.0, "/"), named("few", 10.0, "/few"));
    let separate = admitted(std::slice::from_ref(&all), &["/other"])[0];
    let both = admitted(&[all, few], &["/few", "/other"]);
    assert!(both[0] > 0 && both[0] < 20, "{both:?}");
    assert_eq!(both[0] + both[1], separate, "{both:?}");
}

/// Work after the response, such as a WebSocket tunnel, does not occupy a slot.
#[test]
fn a_slot_can_be_released_early() {
    let (sluice, _clock) = sluice([guard()]);
    let gate = gate(&sluice);
    gate.set_limits(concurrency_limit(1));
    let request = Request::new("GET", "/");
    let mut tunnel = sluice.decide(&request);
    assert!(tunnel.is_admitted() && !sluice.decide(&request).is_admitted());
    tunnel.leave_gates(Completion::Ok);
    assert_eq!((gate.in_flight(), tunnel.holds_resources()), (0, false));
    assert!(sluice.decide(&request).is_admitted());
    assert_eq!(gate.take_interval().completed, 2);
}
