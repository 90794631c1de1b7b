//! Further faults that were found once, across themes: each test explains the one it guards against.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::type_complexity, reason = "a test")]

mod support;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, Ban, Cost, Lists, Queue, Request, Rule, Target};
use sluicegate_engine::{KeyedLimiter, Limit, Limiter, Outcome, Sluice};
use support::*;

fn per_ip(max_keys: usize, limits: impl Into<Vec<Limit>>) -> Rule {
    Rule { key: vec![Attribute::ClientIp.into()], max_keys: Some(max_keys), ..Rule::new("r", limits) }
}
fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).build().unwrap()
}
fn from(client: u32) -> Request<'static> {
    Request::new("GET", "/").with_client_ip(client.to_be_bytes())
}
fn replace(sluice: &Sluice, rule: Rule) {
    sluice.replace(vec![rule], Lists::default()).unwrap();
}
fn queued(mut rule: Rule, max_wait: std::time::Duration, max_waiting: u32) -> Rule {
    rule.on_limit.queue = Some(Queue { max_wait, max_waiting });
    rule
}
fn on(target: &str, rule: Rule) -> Rule {
    Rule { target: Target::parse(target).unwrap(), ..rule }
}

/// Growing leaves copies of a key in foreign buckets; shrinking lets a stale copy overwrite the real one.
#[test]
fn growing_and_shrinking_a_table_is_no_new_burst() {
    let clock = ManualClock::new();
    let limits = [bucket("1/h", 10)];
    let sluice = sluice(&clock, [per_ip(1, limits)]);
    let mut spent = [0u32; 8];
    let spend = |client: usize, most: u32, spent: &mut [u32; 8]| {
        for _ in 0..most {
            spent[client] += u32::from(sluice.decide(&from(client as u32)).is_admitted());
        }
    };
    (0..8).for_each(|client| spend(client, 1, &mut spent));
    replace(&sluice, per_ip(1_000, limits));
    (0..8).for_each(|client| spend(client, 99, &mut spent));
    replace(&sluice, per_ip(1, limits));
    (0..8).for_each(|client| spend(client, 99, &mut spent));
    assert!(spent.iter().all(|&spent| spent <= 10), "burst of ten, admitted {spent:?}");
}

/// The same for permits.
#[test]
fn growing_and_shrinking_a_table_keeps_permits() {
    let clock = ManualClock::new();
    let limits = [permits(2)];
    let sluice = sluice(&clock, [per_ip(1, limits)]);
    let mut inside: Vec<Outcome> = (0..8).map(|client| sluice.decide(&from(client))).collect();
    replace(&sluice, per_ip(1_000, limits));
    inside.extend((0..8).map(|client| sluice.decide(&from(client))));
    assert!(inside.iter().all(Outcome::is_admitted));
    replace(&sluice, per_ip(1, limits));
    let third = (0..8).filter(|&client| sluice.decide(&from(client)).is_admitted()).count();
    assert_eq!(third, 0, "that many clients have three inside, the limit is two");
}

/// Copies of held keys in foreign buckets are held by nobody, and never recover.
#[test]
fn growing_while_permits_are_out_leaks_none() {
    let clock = ManualClock::new();
    let limits = [permits(1)];
    let sluice = sluice(&clock, [per_ip(1, limits)]);
    let inside: Vec<Outcome> = (0..19).map(|client| sluice.decide(&from(client))).collect();
    assert!(inside.iter().all(Outcome::is_admitted));
    replace(&sluice, per_ip(1_000, limits));
    drop(inside);
    clock.advance(secs(1_000_000));
    // A table whose keys hold something keeps its size, so one after the other.
    let admitted = (1_000..1_500).filter(|&client| sluice.decide(&from(client)).is_admitted()).count();
    assert_eq!(admitted, 500, "nobody else is inside");
}

/// The strict slot is copied with its permits.
#[test]
fn growing_copies_no_permits_of_the_strict_slot() {
    let clock = ManualClock::new();
    let limits = [permits(1)];
    let sluice = sluice(&clock, [per_ip(1, limits)]);
    let mut inside: Vec<Outcome> = (0..20).map(|client| sluice.decide(&from(client))).collect();
    assert!(inside.iter().all(Outcome::is_admitted));
    // Only the one in the strict slot stays.
    inside.drain(..19);
    replace(&sluice, per_ip(1_000, limits));
    drop(inside);
    let admitted = (1_000..1_500).filter(|&client| sluice.decide(&from(client)).is_admitted()).count();
    assert_eq!(admitted, 500, "nobody is inside at all");
}

/// A held key that finds no slot in a smaller table goes to the strict slot; its pass looks for it elsewhere.
#[test]
fn shrinking_while_permits_are_out_leaks_none() {
    let clock = ManualClock::new();
    let limits = [permits(1)];
    let sluice = sluice(&clock, [per_ip(1_000, limits)]);
    let inside: Vec<Outcome> = (0..25).map(|client| sluice.decide(&from(client))).collect();
    assert!(inside.iter().all(Outcome::is_admitted));
    replace(&sluice, per_ip(1, limits));
    drop(inside);
    assert!(sluice.decide(&from(9_999)).is_admitted(), "everybody has left, and nobody gets in ever again");
}

/// Bans that find no room in a smaller table fall on strangers.
#[test]
fn a_smaller_book_bans_no_strangers() {
    let clock = ManualClock::new();
    let ban = Ban { after: 1, within: secs(60), lasting: secs(600) };
    let rule = |keys| Rule { ban: Some(ban), ..per_ip(keys, [bucket("1/s", 1)]) };
    let sluice = sluice(&clock, [rule(1_000)]);
    for client in 0..40 {
        let _ = sluice.decide(&from(client));
        let _ = sluice.decide(&from(client));
    }
    assert_eq!(sluice.bans().len(), 40);
    clock.advance(secs(100));
    replace(&sluice, rule(1));
    let outcome = sluice.decide(&from(9_999));
    assert!(outcome.is_admitted(), "never seen before, and {:?} {:?}", outcome.cause(), outcome.verdict());
}

/// What costs nothing at first is never charged to a key that is not in the table.
#[test]
fn a_pass_of_nothing_is_charged_what_it_cost() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<str> =
        Limiter::builder().limit(bucket("1/h", 10)).clock(clock.clone()).build_keyed(100).unwrap();
    limiter.enter("a", 0).unwrap().settle(10);
    assert_eq!(limiter.status("a")[0].remaining, 0, "ten were charged");
}

/// The same through a rule: estimates of zero are never charged.
#[test]
fn an_estimate_of_nothing_is_charged_what_it_cost() {
    let clock = ManualClock::new();
    let rule = Rule { cost: Cost::estimate(0), ..per_ip(100, [bucket("1/h", 10)]) };
    let sluice = sluice(&clock, [rule]);
    sluice.decide(&from(1)).settle(1_000);
    let left = sluice.explain(&from(1)).rules[0].decision.unwrap().status.remaining;
    assert_eq!(left, 0, "a thousand were charged");
}

/// A pass of a key that was forgotten meanwhile is not charged more.
#[test]
fn a_pass_of_a_forgotten_key_is_charged_what_it_cost() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u32> =
        Limiter::builder().limit(bucket("1/s", 10)).clock(clock.clone()).build_keyed(1).unwrap();
    let pass = limiter.enter(&0, 1).unwrap();
    clock.advance(secs(1));
    (1..20).for_each(|key| assert!(limiter.check(&key).is_allowed()));
    pass.settle(1_000);
    assert!(!limiter.check_cost(&0, 10).is_allowed(), "it owes 989, and gets ten more");
}

/// A pass that ends after a change is not charged more.
#[test]
fn a_pass_that_ends_after_a_change_is_charged_what_it_cost() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/h", 10)]);
    let pass = limiter.enter(1).unwrap();
    limiter.change([bucket("1/h", 10)]).unwrap();
    pass.settle(10);
    assert_eq!(limiter.status()[0].remaining, 0, "ten were charged");
}

/// Shrinking and growing again, for windows.
#[test]
fn shrinking_and_growing_a_window_is_no_new_burst() {
    let clock = ManualClock::new();
    let kinds: [(&str, fn(u64) -> Limit); 4] = [
        ("fixed", |n| fixed(n, secs(3_600))),
        ("sliding", |n| sliding(n, secs(3_600), 10)),
        ("log", |n| log(n, secs(3_600))),
        ("interpolated", |n| Limit::interpolated_window(n, secs(3_600)).unwrap()),
    ];
    let mut wrong = Vec::new();
    for (name, limit) in kinds {
        let limiter = limiter(&clock, [limit(2_000)]);
        assert!(limiter.check_cost(1_000).is_allowed());
        limiter.change([limit(1_000)]).unwrap();
        limiter.change([limit(2_000)]).unwrap();
        let left = limiter.status()[0].remaining;
        if left > 1_000 {
            wrong.push((name, left));
        }
    }
    assert!(wrong.is_empty(), "left after 1000 of 2000 were taken: {wrong:?}");
}

/// A limit takes over from another one than the one it replaces.
#[test]
fn a_limit_takes_over_from_its_like() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1000/s", 1_000), bucket("10/h", 10)]);
    assert!(limiter.check_cost(10).is_allowed());
    clock.advance(secs(1));
    assert!(!limiter.check().is_allowed());
    // The limit per second is dropped, that per hour is raised a little.
    limiter.change([bucket("11/h", 11)]).unwrap();
    let left = limiter.status()[0].remaining;
    assert!(left <= 1, "ten an hour were spent; of eleven an hour {left} are left");
}

/// The other way round: one limit becomes two.
#[test]
fn a_limit_that_gets_company_goes_on() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/h", 10)]);
    assert!(limiter.check_cost(10).is_allowed());
    limiter.change([bucket("1000/s", 1_000), bucket("11/h", 11)]).unwrap();
    clock.advance(secs(1));
    assert!(!limiter.check_cost(11).is_allowed(), "ten an hour were spent; eleven more came in");
}

/// The debt of a leaky bucket is forgiven by a change.
#[test]
fn a_leaky_debt_is_not_forgiven_by_a_change() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [leaky("1/s", 10)]);
    limiter.enter(1).unwrap().settle(100);
    limiter.change([leaky("1/s", 11)]).unwrap();
    clock.advance(secs(80));
    assert!(!limiter.check().is_allowed(), "a hundred seconds of line, eighty have passed: {:?}", limiter.check());
}

/// A reservation survives a life of its limit in which nothing was out, and gives back others' tokens.
#[test]
fn a_reservation_gives_nothing_back_to_a_later_life() {
    let clock = ManualClock::new();
    let rule = |cost| Rule { cost, ..Rule::new("r", [bucket("1/s", 10)]) };
    let sluice = sluice(&clock, [rule(Cost::estimate(10))]);
    let request = Request::new("GET", "/");
    let early = sluice.decide(&request);
    assert!(early.is_admitted());
    replace(&sluice, rule(Cost::Fixed(1)));
    replace(&sluice, rule(Cost::estimate(10)));
    clock.advance(secs(100));
    let late = sluice.decide(&request);
    assert!(late.is_admitted());
    drop(early);
    clock.advance(secs(100));
    // Ten are out: nothing may be left.
    let beside = sluice.decide(&request);
    late.give_back();
    let more = sluice.decide(&request);
    let both = beside.is_admitted() && more.is_admitted();
    assert!(!both, "twenty at one instant from a bucket of ten");
}

/// A set that there is no memory for changes the rules before.
#[test]
fn a_set_refused_for_its_memory_changes_nothing() {
    let clock = ManualClock::new();
    let a = |burst| Rule::new("a", [bucket("1/s", burst)]);
    let sluice = sluice(&clock, [a(5)]);
    let limits: Vec<Limit> = (1..=16).map(|n| bucket("1/s", n)).collect();
    let huge = per_ip(1 << 32, limits);
    assert!(sluice.replace(vec![a(1), huge], Lists::default()).is_err());
    let admitted = (0..9).filter(|_| sluice.decide(&from(0)).is_admitted()).count();
    assert_eq!(admitted, 5, "the limits of a set that was refused are in force");
}

/// Behind a line, only the rule whose line it is is asked how long one may wait.
#[test]
fn nobody_waits_longer_than_every_rule_allows_behind_a_line() {
    let clock = ManualClock::new();
    let long = queued(Rule::new("long", [bucket("1/s", 1)]), secs(600), 5);
    let short = on("/s", queued(Rule::new("short", [bucket("1/50s", 1)]), secs(1), 5));
    let sluice = sluice(&clock, [long, short]);
    let request = Request::new("GET", "/s");
    assert!(sluice.decide(&request).is_admitted());
    let mut first = waiting(sluice.admit(&Request::new("GET", "/")));
    let mut waits = waiting(sluice.admit(&request));
    clock.advance(secs(1));
    assert!(first.poll_if_woken().unwrap().is_admitted());
    let mut done = waits.poll_if_woken().is_some();
    clock.advance(secs(1));
    done |= waits.poll_if_woken().is_some();
    clock.advance(secs(10));
    done |= waits.poll_if_woken().is_some();
    assert!(done, "`short` allows a wait of one second, twelve have passed");
}

/// Whoever leaves stays on the list of those to be woken.
#[test]
fn who_leaves_watches_no_longer() {
    let clock = ManualClock::new();
    let rule = |name| queued(Rule::new(name, [permits(1)]), secs(1), 5);
    let sluice = sluice(&clock, [rule("a"), rule("b")]);
    let request = Request::new("GET", "/");
    let _holder = sluice.decide(&request);
    struct Bell;
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {}
    }
    let mut bells = Vec::new();
    for _ in 0..1_000 {
        let bell = Arc::new(Bell);
        let waker = Waker::from(Arc::clone(&bell));
        let mut admission = Box::pin(sluice.admit(&request));
        assert!(admission.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(admission);
        drop(waker);
        bells.push(bell);
    }
    assert_eq!(sluice.counts().iter().map(|rule| rule.waiting).sum::<usize>(), 0);
    let kept = bells.iter().filter(|bell| Arc::strong_count(bell) > 1).count();
    assert_eq!(kept, 0, "wakers (and with them tasks) of callers who have left are kept");
}

/// Futures of one task have the same waker. Were they told apart by it, one that leaves would take along
/// what wakes the other.
#[test]
fn who_leaves_takes_nobody_elses_watch_along() {
    let clock = ManualClock::new();
    let per_path = Rule { key: vec![Attribute::Path.into()], ..Rule::new("per-path", [permits(1)]) };
    let posts = on("POST /{*rest}", Rule::new("posts", [permits(1)]));
    let rules = [per_path, posts].map(|rule| queued(rule, secs(60), 5));
    let sluice = sluice(&clock, rules);
    let hold = |method, path| sluice.decide(&Request::new(method, path));
    let (_one, two, other_post) = (hold("GET", "/1"), hold("GET", "/2"), hold("POST", "/3"));
    assert!(other_post.is_admitted());
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut context = Context::from_waker(&waker);
    let mut leaves = Box::pin(sluice.admit(&Request::new("POST", "/1")));
    let mut stays = Box::pin(sluice.admit(&Request::new("POST", "/2")));
    assert!(leaves.as_mut().poll(&mut context).is_pending());
    assert!(stays.as_mut().poll(&mut context).is_pending());
    drop(two);
    assert!(stays.as_mut().poll(&mut context).is_pending(), "there is another POST");
    drop(leaves);
    let before = bell.rung();
    drop(other_post);
    assert!(bell.rung() > before, "the permit it waits for is free, and nobody said so");
    assert!(matches!(stays.as_mut().poll(&mut context), Poll::Ready(outcome) if outcome.is_admitted()));
}

/// A waker dropped under the clock's lock may be all that keeps another caller's task.
#[test]
fn a_waker_may_own_another_caller() {
    struct Owner(
        #[allow(dead_code, reason = "owned")]
        Mutex<
            Option<Pin<Box<dyn Future<Output = Result<sluicegate_engine::Pass, sluicegate_engine::Refused>> + Send>>>,
        >,
    );
    impl Wake for Owner {
        fn wake(self: Arc<Self>) {}
    }
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let clock = ManualClock::new();
        let limiter = limiter(&clock, [bucket("1/s", 1)]);
        assert!(limiter.check().is_allowed());
        let mut first = Box::pin(limiter.acquire().into_future());
        let noop = Waker::noop();
        let mut second = Box::pin(limiter.acquire().into_future());
        assert!(second.as_mut().poll(&mut Context::from_waker(noop)).is_pending());
        let owner = Waker::from(Arc::new(Owner(Mutex::new(Some(second)))));
        assert!(first.as_mut().poll(&mut Context::from_waker(&owner)).is_pending());
        drop(owner);
        // Moved to another task: its old waker is dropped.
        let poll = first.as_mut().poll(&mut Context::from_waker(noop));
        assert!(matches!(poll, Poll::Pending));
        done.send(()).unwrap();
    });
    finished.recv_timeout(secs(5)).expect("deadlock");
}

/// A number too large to count costs one.
#[test]
fn a_cost_too_large_to_read_is_not_one() {
    let clock = ManualClock::new();
    struct Size;
    impl sluicegate_engine::rule::Attributes for Size {
        fn get(&self, _: &Attribute) -> Option<std::borrow::Cow<'_, str>> {
            Some("99999999999999999999".into())
        }
    }
    let cost = Cost::Attribute(Attribute::Header("content-length".into()));
    let sluice = sluice(&clock, [Rule { cost, ..Rule::new("r", [bucket("1/s", 1_000)]) }]);
    let outcome = sluice.decide(&Request::new("GET", "/").with_attributes(&Size));
    assert!(!outcome.is_admitted(), "1e20 - 1 of a thousand were admitted");
}

/// Rules that match one request are asked by recursion, and thousands of them ran out of stack.
#[test]
fn a_request_that_far_too_many_rules_match_is_refused() {
    let clock = ManualClock::new();
    let rules = (0..20000).map(|n| Rule::new(format!("r{n}"), [bucket("1/s", 10)]));
    let sluice = sluice(&clock, rules);
    let outcome = sluice.decide(&Request::new("GET", "/"));
    assert!(!outcome.is_admitted() && outcome.rule().is_some());
}

/// A condition that names a value twice.
#[test]
fn a_value_named_twice_finds_the_rule_once() {
    struct H;
    impl sluicegate_engine::rule::Attributes for H {
        fn get(&self, _: &Attribute) -> Option<std::borrow::Cow<'_, str>> {
            Some("a".into())
        }
    }
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let clock = ManualClock::new();
        let mut rule = per_ip(10, [bucket("1/h", 10)]);
        rule.when = Some("header['h'] in ['a', 'a']".parse().unwrap());
        let sluice = sluice(&clock, [rule]);
        let count = sluice.decide(&from(1).with_attributes(&H)).decisions().count();
        done.send(count).unwrap();
    });
    assert_eq!(finished.recv_timeout(secs(5)).expect("deadlock"), 1);
}

/// The same by restarts.
#[test]
fn restarts_with_more_and_with_less_room_are_no_new_burst() {
    let clock = ManualClock::new();
    let builder = || Limiter::builder().limit(bucket("1/h", 10)).clock(clock.clone());
    let first: KeyedLimiter<u32> = builder().build_keyed(1).unwrap();
    let spend = |limiter: &KeyedLimiter<u32>, most: u32| -> Vec<usize> {
        (0..8).map(|key| (0..most).filter(|_| limiter.check(&key).is_allowed()).count()).collect()
    };
    let a = spend(&first, 1);
    let second: KeyedLimiter<u32> = builder().restore_keyed(&first.save(), 1_000).unwrap();
    let b = spend(&second, 99);
    let third: KeyedLimiter<u32> = builder().restore_keyed(&second.save(), 1).unwrap();
    let c = spend(&third, 99);
    let spent: Vec<usize> = (0..8).map(|key| a[key] + b[key] + c[key]).collect();
    assert!(spent.iter().all(|&spent| spent <= 10), "burst of ten, admitted {spent:?}");
}

/// Controls: the same without what is at fault must pass.
#[test]
fn controls() {
    let clock = ManualClock::new();
    let l = limiter(&clock, [leaky("1/s", 10)]);
    l.enter(1).unwrap().settle(100);
    clock.advance(secs(80));
    assert!(!l.check().is_admitted(), "without a change it is refused");
    let l = limiter(&clock, [bucket("1/h", 10)]);
    l.enter(0).unwrap().settle(10);
    assert_eq!(l.status()[0].remaining, 0, "5: without keys it is charged");
    let s = sluice(&clock, [per_ip(1_000, [permits(1)])]);
    let inside: Vec<Outcome> = (0..19).map(|client| s.decide(&from(client))).collect();
    drop(inside);
    let later: Vec<Outcome> = (1_000..1_500).map(|client| s.decide(&from(client))).collect();
    assert!(later.iter().all(Outcome::is_admitted), "without growing");
    let ban = Ban { after: 1, within: secs(60), lasting: secs(600) };
    let s = sluice(&clock, [Rule { ban: Some(ban), ..per_ip(1, [bucket("1/s", 1)]) }]);
    for client in 0..40 {
        let _ = s.decide(&from(client));
        let _ = s.decide(&from(client));
    }
    clock.advance(secs(100));
    assert!(s.decide(&from(9_999)).is_admitted(), "without shrinking");
    let s = sluice(&clock, [per_ip(1, [permits(1)])]);
    let inside: Vec<Outcome> = (0..25).map(|client| s.decide(&from(client))).collect();
    drop(inside);
    assert!(s.decide(&from(9_999)).is_admitted(), "without shrinking");
}
