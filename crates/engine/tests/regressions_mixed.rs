//! Regression tests across topics; each test explains the bug it guards against.

use crate::support;

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

/// Growing left copies of a key in other buckets; shrinking let a stale copy overwrite the real one.
#[test]
fn growing_and_shrinking_a_table_gives_no_new_burst() {
    let clock = ManualClock::new();
    let limits = [bucket("1/h", 10)];
    let sluice = sluice(&clock, [per_ip(1, limits)]);
    let mut spent = [0u32; 8];
    let spend = |client: usize, max: u32, spent: &mut [u32; 8]| {
        for _ in 0..max {
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
    let mut outcomes: Vec<Outcome> = (0..8).map(|client| sluice.decide(&from(client))).collect();
    replace(&sluice, per_ip(1_000, limits));
    outcomes.extend((0..8).map(|client| sluice.decide(&from(client))));
    assert!(outcomes.iter().all(Outcome::is_admitted));
    replace(&sluice, per_ip(1, limits));
    let third = (0..8).filter(|&client| sluice.decide(&from(client)).is_admitted()).count();
    assert_eq!(third, 0, "clients hold three permits, the limit is two");
}

/// Copies of held keys in other buckets had no holder and never recovered.
#[test]
fn growing_while_permits_are_out_leaks_none() {
    let clock = ManualClock::new();
    let limits = [permits(1)];
    let sluice = sluice(&clock, [per_ip(1, limits)]);
    let outcomes: Vec<Outcome> = (0..19).map(|client| sluice.decide(&from(client))).collect();
    assert!(outcomes.iter().all(Outcome::is_admitted));
    replace(&sluice, per_ip(1_000, limits));
    drop(outcomes);
    clock.advance(secs(1_000_000));
    // A table with held keys keeps its size, so test them one after the other.
    let admitted = (1_000..1_500).filter(|&client| sluice.decide(&from(client)).is_admitted()).count();
    assert_eq!(admitted, 500, "no other permit is held");
}

/// The overflow slot was copied with its permits.
#[test]
fn growing_does_not_copy_permits_of_the_overflow_slot() {
    let clock = ManualClock::new();
    let limits = [permits(1)];
    let sluice = sluice(&clock, [per_ip(1, limits)]);
    let mut outcomes: Vec<Outcome> = (0..20).map(|client| sluice.decide(&from(client))).collect();
    assert!(outcomes.iter().all(Outcome::is_admitted));
    // Only the key in the overflow slot stays.
    outcomes.drain(..19);
    replace(&sluice, per_ip(1_000, limits));
    drop(outcomes);
    let admitted = (1_000..1_500).filter(|&client| sluice.decide(&from(client)).is_admitted()).count();
    assert_eq!(admitted, 500, "no permit is held");
}

/// A held key without a slot in a smaller table went to the overflow slot; its permit looked for it elsewhere.
#[test]
fn shrinking_while_permits_are_out_leaks_none() {
    let clock = ManualClock::new();
    let limits = [permits(1)];
    let sluice = sluice(&clock, [per_ip(1_000, limits)]);
    let outcomes: Vec<Outcome> = (0..25).map(|client| sluice.decide(&from(client))).collect();
    assert!(outcomes.iter().all(Outcome::is_admitted));
    replace(&sluice, per_ip(1, limits));
    drop(outcomes);
    assert!(sluice.decide(&from(9_999)).is_admitted(), "all permits are released, but no request is admitted");
}

/// Bans that did not fit into a smaller table applied to other keys.
#[test]
fn a_smaller_ban_table_bans_no_other_keys() {
    let clock = ManualClock::new();
    let ban = Ban { after: 1, within: secs(60), duration: secs(600) };
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
    assert!(outcome.is_admitted(), "a new key, but {:?} {:?}", outcome.cause(), outcome.verdict());
}

/// A zero-cost permit was never charged to a key that was not in the table.
#[test]
fn a_zero_cost_permit_is_charged_its_actual_cost() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<str> =
        Limiter::builder().limit(bucket("1/h", 10)).clock(clock.clone()).build_keyed(100).unwrap();
    limiter.enter("a", 0).unwrap().settle(10);
    assert_eq!(limiter.status("a")[0].remaining, 0, "ten units were charged");
}

/// The same through a rule: zero estimates were never charged.
#[test]
fn a_zero_estimate_is_charged_its_actual_cost() {
    let clock = ManualClock::new();
    let rule = Rule { cost: Cost::estimate(0), ..per_ip(100, [bucket("1/h", 10)]) };
    let sluice = sluice(&clock, [rule]);
    sluice.decide(&from(1)).settle(1_000);
    let left = sluice.explain(&from(1)).rules[0].decision.unwrap().status.remaining;
    assert_eq!(left, 0, "a thousand were charged");
}

/// A permit of a key evicted in the meantime was not charged its extra cost.
#[test]
fn a_permit_of_an_evicted_key_is_charged_its_actual_cost() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u32> =
        Limiter::builder().limit(bucket("1/s", 10)).clock(clock.clone()).build_keyed(1).unwrap();
    let permit = limiter.enter(&0, 1).unwrap();
    clock.advance(secs(1));
    (1..20).for_each(|key| assert!(limiter.check(&key).is_allowed()));
    permit.settle(1_000);
    assert!(!limiter.check_cost(&0, 10).is_allowed(), "it has a debt of 989 and gets ten more");
}

/// A permit settled after a change was not charged its extra cost.
#[test]
fn a_permit_settled_after_a_change_is_charged_its_actual_cost() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/h", 10)]);
    let permit = limiter.enter(1).unwrap();
    limiter.change([bucket("1/h", 10)]).unwrap();
    permit.settle(10);
    assert_eq!(limiter.status()[0].remaining, 0, "ten units were charged");
}

/// Shrinking and growing again, for windows.
#[test]
fn shrinking_and_growing_a_window_gives_no_new_burst() {
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
    assert!(wrong.is_empty(), "remaining after 1000 of 2000 were taken: {wrong:?}");
}

/// A limit inherited the state of another limit than the one it replaced.
#[test]
fn a_limit_inherits_state_from_the_same_kind() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1000/s", 1_000), bucket("10/h", 10)]);
    assert!(limiter.check_cost(10).is_allowed());
    clock.advance(secs(1));
    assert!(!limiter.check().is_allowed());
    // The limit per second is dropped, the one per hour is raised a little.
    limiter.change([bucket("11/h", 11)]).unwrap();
    let left = limiter.status()[0].remaining;
    assert!(left <= 1, "10 per hour are spent; {left} of 11 per hour remain");
}

/// The reverse: one limit becomes two.
#[test]
fn a_limit_keeps_its_state_when_another_is_added() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/h", 10)]);
    assert!(limiter.check_cost(10).is_allowed());
    limiter.change([bucket("1000/s", 1_000), bucket("11/h", 11)]).unwrap();
    clock.advance(secs(1));
    assert!(!limiter.check_cost(11).is_allowed(), "10 per hour are spent; 11 more were admitted");
}

/// The debt of a leaky bucket was dropped by a change.
#[test]
fn a_leaky_debt_is_not_forgiven_by_a_change() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [leaky("1/s", 10)]);
    limiter.enter(1).unwrap().settle(100);
    limiter.change([leaky("1/s", 11)]).unwrap();
    clock.advance(secs(80));
    assert!(!limiter.check().is_allowed(), "a queue of 100 s, 80 s have passed: {:?}", limiter.check());
}

/// A reservation survived an interim limit set without reservations and returned tokens of others.
#[test]
fn a_reservation_refunds_nothing_to_a_later_limit() {
    let clock = ManualClock::new();
    let rule = |cost| Rule { cost, ..Rule::new("r", [bucket("1/s", 10)]) };
    let sluice = sluice(&clock, [rule(Cost::estimate(10))]);
    let request = Request::new("GET", "/");
    let early = sluice.decide(&request);
    assert!(early.is_admitted());
    replace(&sluice, rule(Cost::Fixed(1)));
    replace(&sluice, rule(Cost::estimate(10)));
    clock.advance(secs(100));
    let reservation = sluice.decide(&request);
    assert!(reservation.is_admitted());
    drop(early);
    clock.advance(secs(100));
    // Ten are reserved: nothing may remain.
    let concurrent = sluice.decide(&request);
    reservation.give_back();
    let more = sluice.decide(&request);
    let both = concurrent.is_admitted() && more.is_admitted();
    assert!(!both, "twenty at once from a bucket of ten");
}

/// A rule set rejected for memory changed the existing rules.
#[test]
fn a_rule_set_rejected_for_memory_changes_nothing() {
    let clock = ManualClock::new();
    let a = |burst| Rule::new("a", [bucket("1/s", burst)]);
    let sluice = sluice(&clock, [a(5)]);
    let limits: Vec<Limit> = (1..=16).map(|n| bucket("1/s", n)).collect();
    let huge = per_ip(1 << 32, limits);
    assert!(sluice.replace(vec![a(1), huge], Lists::default()).is_err());
    let admitted = (0..9).filter(|_| sluice.decide(&from(0)).is_admitted()).count();
    assert_eq!(admitted, 5, "limits of a rejected rule set are active");
}

/// Behind a queue, only the rule of that queue was checked for its maximum wait.
#[test]
fn queue_waits_respect_every_rule() {
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

/// A cancelled request stayed registered for wakeups.
#[test]
fn a_cancelled_request_unregisters_its_wakers() {
    let clock = ManualClock::new();
    let rule = |name| queued(Rule::new(name, [permits(1)]), secs(1), 5);
    let sluice = sluice(&clock, [rule("a"), rule("b")]);
    let request = Request::new("GET", "/");
    let _holder = sluice.decide(&request);
    struct NoopWaker;
    impl Wake for NoopWaker {
        fn wake(self: Arc<Self>) {}
    }
    let mut wakers = Vec::new();
    for _ in 0..1_000 {
        let wake_flag = Arc::new(NoopWaker);
        let waker = Waker::from(Arc::clone(&wake_flag));
        let mut admission = Box::pin(sluice.admit(&request));
        assert!(admission.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(admission);
        drop(waker);
        wakers.push(wake_flag);
    }
    assert_eq!(sluice.counts().iter().map(|rule| rule.waiting).sum::<usize>(), 0);
    let kept = wakers.iter().filter(|wake_flag| Arc::strong_count(wake_flag) > 1).count();
    assert_eq!(kept, 0, "wakers of cancelled callers are kept");
}

/// Futures of one task share a waker. If registrations were identified by it, a cancelled future would remove the
/// registration of the other.
#[test]
fn a_cancelled_request_keeps_other_registrations() {
    let clock = ManualClock::new();
    let per_path = Rule { key: vec![Attribute::Path.into()], ..Rule::new("per-path", [permits(1)]) };
    let posts = on("POST /{*rest}", Rule::new("posts", [permits(1)]));
    let rules = [per_path, posts].map(|rule| queued(rule, secs(60), 5));
    let sluice = sluice(&clock, rules);
    let hold = |method, path| sluice.decide(&Request::new(method, path));
    let (_one, two, other_post) = (hold("GET", "/1"), hold("GET", "/2"), hold("POST", "/3"));
    assert!(other_post.is_admitted());
    let wake_flag = Arc::new(CountingWaker::default());
    let waker = Waker::from(Arc::clone(&wake_flag));
    let mut context = Context::from_waker(&waker);
    let mut leaves = Box::pin(sluice.admit(&Request::new("POST", "/1")));
    let mut stays = Box::pin(sluice.admit(&Request::new("POST", "/2")));
    assert!(leaves.as_mut().poll(&mut context).is_pending());
    assert!(stays.as_mut().poll(&mut context).is_pending());
    drop(two);
    assert!(stays.as_mut().poll(&mut context).is_pending(), "there is another POST");
    drop(leaves);
    let before = wake_flag.wake_count();
    drop(other_post);
    assert!(wake_flag.wake_count() > before, "the awaited permit is free, but no wakeup was sent");
    assert!(matches!(stays.as_mut().poll(&mut context), Poll::Ready(outcome) if outcome.is_admitted()));
}

/// A waker dropped under the clock's lock may own the last reference to another caller's task.
#[test]
fn a_waker_may_own_another_future() {
    struct Owner(
        #[allow(dead_code, reason = "owned")]
        Mutex<
            Option<
                Pin<
                    Box<dyn Future<Output = Result<sluicegate_engine::Permit, sluicegate_engine::AcquireError>> + Send>,
                >,
            >,
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

/// A number too large to parse cost one.
#[test]
fn an_overflowing_cost_is_not_one() {
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

/// Rules that matched one request were evaluated by recursion, and thousands of them overflowed the stack.
#[test]
fn a_request_matching_too_many_rules_is_refused() {
    let clock = ManualClock::new();
    let rules = (0..20000).map(|n| Rule::new(format!("r{n}"), [bucket("1/s", 10)]));
    let sluice = sluice(&clock, rules);
    let outcome = sluice.decide(&Request::new("GET", "/"));
    assert!(!outcome.is_admitted() && outcome.rule().is_some());
}

/// Condition with a duplicate value.
#[test]
fn a_duplicate_value_matches_the_rule_once() {
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

/// The same with restarts.
#[test]
fn restarts_with_another_capacity_give_no_new_burst() {
    let clock = ManualClock::new();
    let builder = || Limiter::builder().limit(bucket("1/h", 10)).clock(clock.clone());
    let first: KeyedLimiter<u32> = builder().build_keyed(1).unwrap();
    let spend = |limiter: &KeyedLimiter<u32>, max: u32| -> Vec<usize> {
        (0..8).map(|key| (0..max).filter(|_| limiter.check(&key).is_allowed()).count()).collect()
    };
    let a = spend(&first, 1);
    let second: KeyedLimiter<u32> = builder().restore_keyed(&first.save(), 1_000).unwrap();
    let b = spend(&second, 99);
    let third: KeyedLimiter<u32> = builder().restore_keyed(&second.save(), 1).unwrap();
    let c = spend(&third, 99);
    let spent: Vec<usize> = (0..8).map(|key| a[key] + b[key] + c[key]).collect();
    assert!(spent.iter().all(|&spent| spent <= 10), "burst of ten, admitted {spent:?}");
}

/// Controls: the same scenarios without the triggering change must pass.
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
    let outcomes: Vec<Outcome> = (0..19).map(|client| s.decide(&from(client))).collect();
    drop(outcomes);
    let later: Vec<Outcome> = (1_000..1_500).map(|client| s.decide(&from(client))).collect();
    assert!(later.iter().all(Outcome::is_admitted), "without growing");
    let ban = Ban { after: 1, within: secs(60), duration: secs(600) };
    let s = sluice(&clock, [Rule { ban: Some(ban), ..per_ip(1, [bucket("1/s", 1)]) }]);
    for client in 0..40 {
        let _ = s.decide(&from(client));
        let _ = s.decide(&from(client));
    }
    clock.advance(secs(100));
    assert!(s.decide(&from(9_999)).is_admitted(), "without shrinking");
    let s = sluice(&clock, [per_ip(1, [permits(1)])]);
    let outcomes: Vec<Outcome> = (0..25).map(|client| s.decide(&from(client))).collect();
    drop(outcomes);
    assert!(s.decide(&from(9_999)).is_admitted(), "without shrinking");
}
