//! Rules that a store counts for a whole fleet: shared counts, all or nothing with local rules, what holds
//! without the store, waiting, and nothing lost on the way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod paper_store;
#[path = "../support/mod.rs"]
mod support;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use paper_store::{Manner, PaperStore};
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

fn process(clock: &ManualClock, store: &Arc<PaperStore>, rules: impl IntoIterator<Item = Rule>) -> Sluice {
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

fn start() -> (ManualClock, Arc<PaperStore>) {
    let clock = ManualClock::new();
    let store = PaperStore::new(&clock);
    (clock, store)
}

#[test]
fn processes_share_one_threshold() {
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

/// What local rules took goes back when the store refuses, and the store is not asked when they refuse.
#[test]
fn all_or_nothing_with_local_rules() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [local("here", "4/1m"), cluster("fleet", "2/1m"), permits("inside", 3)]);
    assert_eq!(admitted(&sluice, 10), 2);
    assert_eq!(store.asked.lock().unwrap().len(), 10);
    // Two were taken here, not ten: so two are left, once the fleet has room again.
    sluice.replace(vec![local("here", "4/1m"), permits("inside", 3)], Lists::default()).unwrap();
    assert_eq!(admitted(&sluice, 10), 2);
    sluice.replace(vec![local("here", "4/1m"), cluster("fleet", "9/1m")], Lists::default()).unwrap();
    store.asked.lock().unwrap().clear();
    assert_eq!(admitted(&sluice, 10), 0);
    assert!(store.asked.lock().unwrap().is_empty(), "refused here: nothing to ask");
}

#[test]
fn all_cluster_rules_are_asked_in_one_question() {
    let (clock, store) = start();
    let rules = [cluster("total", "9/1m"), by_ip(cluster("per-ip", "1/1m")), by_ip(local("here", "9/1m"))];
    let sluice = process(&clock, &store, rules);
    assert!(sluice.decide(&from("10.0.0.1")).is_admitted());
    let asked = store.asked.lock().unwrap().clone();
    let key = [b"4".as_slice(), &[10, 0, 0, 1]].concat();
    assert_eq!(asked, [vec![("total".to_owned(), vec![], 1), ("per-ip".to_owned(), key, 1)]]);
    let refused = sluice.decide(&from("10.0.0.1"));
    assert_eq!((refused.cause(), refused.rule().unwrap().name.as_str()), (Cause::Limit(1), "per-ip"));
    assert!(matches!(refused.verdict(), Verdict::Denied { retry_after: Some(_) }));
}

#[test]
fn a_lost_store_is_the_rules_own_matter() {
    for (policy, expected) in [(OnStoreFailure::Open, 20), (OnStoreFailure::Closed, 0), (OnStoreFailure::LocalShare, 3)]
    {
        let (clock, store) = start();
        store.nodes.store(4, Ordering::SeqCst);
        let sluice = process(&clock, &store, [with(policy, local("all", "12/1m"))]);
        store.answers(Manner::Lost);
        let outcome = sluice.decide(&get());
        assert!(outcome.is_degraded());
        assert!(outcome.decisions().all(|(_, said)| said.degraded));
        assert_eq!(admitted(&sluice, 19) + u32::from(outcome.is_admitted()), expected, "{policy:?}");
        assert_eq!(sluice.counts()[0].degraded, 20);
        store.answers(Manner::Now);
        assert!(!sluice.decide(&get()).is_degraded());
        assert_eq!(sluice.counts()[0].degraded, 20);
    }
}

#[test]
fn the_share_follows_the_number_of_processes() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [cluster("all", "12/1m")]);
    store.answers(Manner::Lost);
    store.nodes.store(6, Ordering::SeqCst);
    assert_eq!(admitted(&sluice, 9), 2);
    store.nodes.store(3, Ordering::SeqCst);
    assert!(admitted(&sluice, 9) <= 2, "four in all, two of them spent");
    store.nodes.store(6, Ordering::SeqCst);
    assert_eq!(admitted(&sluice, 9), 0, "more than the share is spent");
    clock.advance(120 * SECOND);
    assert_eq!(admitted(&sluice, 9), 2);
}

#[test]
fn fewer_permits_than_processes_are_none_for_each() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [with(OnStoreFailure::LocalShare, permits("inside", 3))]);
    store.answers(Manner::Lost);
    store.nodes.store(4, Ordering::SeqCst);
    assert!(!sluice.decide(&get()).is_admitted());
    store.nodes.store(3, Ordering::SeqCst);
    let held = sluice.decide(&get());
    assert!(held.is_admitted() && held.is_held() && !sluice.decide(&get()).is_admitted());
    drop(held);
    assert!(sluice.decide(&get()).is_admitted());
}

#[test]
fn an_answer_may_take_its_time() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [permits("inside", 1), cluster("all", "1/1m")]);
    store.answers(Manner::Later);
    let mut task = Task::new(sluice.admit(&get()));
    assert!(task.poll().is_pending() && !task.is_woken());
    store.deliver();
    assert!(task.is_woken());
    let Poll::Ready(outcome) = task.poll() else { panic!() };
    assert!(outcome.is_admitted() && outcome.is_held());
}

/// A caller who gives up while the store is asked leaves no trace, here or there.
#[test]
fn giving_up_takes_everything_back() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [permits("inside", 1), local("here", "1/1m"), cluster("all", "1/1m")]);
    store.answers(Manner::Later);
    let mut task = Task::new(sluice.admit(&get()));
    assert!(task.poll().is_pending());
    drop(task);
    assert_eq!(store.dropped(), 1);
    store.answers(Manner::Now);
    assert!(sluice.decide(&get()).is_admitted());
}

#[test]
fn a_thread_can_wait_for_the_store() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [cluster("all", "1/1m")]);
    store.answers(Manner::Later);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| sluice.decide(&get()).is_admitted());
        while store.asked.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        store.deliver();
        assert!(waiting.join().unwrap());
    });
}

#[test]
fn a_slice_decides_at_once() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [local("here", "3/1m"), cluster("fleet", "9/1m")]);
    *store.rule("fleet").slice.lock().unwrap() = Some(2);
    assert_eq!(admitted(&sluice, 2), 2);
    assert!(store.asked.lock().unwrap().is_empty());
    assert_eq!(admitted(&sluice, 2), 1, "the third from the store, the fourth refused here");
    assert_eq!(store.asked.lock().unwrap().len(), 1);
}

/// Where one rule could decide at once and another must ask, they are asked together.
#[test]
fn a_slice_is_given_back_where_the_store_must_be_asked() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [cluster("sliced", "9/1m"), cluster("asked", "1/1m")]);
    *store.rule("sliced").slice.lock().unwrap() = Some(5);
    assert_eq!(admitted(&sluice, 3), 1);
    assert_eq!(*store.rule("sliced").slice.lock().unwrap(), Some(5));
    assert!(store.asked.lock().unwrap().iter().all(|question| question.len() == 2));
}

#[test]
fn an_estimate_is_settled_wherever_it_was_taken() {
    let (clock, store) = start();
    let bucket = Limit::token_bucket(Rate::per_minute(60).unwrap(), 100).unwrap();
    let rule = Rule { cost: Cost::estimate(40), ..with(OnStoreFailure::Open, Rule::new("tokens", [bucket])) };
    let sluice = process(&clock, &store, [rule]);
    let outcome = sluice.decide(&get());
    assert!(outcome.is_held(), "to be settled");
    outcome.settle(7);
    drop(sluice.decide(&get()));
    sluice.decide(&get()).give_back();
    assert_eq!(*store.ended.lock().unwrap(), [[7], [40], [0]]);
    *store.rule("tokens").slice.lock().unwrap() = Some(50);
    let outcome = sluice.decide(&get());
    assert!(outcome.is_held());
    outcome.settle(12);
    assert_eq!(*store.rule("tokens").settled.lock().unwrap(), [(40, 12)]);
    assert_eq!(*store.rule("tokens").slice.lock().unwrap(), Some(38));
}

#[test]
fn the_refused_may_wait_for_the_store() {
    let (clock, store) = start();
    let bucket = Limit::token_bucket(Rate::per_second(1).unwrap(), 1).unwrap();
    let rule = queued(with(OnStoreFailure::Closed, Rule::new("all", [bucket])), 3 * SECOND, 2);
    let sluice = process(&clock, &store, [permits("inside", 9), rule]);
    assert!(sluice.admit(&get()).decided().is_none(), "given up before it was looked at: as if it had never been");
    let mut first = Task::new(sluice.admit(&get()));
    let mut second = Task::new(sluice.admit(&get()));
    let mut third = Task::new(sluice.admit(&get()));
    let admitted = |poll: Poll<Outcome>| matches!(poll, Poll::Ready(outcome) if outcome.is_admitted());
    assert!(admitted(first.poll()));
    assert!(second.poll().is_pending() && third.poll().is_pending());
    assert_eq!(sluice.counts()[1].waiting, 2);
    let mut fourth = Task::new(sluice.admit(&get()));
    assert!(matches!(fourth.poll(), Poll::Ready(outcome) if !outcome.is_admitted()), "two wait already");
    clock.advance(SECOND);
    assert!(admitted(second.poll()) && third.poll().is_pending());
    assert_eq!(sluice.counts()[1].waiting, 1);
    drop(third);
    assert_eq!(sluice.counts()[1].waiting, 0);
    let counts = &sluice.counts()[1];
    assert_eq!((counts.admitted, counts.refused), (2, 1));
    assert_eq!((counts.waited, counts.waits.sum), (2, 2 * SECOND), "the second and the third, a second each");
}

#[test]
fn permits_of_the_store_are_counted_while_they_are_out() {
    let (clock, store) = start();
    let both = Rule { limits: vec![Limit::concurrency(9).unwrap(), "90/1m".parse().unwrap()], ..permits("both", 9) };
    let rules = [permits("inside", 9), both].map(|rule| with(OnStoreFailure::LocalShare, rule));
    let sluice = process(&clock, &store, rules.clone());
    let out = || sluice.counts().iter().map(|counts| counts.permits).collect::<Vec<_>>();
    let three = sluice.decide(&get().with_cost(3));
    let one = sluice.decide(&get());
    assert_eq!(out(), [Some(4), Some(2)], "beside a rate a request holds one, whatever it costs");
    drop(sluice.decide(&get().with_cost(0)));
    drop(sluice.decide(&get().with_cost(6)));
    assert_eq!(out(), [Some(4), Some(2)], "a refusal holds nothing");
    sluice.replace(rules.into(), Lists::default()).unwrap();
    one.give_back();
    store.answers(Manner::Lost);
    let own = sluice.decide(&get().with_cost(2));
    assert_eq!(out(), [Some(5), Some(2)], "those of the share are out too");
    drop((three, own));
    assert_eq!(out(), [Some(0), Some(0)]);
}

#[test]
fn who_cannot_make_it_is_refused_at_once() {
    let (clock, store) = start();
    let rule = queued(cluster("all", "1/1m"), SECOND, 10);
    let sluice = process(&clock, &store, [rule]);
    assert!(sluice.decide(&get()).is_admitted());
    let mut task = Task::new(sluice.admit(&get()));
    assert!(matches!(task.poll(), Poll::Ready(outcome) if !outcome.is_admitted()));
    assert_eq!(clock.alarms(), 0);
}

/// In line for a local rule first, then the store is asked.
#[test]
fn a_turn_here_comes_before_the_store() {
    let (clock, store) = start();
    let bucket = Limit::token_bucket(Rate::per_second(1).unwrap(), 1).unwrap();
    let here = queued(Rule::new("here", [bucket]), 5 * SECOND, 10);
    let sluice = process(&clock, &store, [here, cluster("fleet", "2/1m")]);
    assert!(sluice.decide(&get()).is_admitted());
    let mut second = Task::new(sluice.admit(&get()));
    let mut third = Task::new(sluice.admit(&get()));
    assert!(second.poll().is_pending() && third.poll().is_pending());
    assert_eq!(store.asked.lock().unwrap().len(), 1, "nobody is asked for who waits here");
    clock.advance(SECOND);
    assert!(matches!(second.poll(), Poll::Ready(outcome) if outcome.is_admitted()));
    clock.advance(SECOND);
    let Poll::Ready(refused) = third.poll() else { panic!() };
    assert_eq!(refused.cause(), Cause::Limit(1));
    let counts: Vec<_> = sluice.counts().iter().map(|counts| (counts.admitted, counts.refused)).collect();
    assert_eq!(counts, [(2, 0), (2, 1)]);
    assert!(sluice.decide(&get()).rule().is_some_and(|rule| rule.name == "fleet"), "the token went back");
}

#[test]
fn refusals_by_the_store_lead_to_bans() {
    let (clock, store) = start();
    let ban = Ban { after: 2, within: 60 * SECOND, lasting: 600 * SECOND };
    let rule = Rule { ban: Some(ban), ..by_ip(cluster("per-ip", "1/1m")) };
    let sluice = process(&clock, &store, [rule]);
    let causes: Vec<Cause> = (0..4).map(|_| sluice.decide(&from("10.0.0.1")).cause()).collect();
    assert_eq!(causes, [Cause::Rules, Cause::Limit(0), Cause::Limit(0), Cause::Ban(0)]);
    assert_eq!(sluice.bans()[0].key, "10.0.0.1");
    assert_eq!(store.asked.lock().unwrap().len(), 3, "who is banned is not asked for");
}

#[test]
fn a_watching_rule_of_the_fleet_refuses_nobody() {
    let (clock, store) = start();
    let watching = Rule { mode: Mode::Shadow, ..cluster("watch", "1/1m") };
    let sluice = process(&clock, &store, [watching, cluster("all", "3/1m")]);
    let outcomes: Vec<Outcome> = (0..4).map(|_| sluice.decide(&get())).collect();
    let admitted: Vec<bool> = outcomes.iter().map(Outcome::is_admitted).collect();
    assert_eq!(admitted, [true, true, true, false]);
    let would: Vec<usize> = outcomes.iter().map(|outcome| outcome.would_refuse().count()).collect();
    assert_eq!(would, [0, 1, 1, 1]);
}

#[test]
fn limits_the_store_cannot_keep_are_not_put_in_force() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [cluster("all", "1/1m")]);
    let warm = Limit::warm_up(Rate::per_second(10).unwrap(), 10 * SECOND, 3).unwrap();
    let wrong = with(OnStoreFailure::Open, Rule::new("warm", [warm]));
    assert!(sluice.replace(vec![wrong], Lists::default()).is_err());
    assert_eq!(admitted(&sluice, 3), 1, "the last good rules go on");
}

/// What a store refuses is refused before any rule has changed.
#[test]
fn rules_before_the_refused_one_do_not_change() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [local("here", "2/1h")]);
    let warm = Limit::warm_up(Rate::per_second(10).unwrap(), 10 * SECOND, 3).unwrap();
    let wrong = with(OnStoreFailure::Open, Rule::new("warm", [warm]));
    assert!(sluice.replace(vec![local("here", "9/1h"), wrong], Lists::default()).is_err());
    assert_eq!(admitted(&sluice, 10), 2);
}

#[test]
fn bans_are_told_and_heard() {
    let (clock, store) = start();
    let ban = Ban { after: 1, within: 60 * SECOND, lasting: 600 * SECOND };
    let rules = || {
        let shared = Rule { ban: Some(ban), ..by_ip(cluster("shared", "1/1m")) };
        let own = Rule { ban: Some(ban), ..by_ip(local("own", "100/1m")) };
        [shared, own]
    };
    let [one, other] = [0, 1].map(|_| process(&clock, &store, rules()));
    assert!(one.decide(&from("2001:db8::1")).is_admitted());
    assert!(!one.decide(&from("2001:db8::1")).is_admitted());
    clock.advance(100 * SECOND);
    let all = one.bans_to_tell();
    assert_eq!(all[0].remaining, Some(500 * SECOND));
    let news = one.ban_news();
    assert_eq!((news.len(), news[0].remaining), (1, Some(600 * SECOND)));
    assert_eq!(news[0].name, "2001:db8::/64");
    assert!(one.ban_news().is_empty(), "told once");

    assert!(other.hear_ban(&all[0]));
    assert!(other.ban_news().is_empty(), "what was heard is no news");
    assert_eq!(other.decide(&from("2001:db8::2")).cause(), Cause::Ban(0), "the same network");
    assert_eq!(other.bans()[0].remaining, 500 * SECOND);
    assert_eq!(other.decide(&from("2001:db9::2")).cause(), Cause::Rules);
    clock.advance(499 * SECOND);
    assert_eq!(other.decide(&from("2001:db8::2")).cause(), Cause::Ban(0));

    assert!(other.lift_ban("shared", "2001:db8::/64"));
    let lifted = other.ban_news();
    assert_eq!(lifted[0].remaining, None);
    assert_eq!(one.decide(&from("2001:db8::1")).cause(), Cause::Ban(0));
    assert!(one.hear_ban(&lifted[0]));
    assert!(one.decide(&from("2001:db8::1")).is_admitted() && one.bans().is_empty());
    assert!(!one.hear_ban(&sluicegate_engine::sluice::BanNews { rule: "none".to_owned(), ..lifted[0].clone() }));
}

/// Nobody can make a key of bytes that no process writes.
/// Its limits are in the store, but its bans are here and everywhere.
#[test]
fn a_ban_by_hand_is_told_to_the_fleet() {
    let (clock, store) = start();
    let ban = Some(Ban { after: 2, within: 60 * SECOND, lasting: 60 * SECOND });
    let rules = || [Rule { ban, ..by_ip(cluster("all", "9/1h")) }];
    let (one, other) = (process(&clock, &store, rules()), process(&clock, &store, rules()));
    assert_eq!(one.peek("all", &["203.0.113.9"]), Err(KeyError::Elsewhere));
    assert_eq!(one.reset("all", &["203.0.113.9"]), Err(KeyError::Elsewhere));
    one.ban("all", &["203.0.113.9"], Some(30 * SECOND)).unwrap();
    let news = one.ban_news();
    assert_eq!(news.len(), 1);
    assert!(news.iter().all(|news| other.hear_ban(news)));
    assert_eq!(one.bans(), other.bans());
    assert!(!other.decide(&from("203.0.113.9")).is_admitted());
    one.ban("all", &["203.0.113.9"], Some(SECOND)).unwrap();
    assert!(one.ban_news().is_empty(), "the longer one stays, and everybody knows of it");
}

#[test]
fn keys_that_nobody_wrote_are_not_heard() {
    let (clock, store) = start();
    let ban = Ban { after: 1, within: 60 * SECOND, lasting: 600 * SECOND };
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
        let news = sluicegate_engine::sluice::BanNews {
            rule: "shared".to_owned(),
            name: "?".to_owned(),
            key: bytes.into(),
            remaining: Some(SECOND),
        };
        assert!(!sluice.hear_ban(&news), "{}", bytes.escape_ascii());
    }
    assert!(sluice.bans().is_empty());
}

#[test]
fn further_lists_hold_besides_the_rules_own() {
    let (clock, store) = start();
    let sluice = process(&clock, &store, [cluster("all", "9/1m")]);
    let entry = |text: &str| sluicegate_engine::rule::Expr::parse(text).unwrap();
    let deny = |texts: &[&str]| Lists { allow: Vec::new(), deny: texts.iter().map(|text| entry(text)).collect() };
    sluice.replace(vec![cluster("all", "9/1m")], deny(&["client.ip == 10.0.0.1"])).unwrap();
    sluice.set_further_lists(deny(&["client.ip == 10.0.0.2"])).unwrap();
    let denied = |ip| !sluice.decide(&from(ip)).is_admitted();
    assert!(denied("10.0.0.1") && denied("10.0.0.2") && !denied("10.0.0.3"));
    sluice.replace(vec![cluster("all", "9/1m")], Lists::default()).unwrap();
    assert!(!denied("10.0.0.1") && denied("10.0.0.2"));
    sluice.set_further_lists(Lists::default()).unwrap();
    assert!(!denied("10.0.0.2"));
}

/// Who was refused at once and waited is asked for when the time has come: waiting is no way past the store.
#[test]
fn who_waited_after_a_refusal_at_once_is_asked_for() {
    let (clock, store) = start();
    let rule = queued(with(OnStoreFailure::Closed, local("all", "1/1h")), 3 * SECOND, 9);
    let sluice = process(&clock, &store, [rule, cluster("other", "9/1h")]);
    assert!(sluice.decide(&get()).is_admitted());
    store.asked.lock().unwrap().clear();
    store.rule("all").refusals.store(1, Ordering::SeqCst);
    let mut task = Task::new(sluice.admit(&get()));
    assert!(task.poll().is_pending());
    clock.advance(SECOND);
    assert!(matches!(task.poll(), Poll::Ready(outcome) if !outcome.is_admitted()), "one an hour, and that was had");
    assert_eq!(store.asked.lock().unwrap()[0].len(), 2);
}

/// What a slice has for a watching rule is not asked for a second time.
#[test]
fn a_watching_rule_with_a_slice_is_counted_once() {
    let (clock, store) = start();
    let bucket = Limit::token_bucket(Rate::per_second(1).unwrap(), 1).unwrap();
    let rule = queued(with(OnStoreFailure::Closed, Rule::new("all", [bucket])), 3 * SECOND, 9);
    let watching = Rule { mode: Mode::Shadow, ..cluster("watch", "9/1m") };
    let sluice = process(&clock, &store, [rule, watching]);
    assert!(sluice.decide(&get()).is_admitted());
    let mut task = Task::new(sluice.admit(&get()));
    assert!(task.poll().is_pending());
    *store.rule("watch").slice.lock().unwrap() = Some(5);
    store.asked.lock().unwrap().clear();
    clock.advance(SECOND);
    assert!(matches!(task.poll(), Poll::Ready(outcome) if outcome.is_admitted()));
    assert_eq!(store.asked.lock().unwrap().len(), 1, "the slice has answered for it");
    assert_eq!(*store.rule("watch").slice.lock().unwrap(), Some(4));
}

/// Questions of one request are on their way together: each would cost a deadline otherwise.
#[test]
fn all_questions_are_asked_at_the_same_time() {
    let (clock, store) = start();
    let watching = |name| Rule { mode: Mode::Shadow, ..cluster(name, "1/1m") };
    let sluice = process(&clock, &store, [cluster("all", "3/1m"), watching("one"), watching("two")]);
    store.answers(Manner::Later);
    let mut task = Task::new(sluice.admit(&get()));
    assert!(task.poll().is_pending());
    assert_eq!(store.looked_at(), 3);
}

/// A request counts once, however often it was tried while it waited.
#[test]
fn tries_without_the_store_count_as_one_request() {
    let (clock, store) = start();
    let rule = queued(with(OnStoreFailure::Closed, local("all", "9/1m")), SECOND, 9);
    let sluice = process(&clock, &store, [rule]);
    store.answers(Manner::Lost);
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

/// Nobody has run into a limit where only the store was lost.
#[test]
fn a_lost_store_bans_nobody() {
    for policy in [OnStoreFailure::Closed, OnStoreFailure::LocalShare] {
        let (clock, store) = start();
        store.nodes.store(4, Ordering::SeqCst);
        let ban = Ban { after: 2, within: 60 * SECOND, lasting: 600 * SECOND };
        let sluice =
            process(&clock, &store, [Rule { ban: Some(ban), ..by_ip(with(policy, local("per-ip", "20/1m"))) }]);
        store.answers(Manner::Lost);
        let refused = (0..10).filter(|_| !sluice.decide(&from("10.0.0.1")).is_admitted()).count();
        assert!(refused >= 5, "{policy:?}");
        assert!(sluice.bans().is_empty() && sluice.ban_news().is_empty(), "{policy:?}");
        store.answers(Manner::Now);
        assert!(sluice.decide(&from("10.0.0.1")).is_admitted(), "{policy:?}");
    }
}
