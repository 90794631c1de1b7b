//! Gates of rules: who is held back under strain, who waits, what goes back, and what is learned.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::gate::{Bounds, Ending, Gate, Height, Notice, Orders};
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

const LINE: Bounds = Bounds { patience: Duration::from_millis(100), target: Duration::from_millis(5), most: 2 };

fn places(places: usize) -> Orders {
    Orders { places: Some(places), line: LINE, ..Orders::OPEN }
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
fn a_full_gate_refuses_names_the_rule_and_why_and_takes_nothing() {
    let (sluice, clock) = sluice([Rule::new("total", ["3/1m".parse().unwrap()]), guard()]);
    let gate = gate(&sluice);
    gate.order(Orders { places: Some(1), ..Orders::OPEN });
    gate.post(Notice { state: "steady", reason: "median 90ms against 10ms".to_owned(), readings: Vec::new() });
    let request = Request::new("GET", "/");

    let inside = sluice.decide(&request);
    assert!(inside.is_admitted() && inside.is_held());
    for _ in 0..5 {
        let refused = sluice.decide(&request);
        assert_eq!(refused.cause(), Cause::Strain(1));
        assert_eq!(refused.verdict(), Verdict::Denied { retry_after: Some(SECOND) });
        assert_eq!(refused.rule().map(|rule| rule.name.as_str()), Some("guard"));
        assert_eq!(refused.strain().map(|notice| notice.reason.clone()).as_deref(), Some("median 90ms against 10ms"));
    }
    clock.advance(Duration::from_millis(250));
    drop(inside);
    // Had the refused ones kept anything of the other rule, there would be nothing left of it.
    drop(sluice.decide(&request));
    drop(sluice.decide(&request));
    assert_eq!(sluice.decide(&request).cause(), Cause::Limit(0));

    let counts = sluice.counts();
    assert_eq!((counts[1].admitted, counts[1].refused), (3, 5));
    assert_eq!((counts[0].admitted, counts[0].refused), (3, 1));
    let lap = gate.take_lap();
    assert_eq!((lap.arrived, lap.refused, lap.answered, lap.failed), (8, 5, 3, 0), "who is over a limit does not come");
    assert_eq!(lap.peak, 1);
}

#[test]
fn who_waits_comes_in_when_another_is_done() {
    let (sluice, clock) = sluice([guard()]);
    let gate = gate(&sluice);
    gate.order(places(1));
    let request = Request::new("GET", "/");
    let inside = ready(sluice.admit(&request));
    let mut waits = sluice.admit(&request);
    assert!(waits.decided().is_none() && poll(&mut waits).is_pending());
    assert_eq!((gate.waiting(), sluice.counts()[0].waiting), (1, 1));
    clock.advance(Duration::from_millis(40));
    drop(inside);
    let Poll::Ready(entered) = poll(&mut waits) else { panic!("a place is free") };
    assert!(entered.is_admitted());
    assert_eq!((gate.in_flight(), gate.waiting()), (1, 0));
    clock.advance(Duration::from_millis(10));
    drop(entered);
    // Times are those of the service, without the wait.
    let average = gate.take_lap().average.unwrap();
    assert!((average - 0.025).abs() < 1e-6, "{average}");
    let counts = &sluice.counts()[0];
    assert_eq!(
        (counts.admitted, counts.refused, counts.waited, counts.waits.sum),
        (2, 0, 1, Duration::from_millis(40))
    );
}

#[test]
fn nobody_waits_for_ever_and_a_full_line_refuses() {
    let (sluice, clock) = sluice([guard()]);
    gate(&sluice).order(places(1));
    let request = Request::new("GET", "/");
    let _inside = ready(sluice.admit(&request));
    let mut waiting = [sluice.admit(&request), sluice.admit(&request)];
    assert!(waiting.iter_mut().all(|it| poll(it).is_pending()));
    assert_eq!(ready(sluice.admit(&request)).cause(), Cause::Strain(0));
    clock.advance(Duration::from_millis(101));
    for late in &mut waiting {
        let Poll::Ready(refused) = poll(late) else { panic!("its patience is over") };
        assert_eq!(refused.cause(), Cause::Strain(0));
    }
    assert_eq!(sluice.counts()[0].refused, 3);
}

#[test]
fn a_wait_that_is_given_up_leaves_nothing_behind() {
    let (sluice, clock) = sluice([Rule::new("total", ["3/1m".parse().unwrap()]), guard()]);
    let gate = gate(&sluice);
    gate.order(places(1));
    let request = Request::new("GET", "/");
    let inside = ready(sluice.admit(&request));
    let mut waits = sluice.admit(&request);
    assert!(poll(&mut waits).is_pending());
    drop(waits);
    assert_eq!(gate.waiting(), 0);
    // One that was called in and never came.
    let mut called = sluice.admit(&request);
    assert!(poll(&mut called).is_pending());
    clock.advance(Duration::from_millis(1));
    drop(inside);
    assert_eq!(gate.in_flight(), 1);
    drop(called);
    assert_eq!(gate.in_flight(), 0);
    drop(ready(sluice.admit(&request)));
    drop(ready(sluice.admit(&request)));
    assert_eq!(ready(sluice.admit(&request)).cause(), Cause::Limit(0), "both gave back what they had taken");
}

#[test]
fn the_highest_class_goes_first_and_the_lowest_is_sent_away() {
    let rules = [guard(), class("vip", Priority::Vip), class("job", Priority::Background)];
    let (sluice, _clock) = sluice(rules);
    gate(&sluice).order(places(1));
    let headers =
        |name: &'static str| AttributeMap::from_iter([("header['x-class']".parse().unwrap(), name.to_owned())]);
    let (vip, job, other) = (headers("vip"), headers("job"), headers("other"));
    fn from(map: &AttributeMap) -> Request<'_> {
        Request::new("GET", "/").with_attributes(map)
    }
    let inside = ready(sluice.admit(&from(&other)));
    let mut job_waits = sluice.admit(&from(&job));
    let mut other_waits = sluice.admit(&from(&other));
    assert!(poll(&mut job_waits).is_pending() && poll(&mut other_waits).is_pending());
    let mut vip_waits = sluice.admit(&from(&vip));
    let Poll::Ready(refused) = poll(&mut job_waits) else { panic!("has to make room") };
    assert_eq!(refused.cause(), Cause::Strain(0));
    assert!(poll(&mut vip_waits).is_pending());
    drop(inside);
    assert!(poll(&mut other_waits).is_pending());
    assert!(poll(&mut vip_waits).is_ready());
}

#[test]
fn a_rate_holds_for_all_together_also_for_those_nobody_keeps() {
    let (sluice, clock) = sluice([guard()]);
    gate(&sluice).order(Orders { rate: Some(Height { count: 100.0, window: SECOND }), ..Orders::OPEN });
    let request = Request::new("GET", "/");
    let mut admitted = 0;
    for millis in 0..10_000 {
        let outcome = if millis % 2 == 0 { sluice.decide(&request) } else { ready(sluice.ask(&request)) };
        admitted += usize::from(outcome.is_admitted());
        clock.advance(Duration::from_millis(1));
    }
    assert!((950..=1_000).contains(&admitted), "{admitted}");
}

#[test]
fn who_asks_for_others_takes_no_place() {
    let (sluice, _clock) = sluice([guard()]);
    let gate = gate(&sluice);
    gate.order(places(0));
    let request = Request::new("GET", "/");
    assert!(ready(sluice.ask(&request)).is_admitted());
    assert_eq!(sluice.decide(&request).cause(), Cause::Strain(0));
    assert_eq!(gate.in_flight(), 0);
}

#[test]
fn a_rule_that_only_watches_counts_and_refuses_nobody() {
    let mut watching = guard();
    watching.mode = Mode::Shadow;
    let (sluice, _clock) = sluice([watching]);
    let gate = gate(&sluice);
    gate.order(places(1));
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
fn what_is_learned_depends_on_how_a_request_ends() {
    let (sluice, clock) = sluice([guard()]);
    let gate = gate(&sluice);
    let request = Request::new("GET", "/");
    let mut well = sluice.decide(&request);
    let mut fails = sluice.decide(&request);
    let undone = sluice.decide(&request);
    clock.advance(Duration::from_millis(20));
    well.note(Ending::Well);
    fails.note(Ending::Failed);
    drop(fails);
    undone.give_back();
    // A client that takes its time to read keeps its place, but says nothing about the service.
    clock.advance(Duration::from_millis(20));
    assert_eq!(gate.in_flight(), 1);
    drop(well);
    let lap = gate.take_lap();
    assert_eq!((lap.arrived, lap.answered, lap.failed, lap.refused), (3, 1, 1, 0));
    assert!((lap.average.unwrap() - 0.02).abs() < 1e-9);
    assert!((lap.in_flight - 2.0).abs() < 1e-9);
    assert_eq!(gate.in_flight(), 0);
}

/// Who is sent away because the process is under strain has done nothing.
#[test]
fn nobody_is_banned_for_the_strain_on_the_process() {
    let mut banning = guard();
    banning.limits = vec!["100/s".parse().unwrap()];
    banning.key = vec![Attribute::ClientIp.into()];
    banning.ban = Some(Ban { after: 1, within: SECOND, lasting: 10 * SECOND });
    let (sluice, _clock) = sluice([banning]);
    gate(&sluice).order(places(0));
    let request = Request::new("GET", "/").with_client_ip([203, 0, 113, 9]);
    for _ in 0..5 {
        assert_eq!(sluice.decide(&request).cause(), Cause::Strain(0));
    }
    assert!(sluice.bans().is_empty());
}

#[test]
fn a_rule_that_is_replaced_keeps_its_gate() {
    let (sluice, _clock) = sluice([guard()]);
    gate(&sluice).order(places(1));
    let request = Request::new("GET", "/");
    let inside = sluice.decide(&request);
    let mut changed = guard();
    changed.adaptive = Some(Adaptive::Auto(Auto { most: 50, ..Auto::default() }));
    sluice.replace(vec![changed], Default::default()).unwrap();
    assert_eq!(sluice.decide(&request).cause(), Cause::Strain(0));
    drop(inside);
    assert!(sluice.decide(&request).is_admitted());
    sluice.replace(vec![Rule::new("guard", ["1/s".parse().unwrap()])], Default::default()).unwrap();
    assert!(sluice.gates().is_empty());
}

#[test]
fn a_pause_is_sat_out_before_the_gate() {
    let leaky = Rule::new("paced", [Limit::leaky_bucket(Rate::per_second(10).unwrap(), 10).unwrap()]);
    let (sluice, clock) = sluice([leaky, guard()]);
    let gate = gate(&sluice);
    gate.order(places(1));
    let request = Request::new("GET", "/");
    let inside = ready(sluice.admit(&request));
    let mut paused = sluice.admit(&request);
    assert!(poll(&mut paused).is_pending());
    assert_eq!(gate.waiting(), 0);
    clock.advance(Duration::from_millis(100));
    assert!(poll(&mut paused).is_pending());
    assert_eq!(gate.waiting(), 1);
    drop(inside);
    assert!(matches!(poll(&mut paused), Poll::Ready(outcome) if outcome.is_admitted()));
}

/// Threads come, wait, give up and leave at random: in the end nobody is inside, and never were there too many.
#[test]
fn places_are_neither_lost_nor_doubled_under_threads() {
    let gate = Gate::default();
    gate.order(Orders { places: Some(3), rate: None, line: Bounds { most: 8, ..LINE } });
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (gate, inside, most) = (gate.clone(), Arc::clone(&inside), Arc::clone(&most));
            scope.spawn(move || {
                let mut random = thread + 1;
                for _ in 0..5_000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let class = [Priority::Background, Priority::Normal, Priority::Vip][(random >> 60) as usize % 3];
                    let mut enter = pin!(gate.enter(class));
                    let polls = (random >> 50) % 4;
                    for _ in 0..=polls {
                        if let Poll::Ready(entered) = enter.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                            if let Ok(pass) = entered {
                                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                                std::thread::yield_now();
                                inside.fetch_sub(1, Ordering::SeqCst);
                                drop(pass);
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
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}

/// Whoever is refused for the rate of one gate has not used up that of another.
#[test]
fn a_refusal_for_one_rate_takes_nothing_from_another() {
    let named = |name: &str, count: f64, path: &str| {
        let when = Some(Expr::parse(&format!("path.startsWith('{path}')")).unwrap());
        (Rule { name: name.to_owned(), when, ..guard() }, Height { count, window: SECOND })
    };
    let admitted = |rules: &[(Rule, Height)], paths: &[&str]| {
        let (sluice, _clock) = sluice(rules.iter().map(|(rule, _)| rule.clone()));
        for ((_, height), (_, gate)) in rules.iter().zip(sluice.gates()) {
            gate.order(Orders { rate: Some(*height), ..Orders::OPEN });
        }
        let asked = |path: &&str| {
            let request = Request::new("GET", path);
            let both = (0..100).map(|_| [sluice.decide(&request), ready(sluice.admit(&request))]);
            both.flatten().filter(Outcome::is_admitted).count()
        };
        paths.iter().map(asked).collect::<Vec<_>>()
    };
    let (all, few) = (named("all", 100.0, "/"), named("few", 10.0, "/few"));
    let alone = admitted(std::slice::from_ref(&all), &["/other"])[0];
    let both = admitted(&[all, few], &["/few", "/other"]);
    assert!(both[0] > 0 && both[0] < 20, "{both:?}");
    assert_eq!(both[0] + both[1], alone, "{both:?}");
}

/// What goes on after the answer, as the tunnel of a WebSocket does, keeps nobody out.
#[test]
fn a_place_can_be_left_before_the_end() {
    let (sluice, _clock) = sluice([guard()]);
    let gate = gate(&sluice);
    gate.order(places(1));
    let request = Request::new("GET", "/");
    let mut tunnel = sluice.decide(&request);
    assert!(tunnel.is_admitted() && !sluice.decide(&request).is_admitted());
    tunnel.leave_gates(Ending::Well);
    assert_eq!((gate.in_flight(), tunnel.is_held()), (0, false));
    assert!(sluice.decide(&request).is_admitted());
    assert_eq!(gate.take_lap().answered, 2);
}
