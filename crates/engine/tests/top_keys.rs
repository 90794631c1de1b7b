//! Top keys by requests and refusals of a sluice.

use crate::support;

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, Ban, Lists, Mode, Queue, Request, Rule};
use sluicegate_engine::sluice::TopList;
use sluicegate_engine::{Limit, Rate, Sluice};
use support::*;

fn per_ip(name: &str, burst: u64) -> Rule {
    let bucket = Limit::token_bucket(Rate::new(1, secs(3_600)).unwrap(), burst).unwrap();
    Rule { key: vec![Attribute::ClientIp.into()], ..Rule::new(name, [bucket]) }
}

fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).track_keys().build().unwrap()
}

fn from(host: u8) -> Request<'static> {
    Request::new("GET", "/").with_client_ip([203, 0, 113, host])
}

/// Keys with their counts.
type KeyCounts = Vec<(String, u64)>;

fn key_counts(list: &TopList) -> KeyCounts {
    assert_eq!(list.error, 0);
    list.keys.iter().map(|top| (top.key.clone(), top.count)).collect()
}

fn top(sluice: &Sluice, rule: &str) -> (KeyCounts, KeyCounts) {
    let top = sluice.top_keys(rule).unwrap();
    (key_counts(&top.requested), key_counts(&top.refused))
}

fn ip(host: u8, count: u64) -> (String, u64) {
    (format!("203.0.113.{host}"), count)
}

#[test]
fn fast_path_and_full_decision_count_alike() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [per_ip("a", 3)]);
    for (host, times) in [(1, 2), (2, 5), (3, 4)] {
        for _ in 0..times {
            if sluice.fast_path().try_decide(&from(host)).is_none() {
                drop(sluice.decide(&from(host)));
            }
        }
    }
    assert_eq!(top(&sluice, "a"), (vec![ip(2, 5), ip(3, 4), ip(1, 2)], vec![ip(2, 2), ip(3, 1)]));
}

#[test]
fn requests_are_counted_by_number_not_cost_also_in_shadow_mode() {
    let clock = ManualClock::new();
    let shadow = Rule { mode: Mode::Shadow, ..per_ip("shadow", 1) };
    let sluice = sluice(&clock, [per_ip("a", 9), shadow, Rule::new("all", ["99/1h".parse().unwrap()])]);
    for _ in 0..2 {
        drop(sluice.decide(&from(1).with_cost(4)));
    }
    assert_eq!(top(&sluice, "a"), (vec![ip(1, 2)], vec![]));
    assert_eq!(top(&sluice, "shadow"), (vec![ip(1, 2)], vec![ip(1, 2)]));
    assert_eq!(sluice.top_keys("all"), None, "it has no key");
    assert_eq!(sluice.top_keys("none"), None);
}

#[test]
fn banned_requests_count_as_refused() {
    let clock = ManualClock::new();
    let ban = Some(Ban { after: 2, within: secs(60), duration: secs(600) });
    let sluice = sluice(&clock, [Rule { ban, ..per_ip("a", 1) }]);
    for _ in 0..7 {
        drop(sluice.decide(&from(1)));
    }
    assert_eq!(sluice.counts()[0].banned, 4);
    assert_eq!(top(&sluice, "a"), (vec![ip(1, 7)], vec![ip(1, 6)]));
}

/// The request is gone by the time it is decided, so its key is captured before.
#[test]
fn queued_requests_are_listed_by_key() {
    let clock = ManualClock::new();
    let bucket = Limit::token_bucket(Rate::per_second(1).unwrap(), 1).unwrap();
    let mut rule = Rule { limits: vec![bucket], ..per_ip("a", 1) };
    rule.on_limit.queue = Some(Queue { max_wait: ms(1_500), max_waiting: 9 });
    let sluice = sluice(&clock, [rule.clone()]);
    // No key is tracked yet: the queued request is the first to be counted.
    let held = sluice.rule("a").map(|rule| rule.decide(&from(2)));
    drop(held);
    let mut first = Task::new(sluice.admit(&from(2)));
    assert!(first.poll().is_pending());
    sluice.replace(vec![rule], Lists::default()).unwrap();
    clock.advance(secs(1));
    assert!(first.poll().is_ready());
    assert_eq!(top(&sluice, "a"), (vec![ip(2, 2)], vec![]));
}

#[test]
fn key_counts_follow_the_rule_across_reloads() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [per_ip("a", 3)]);
    drop(sluice.decide(&from(1)));
    sluice.replace(vec![per_ip("b", 1), per_ip("a", 9)], Lists::default()).unwrap();
    drop(sluice.rule("a").map(|rule| rule.decide(&from(1))));
    assert_eq!(top(&sluice, "a"), (vec![ip(1, 2)], vec![]));
    assert_eq!(top(&sluice, "b"), (vec![], vec![]));
    let other_key = Rule { key: vec![Attribute::Host.into()], ..per_ip("a", 9) };
    sluice.replace(vec![other_key], Lists::default()).unwrap();
    assert_eq!(top(&sluice, "a"), (vec![], vec![]));
}

#[test]
fn key_tracking_is_off_by_default() {
    let sluice = Sluice::builder().rule(per_ip("a", 3)).build().unwrap();
    drop(sluice.decide(&from(1)));
    assert_eq!(sluice.top_keys("a"), None);
}
