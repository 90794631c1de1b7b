//! Cluster rules counted by a shared store: shared counts, all or nothing with local rules, behaviour without the
//! store, queueing, and no leaks.

mod fake_store;
use crate::support;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use fake_store::{FakeStore, ReplyMode};
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{
    Attribute, Ban, ClusterMode, Cost, Lists, Mode, OnStoreFailure, Queue, Request, Rule, Scope,
};
use sluicegate_engine::sluice::{Cause, KeyError};
use sluicegate_engine::{Limit, Outcome, Rate, Sluice, Verdict};
use support::*;

const SECOND: Duration = Duration::from_secs(1);

fn local(name: &str, limit: &str) -> Rule {
    Rule::new(name, [limit.parse().unwrap()])
}

fn cluster(name: &str, limit: &str) -> Rule {
    with(OnStoreFailure::LocalShare, local(name, limit))
}

fn with(on_store_failure: OnStoreFailure, rule: Rule) -> Rule {
    Rule { scope: Scope::Cluster { mode: ClusterMode::Exact, on_store_failure }, ..rule }
}

fn permits(name: &str, limit: u64) -> Rule {
    Rule::new(name, [Limit::concurrency(limit).unwrap()])
}

fn queued(mut rule: Rule, max_wait: Duration, max_waiting: u32) -> Rule {
    rule.on_limit.queue = Some(Queue { max_wait, max_waiting });
    rule
}

fn by_ip(rule: Rule) -> Rule {
    Rule { key: vec![Attribute::ClientIp.into()], ..rule }
}

fn process(clock: &ManualClock, store: &Arc<FakeStore>, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    let store = Arc::clone(store);
    Sluice::builder().rules(rules).clock(clock.clone()).store(store).memory(1 << 20).build().unwrap()
}

fn get() -> Request<'static> {
    Request::new("GET", "/")
}

fn from(ip: &str) -> Request<'static> {
    get().with_client_ip(ip.parse::<IpAddr>().unwrap())
}

fn admitted(sluice: &Sluice, times: u32) -> u32 {
    (0..times).filter(|_| sluice.decide(&get()).is_admitted()).count() as u32
}

fn start() -> (ManualClock, Arc<FakeStore>) {
    let clock = ManualClock::new();
    let store = FakeStore::new(&clock);
    (clock, store)
}

#[test]
fn processes_share_one_limit() {
    let (clock, store) = start();
    let [one, other] = [0, 1].map(|_| process(&clock, &store, [by_ip(cluster("per-ip", "3/1m"))]));
    for (process, ip, expected) in [
        (&one, "10.0.0.1", true),
        (&other, "10.0.0.1", true),
        (&one, "10.0.0.1", true),
        (&other, "10.0.0.1", false),
        (&one, "10.0.0.1", false),
        (&other, "10.0.0.2", true),
    ] {
        let outcome = process.decide(&from(ip));
        assert_eq!(outcome.is_admitted(), expected, "{ip}");
        assert!(!outcome.is_degraded());
    }
    let counts = &one.counts()[0];
    assert_eq!((counts.admitted, counts.refused, counts.degraded), (2, 1, 0));
}

#[test]
fn without_a_store_the_process_counts_alone() {
    let clock = ManualClock::new();
    let sluice = Sluice::builder().rule(cluster("all", "2/1m")).clock(clock).build().unwrap();
    assert_eq!(admitted(&sluice, 5), 2);
}

/// Charges of local rules are returned when the store refuses, and the store is not called when they refuse.
#[test]
fn all_or_nothing_with_local_rules() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [local("here", "4/1m"), cluster("shared", "2/1m"), permits("inside", 3)]);
    assert_eq!(admitted(&sluice, 10), 2);
    assert_eq!(store.calls.lock().unwrap().len(), 10);
    // Two were taken locally, not ten: so two remain once the cluster has room again.
    sluice.replace(vec![local("here", "4/1m"), permits("inside", 3)], Lists::default()).unwrap();
    assert_eq!(admitted(&sluice, 10), 2);
    sluice.replace(vec![local("here", "4/1m"), cluster("shared", "9/1m")], Lists::default()).unwrap();
    store.calls.lock().unwrap().clear();
    assert_eq!(admitted(&sluice, 10), 0);
    assert!(store.calls.lock().unwrap().is_empty(), "refused locally: no store call");
}

#[test]
fn all_cluster_rules_share_one_store_call() {
    let (clock, store) = start();
    let rules = [cluster("total", "9/1m"), by_ip(cluster("per-ip", "1/1m")), by_ip(local("here", "9/1m"))];
    let sluice = process(&clock, &store, rules);
    assert!(sluice.decide(&from("10.0.0.1")).is_admitted());
    let calls = store.calls.lock().unwrap().clone();
    let key = [b"4".as_slice(), &[10, 0, 0, 1]].concat();
    assert_eq!(calls, [vec![("total".to_owned(), vec![], 1), ("per-ip".to_owned(), key, 1)]]);
    let refused = sluice.decide(&from("10.0.0.1"));
    assert_eq!((refused.cause(), refused.rule().unwrap().name.as_str()), (Cause::Limit(1), "per-ip"));
    assert!(matches!(refused.verdict(), Verdict::Denied { retry_after: Some(_) }));
}

#[test]
fn each_rule_chooses_its_store_failure_mode() {
    for (policy, expected) in [(OnStoreFailure::Open, 20), (OnStoreFailure::Closed, 0), (OnStoreFailure::LocalShare, 3)]
    {
        let (clock, store) = start();
        store.nodes.store(4, Ordering::SeqCst);
        let sluice = process(&clock, &store, [with(policy, local("all", "12/1m"))]);
        store.set_reply_mode(ReplyMode::Lost);
        let outcome = sluice.decide(&get());
        assert!(outcome.is_degraded());
        assert!(outcome.decisions().all(|(_, decision)| decision.degraded));
        assert_eq!(admitted(&sluice, 19) + u32::from(outcome.is_admitted()), expected, "{policy:?}");
        assert_eq!(sluice.counts()[0].degraded, 20);
        store.set_reply_mode(ReplyMode::Now);
        assert!(!sluice.decide(&get()).is_degraded());
        assert_eq!(sluice.counts()[0].degraded, 20);
    }
}

#[test]
fn the_share_follows_the_number_of_processes() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [cluster("all", "12/1m")]);
    store.set_reply_mode(ReplyMode::Lost);
    store.nodes.store(6, Ordering::SeqCst);
    assert_eq!(admitted(&sluice, 9), 2);
    store.nodes.store(3, Ordering::SeqCst);
    assert!(admitted(&sluice, 9) <= 2, "four in total, two of them spent");
    store.nodes.store(6, Ordering::SeqCst);
    assert_eq!(admitted(&sluice, 9), 0, "more than the local share is spent");
    clock.advance(120 * SECOND);
    assert_eq!(admitted(&sluice, 9), 2);
}

#[test]
fn fewer_permits_than_processes_leave_each_without_any() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [with(OnStoreFailure::LocalShare, permits("inside", 3))]);
    store.set_reply_mode(ReplyMode::Lost);
    store.nodes.store(4, Ordering::SeqCst);
    assert!(!sluice.decide(&get()).is_admitted());
    store.nodes.store(3, Ordering::SeqCst);
    let held = sluice.decide(&get());
    assert!(held.is_admitted() && held.holds_resources() && !sluice.decide(&get()).is_admitted());
    drop(held);
    assert!(sluice.decide(&get()).is_admitted());
}

#[test]
fn a_store_reply_may_be_delayed() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [permits("inside", 1), cluster("all", "1/1m")]);
    store.set_reply_mode(ReplyMode::Later);
    let mut task = Task::new(sluice.admit(&get()));
    assert!(task.poll().is_pending() && !task.is_woken());
    store.deliver();
    assert!(task.is_woken());
    let Poll::Ready(outcome) = task.poll() else { panic!() };
    assert!(outcome.is_admitted() && outcome.holds_resources());
}

/// A caller that cancels during a store call leaves no charge, locally or in the store.
#[test]
fn cancelling_returns_everything() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [permits("inside", 1), local("here", "1/1m"), cluster("all", "1/1m")]);
    store.set_reply_mode(ReplyMode::Later);
    let mut task = Task::new(sluice.admit(&get()));
    assert!(task.poll().is_pending());
    drop(task);
    assert_eq!(store.dropped(), 1);
    store.set_reply_mode(ReplyMode::Now);
    assert!(sluice.decide(&get()).is_admitted());
}

#[test]
fn a_thread_can_block_on_the_store() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [cluster("all", "1/1m")]);
    store.set_reply_mode(ReplyMode::Later);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| sluice.decide(&get()).is_admitted());
        while store.calls.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        store.deliver();
        assert!(waiting.join().unwrap());
    });
}

#[test]
fn a_lease_decides_immediately() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [local("here", "3/1m"), cluster("shared", "9/1m")]);
    *store.rule("shared").slice.lock().unwrap() = Some(2);
    assert_eq!(admitted(&sluice, 2), 2);
    assert!(store.calls.lock().unwrap().is_empty());
    assert_eq!(admitted(&sluice, 2), 1, "the third from the store, the fourth refused locally");
    assert_eq!(store.calls.lock().unwrap().len(), 1);
}

/// If one rule could decide locally and another needs the store, both go to the store together.
#[test]
fn a_lease_charge_is_returned_when_the_store_must_decide() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [cluster("sliced", "9/1m"), cluster("asked", "1/1m")]);
    *store.rule("sliced").slice.lock().unwrap() = Some(5);
    assert_eq!(admitted(&sluice, 3), 1);
    assert_eq!(*store.rule("sliced").slice.lock().unwrap(), Some(5));
    assert!(store.calls.lock().unwrap().iter().all(|call| call.len() == 2));
}

#[test]
fn an_estimate_is_settled_wherever_it_was_taken() {
    let (clock, store) = start();
    let bucket = Limit::token_bucket(Rate::per_minute(60).unwrap(), 100).unwrap();
    let rule = Rule { cost: Cost::estimate(40), ..with(OnStoreFailure::Open, Rule::new("tokens", [bucket])) };
    let sluice = process(&clock, &store, [rule]);
    let outcome = sluice.decide(&get());
    assert!(outcome.holds_resources(), "to be settled");
    outcome.settle(7);
    drop(sluice.decide(&get()));
    sluice.decide(&get()).give_back();
    assert_eq!(*store.ended.lock().unwrap(), [[7], [40], [0]]);
    *store.rule("tokens").slice.lock().unwrap() = Some(50);
    let outcome = sluice.decide(&get());
    assert!(outcome.holds_resources());
    outcome.settle(12);
    assert_eq!(*store.rule("tokens").settled.lock().unwrap(), [(40, 12)]);
    assert_eq!(*store.rule("tokens").slice.lock().unwrap(), Some(38));
}

#[test]
fn refused_requests_may_queue_for_the_store() {
    let (clock, store) = start();
    let bucket = Limit::token_bucket(Rate::per_second(1).unwrap(), 1).unwrap();
    let rule = queued(with(OnStoreFailure::Closed, Rule::new("all", [bucket])), 3 * SECOND, 2);
    let sluice = process(&clock, &store, [permits("inside", 9), rule]);
    assert!(sluice.admit(&get()).decided().is_none(), "dropped before the first poll: no effect");
    let mut first = Task::new(sluice.admit(&get()));
    let mut second = Task::new(sluice.admit(&get()));
    let mut third = Task::new(sluice.admit(&get()));
    let admitted = |poll: Poll<Outcome>| matches!(poll, Poll::Ready(outcome) if outcome.is_admitted());
    assert!(admitted(first.poll()));
    assert!(second.poll().is_pending() && third.poll().is_pending());
    assert_eq!(sluice.counts()[1].waiting, 2);
    let mut fourth = Task::new(sluice.admit(&get()));
    assert!(matches!(fourth.poll(), Poll::Ready(outcome) if !outcome.is_admitted()), "two are already waiting");
    clock.advance(SECOND);
    assert!(admitted(second.poll()) && third.poll().is_pending());
    assert_eq!(sluice.counts()[1].waiting, 1);
    drop(third);
    assert_eq!(sluice.counts()[1].waiting, 0);
    let counts = &sluice.counts()[1];
    assert_eq!((counts.admitted, counts.refused), (2, 1));
    assert_eq!((counts.waited, counts.waits.sum), (2, 2 * SECOND), "the second and the third, one second each");
}

#[test]
fn store_permits_are_counted_while_held() {
    let (clock, store) = start();
    let both = Rule { limits: vec![Limit::concurrency(9).unwrap(), "90/1m".parse().unwrap()], ..permits("both", 9) };
    let rules = [permits("inside", 9), both].map(|rule| with(OnStoreFailure::LocalShare, rule));
    let sluice = process(&clock, &store, rules.clone());
    let out = || sluice.counts().iter().map(|counts| counts.permits).collect::<Vec<_>>();
    let three = sluice.decide(&get().with_cost(3));
    let one = sluice.decide(&get());
    assert_eq!(out(), [Some(4), Some(2)], "with a rate limit a request holds one permit regardless of its cost");
    drop(sluice.decide(&get().with_cost(0)));
    drop(sluice.decide(&get().with_cost(6)));
    assert_eq!(out(), [Some(4), Some(2)], "a refusal holds nothing");
    sluice.replace(rules.into(), Lists::default()).unwrap();
    one.give_back();
    store.set_reply_mode(ReplyMode::Lost);
    let own = sluice.decide(&get().with_cost(2));
    assert_eq!(out(), [Some(5), Some(2)], "permits of the local share are held too");
    drop((three, own));
    assert_eq!(out(), [Some(0), Some(0)]);
}

#[test]
fn a_request_that_would_miss_its_deadline_is_refused_immediately() {
    let (clock, store) = start();
    let rule = queued(cluster("all", "1/1m"), SECOND, 10);
    let sluice = process(&clock, &store, [rule]);
    assert!(sluice.decide(&get()).is_admitted());
    let mut task = Task::new(sluice.admit(&get()));
    assert!(matches!(task.poll(), Poll::Ready(outcome) if !outcome.is_admitted()));
    assert_eq!(clock.pending_timers(), 0);
}

/// The local queue comes first, then the store call.
#[test]
fn local_queues_come_before_the_store() {
    let (clock, store) = start();
    let bucket = Limit::token_bucket(Rate::per_second(1).unwrap(), 1).unwrap();
    let here = queued(Rule::new("here", [bucket]), 5 * SECOND, 10);
    let sluice = process(&clock, &store, [here, cluster("shared", "2/1m")]);
    assert!(sluice.decide(&get()).is_admitted());
    let mut second = Task::new(sluice.admit(&get()));
    let mut third = Task::new(sluice.admit(&get()));
    assert!(second.poll().is_pending() && third.poll().is_pending());
    assert_eq!(store.calls.lock().unwrap().len(), 1, "no store call for a locally queued request");
    clock.advance(SECOND);
    assert!(matches!(second.poll(), Poll::Ready(outcome) if outcome.is_admitted()));
    clock.advance(SECOND);
    let Poll::Ready(refused) = third.poll() else { panic!() };
    assert_eq!(refused.cause(), Cause::Limit(1));
    let counts: Vec<_> = sluice.counts().iter().map(|counts| (counts.admitted, counts.refused)).collect();
    assert_eq!(counts, [(2, 0), (2, 1)]);
    assert!(sluice.decide(&get()).rule().is_some_and(|rule| rule.name == "shared"), "the token was returned");
}

#[test]
fn store_refusals_count_towards_bans() {
    let (clock, store) = start();
    let ban = Ban { after: 2, within: 60 * SECOND, duration: 600 * SECOND };
    let rule = Rule { ban: Some(ban), ..by_ip(cluster("per-ip", "1/1m")) };
    let sluice = process(&clock, &store, [rule]);
    let causes: Vec<Cause> = (0..4).map(|_| sluice.decide(&from("10.0.0.1")).cause()).collect();
    assert_eq!(causes, [Cause::Rules, Cause::Limit(0), Cause::Limit(0), Cause::Ban(0)]);
    assert_eq!(sluice.bans()[0].key, "10.0.0.1");
    assert_eq!(store.calls.lock().unwrap().len(), 3, "no store call for a banned request");
}

#[test]
fn a_shadow_cluster_rule_refuses_nothing() {
    let (clock, store) = start();
    let shadow = Rule { mode: Mode::Shadow, ..cluster("watch", "1/1m") };
    let sluice = process(&clock, &store, [shadow, cluster("all", "3/1m")]);
    let outcomes: Vec<Outcome> = (0..4).map(|_| sluice.decide(&get())).collect();
    let admitted: Vec<bool> = outcomes.iter().map(Outcome::is_admitted).collect();
    assert_eq!(admitted, [true, true, true, false]);
    let refusals: Vec<usize> = outcomes.iter().map(|outcome| outcome.would_refuse().count()).collect();
    assert_eq!(refusals, [0, 1, 1, 1]);
}

#[test]
fn limits_the_store_rejects_are_not_applied() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [cluster("all", "1/1m")]);
    let warm = Limit::warm_up(Rate::per_second(10).unwrap(), 10 * SECOND, 3).unwrap();
    let wrong = with(OnStoreFailure::Open, Rule::new("warm", [warm]));
    assert!(sluice.replace(vec![wrong], Lists::default()).is_err());
    assert_eq!(admitted(&sluice, 3), 1, "the last valid rules stay active");
}

/// A rule set rejected by the store is rejected before any rule has changed.
#[test]
fn rules_before_the_rejected_one_stay_unchanged() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [local("here", "2/1h")]);
    let warm = Limit::warm_up(Rate::per_second(10).unwrap(), 10 * SECOND, 3).unwrap();
    let wrong = with(OnStoreFailure::Open, Rule::new("warm", [warm]));
    assert!(sluice.replace(vec![local("here", "9/1h"), wrong], Lists::default()).is_err());
    assert_eq!(admitted(&sluice, 10), 2);
}

#[test]
fn bans_are_replicated() {
    let (clock, store) = start();
    let ban = Ban { after: 1, within: 60 * SECOND, duration: 600 * SECOND };
    let rules = || {
        let shared = Rule { ban: Some(ban), ..by_ip(cluster("shared", "1/1m")) };
        let own = Rule { ban: Some(ban), ..by_ip(local("own", "100/1m")) };
        [shared, own]
    };
    let [one, other] = [0, 1].map(|_| process(&clock, &store, rules()));
    assert!(one.decide(&from("2001:db8::1")).is_admitted());
    assert!(!one.decide(&from("2001:db8::1")).is_admitted());
    clock.advance(100 * SECOND);
    let all = one.active_bans();
    assert_eq!(all[0].remaining, Some(500 * SECOND));
    let events = one.drain_ban_events();
    assert_eq!((events.len(), events[0].remaining), (1, Some(600 * SECOND)));
    assert_eq!(events[0].name, "2001:db8::/64");
    assert!(one.drain_ban_events().is_empty(), "each event is returned once");

    assert!(other.apply_ban_event(&all[0]));
    assert!(other.drain_ban_events().is_empty(), "an applied event is not returned");
    assert_eq!(other.decide(&from("2001:db8::2")).cause(), Cause::Ban(0), "the same network");
    assert_eq!(other.bans()[0].remaining, 500 * SECOND);
    assert_eq!(other.decide(&from("2001:db9::2")).cause(), Cause::Rules);
    clock.advance(499 * SECOND);
    assert_eq!(other.decide(&from("2001:db8::2")).cause(), Cause::Ban(0));

    assert!(other.lift_ban("shared", "2001:db8::/64"));
    let lifted = other.drain_ban_events();
    assert_eq!(lifted[0].remaining, None);
    assert_eq!(one.decide(&from("2001:db8::1")).cause(), Cause::Ban(0));
    assert!(one.apply_ban_event(&lifted[0]));
    assert!(one.decide(&from("2001:db8::1")).is_admitted() && one.bans().is_empty());
    assert!(
        !one.apply_ban_event(&sluicegate_engine::sluice::BanEvent { rule: "none".to_owned(), ..lifted[0].clone() })
    );
}

/// The rule's limits are in the store, but its bans apply in every process.
#[test]
fn a_manual_ban_is_replicated() {
    let (clock, store) = start();
    let ban = Some(Ban { after: 2, within: 60 * SECOND, duration: 60 * SECOND });
    let rules = || [Rule { ban, ..by_ip(cluster("all", "9/1h")) }];
    let (one, other) = (process(&clock, &store, rules()), process(&clock, &store, rules()));
    assert_eq!(one.peek("all", &["203.0.113.9"]), Err(KeyError::InStore));
    assert_eq!(one.reset("all", &["203.0.113.9"]), Err(KeyError::InStore));
    one.ban("all", &["203.0.113.9"], Some(30 * SECOND)).unwrap();
    let events = one.drain_ban_events();
    assert_eq!(events.len(), 1);
    assert!(events.iter().all(|events| other.apply_ban_event(events)));
    assert_eq!(one.bans(), other.bans());
    assert!(!other.decide(&from("203.0.113.9")).is_admitted());
    one.ban("all", &["203.0.113.9"], Some(SECOND)).unwrap();
    assert!(one.drain_ban_events().is_empty(), "the longer ban stays, and everybody knows of it");
}

#[test]
fn malformed_keys_in_ban_events_are_ignored() {
    let (clock, store) = start();
    let ban = Ban { after: 1, within: 60 * SECOND, duration: 600 * SECOND };
    let sluice = process(&clock, &store, [Rule { ban: Some(ban), ..by_ip(cluster("shared", "1/1m")) }]);
    for bytes in [
        &b"4"[..],
        b"4abc",
        b"6aaaaaaaaaaaaaaa",
        b"t",
        b"t\x05\0\0\0\0\0\0\0abc",
        b"x",
        b"t\xff\xff\xff\xff\xff\xff\xff\xffa",
    ] {
        let events = sluicegate_engine::sluice::BanEvent {
            rule: "shared".to_owned(),
            name: "?".to_owned(),
            key: bytes.into(),
            remaining: Some(SECOND),
        };
        assert!(!sluice.apply_ban_event(&events), "{}", bytes.escape_ascii());
    }
    assert!(sluice.bans().is_empty());
}

#[test]
fn shared_lists_apply_next_to_local_lists() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [cluster("all", "9/1m")]);
    let entry = |text: &str| sluicegate_engine::rule::Expr::parse(text).unwrap();
    let deny = |texts: &[&str]| Lists { allow: Vec::new(), deny: texts.iter().map(|text| entry(text)).collect() };
    sluice.replace(vec![cluster("all", "9/1m")], deny(&["client.ip == 10.0.0.1"])).unwrap();
    sluice.set_shared_lists(deny(&["client.ip == 10.0.0.2"])).unwrap();
    let denied = |ip| !sluice.decide(&from(ip)).is_admitted();
    assert!(denied("10.0.0.1") && denied("10.0.0.2") && !denied("10.0.0.3"));
    sluice.replace(vec![cluster("all", "9/1m")], Lists::default()).unwrap();
    assert!(!denied("10.0.0.1") && denied("10.0.0.2"));
    sluice.set_shared_lists(Lists::default()).unwrap();
    assert!(!denied("10.0.0.2"));
}

/// A request that was refused by the lease and then queued calls the store afterwards: queueing does not bypass
/// the store.
#[test]
fn a_queued_request_queries_the_store_again() {
    let (clock, store) = start();
    let rule = queued(with(OnStoreFailure::Closed, local("all", "1/1h")), 3 * SECOND, 9);
    let sluice = process(&clock, &store, [rule, cluster("other", "9/1h")]);
    assert!(sluice.decide(&get()).is_admitted());
    store.calls.lock().unwrap().clear();
    store.rule("all").refusals.store(1, Ordering::SeqCst);
    let mut task = Task::new(sluice.admit(&get()));
    assert!(task.poll().is_pending());
    clock.advance(SECOND);
    assert!(matches!(task.poll(), Poll::Ready(outcome) if !outcome.is_admitted()), "one per hour, already used");
    assert_eq!(store.calls.lock().unwrap()[0].len(), 2);
}

/// A lease charge of a shadow rule is not repeated in the store.
#[test]
fn a_shadow_rule_with_a_lease_is_counted_once() {
    let (clock, store) = start();
    let bucket = Limit::token_bucket(Rate::per_second(1).unwrap(), 1).unwrap();
    let rule = queued(with(OnStoreFailure::Closed, Rule::new("all", [bucket])), 3 * SECOND, 9);
    let shadow = Rule { mode: Mode::Shadow, ..cluster("watch", "9/1m") };
    let sluice = process(&clock, &store, [rule, shadow]);
    assert!(sluice.decide(&get()).is_admitted());
    let mut task = Task::new(sluice.admit(&get()));
    assert!(task.poll().is_pending());
    *store.rule("watch").slice.lock().unwrap() = Some(5);
    store.calls.lock().unwrap().clear();
    clock.advance(SECOND);
    assert!(matches!(task.poll(), Poll::Ready(outcome) if outcome.is_admitted()));
    assert_eq!(store.calls.lock().unwrap().len(), 1, "decided from the lease");
    assert_eq!(*store.rule("watch").slice.lock().unwrap(), Some(4));
}

/// Store calls of one request run concurrently: otherwise each would cost a timeout.
#[test]
fn store_calls_run_concurrently() {
    let (clock, store) = start();
    let shadow = |name| Rule { mode: Mode::Shadow, ..cluster(name, "1/1m") };
    let sluice = process(&clock, &store, [cluster("all", "3/1m"), shadow("one"), shadow("two")]);
    store.set_reply_mode(ReplyMode::Later);
    let mut task = Task::new(sluice.admit(&get()));
    assert!(task.poll().is_pending());
    assert_eq!(store.poll_count(), 3);
}

/// A request counts once, regardless of the number of retries while queued.
#[test]
fn retries_without_the_store_count_as_one_request() {
    let (clock, store) = start();
    let rule = queued(with(OnStoreFailure::Closed, local("all", "9/1m")), SECOND, 9);
    let sluice = process(&clock, &store, [rule]);
    store.set_reply_mode(ReplyMode::Lost);
    let mut task = Task::new(sluice.admit(&get()));
    for _ in 0..50 {
        assert!(task.poll().is_pending());
        clock.advance(Duration::from_millis(10));
    }
    clock.advance(SECOND);
    assert!(matches!(task.poll(), Poll::Ready(outcome) if !outcome.is_admitted() && outcome.is_degraded()));
    let counts = &sluice.counts()[0];
    assert_eq!((counts.admitted, counts.refused, counts.degraded), (0, 1, 1));
}

/// An unavailable store is not a refusal by a limit.
#[test]
fn an_unavailable_store_causes_no_bans() {
    for policy in [OnStoreFailure::Closed, OnStoreFailure::LocalShare] {
        let (clock, store) = start();
        store.nodes.store(4, Ordering::SeqCst);
        let ban = Ban { after: 2, within: 60 * SECOND, duration: 600 * SECOND };
        let sluice =
            process(&clock, &store, [Rule { ban: Some(ban), ..by_ip(with(policy, local("per-ip", "20/1m"))) }]);
        store.set_reply_mode(ReplyMode::Lost);
        let refused = (0..10).filter(|_| !sluice.decide(&from("10.0.0.1")).is_admitted()).count();
        assert!(refused >= 5, "{policy:?}");
        assert!(sluice.bans().is_empty() && sluice.drain_ban_events().is_empty(), "{policy:?}");
        store.set_reply_mode(ReplyMode::Now);
        assert!(sluice.decide(&from("10.0.0.1")).is_admitted(), "{policy:?}");
    }
}
