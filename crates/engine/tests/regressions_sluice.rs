//! Faults of `sluice` that were found once: each test explains the one it guards against.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::time::Duration;

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, Ban, Cost, Lists, Queue, Request, Rule, Target};
use sluicegate_engine::{Limit, Sluice};
use support::*;

fn rule(name: &str, limits: impl Into<Vec<Limit>>) -> Rule {
    Rule::new(name, limits)
}

fn on(target: &str, rule: Rule) -> Rule {
    Rule { target: Target::parse(target).unwrap(), ..rule }
}

fn queued(mut rule: Rule, max_wait: Duration, max_waiting: u32) -> Rule {
    rule.on_limit.queue = Some(Queue { max_wait, max_waiting });
    rule
}

fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).build().unwrap()
}

fn get(path: &str) -> Request<'_> {
    Request::new("GET", path)
}

/// A capacity that cannot be is found out only when the limits of the rules before have changed.
#[test]
fn a_set_refused_for_its_capacity_changes_nothing() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [rule("a", [bucket("1/s", 5)])]);
    let mut bad = rule("b", [bucket("1/s", 1)]);
    bad.key = vec![Attribute::ClientIp.into()];
    bad.max_keys = Some(0);
    let changed = rule("a", [bucket("1/s", 1)]);
    assert!(sluice.replace(vec![changed, bad], Lists::default()).is_err());
    let admitted = (0..9).filter(|_| sluice.decide(&get("/")).is_admitted()).count();
    assert_eq!(admitted, 5, "the limits of a set that was refused are in force");
}

/// A rule that keeps its limits keeps its limiter, and with it the old bound of its line.
#[test]
fn a_changed_bound_of_the_line_is_taken_over() {
    let clock = ManualClock::new();
    let limits = [bucket("1/s", 1)];
    let sluice = sluice(&clock, [queued(rule("a", limits), secs(100), 1)]);
    sluice.replace(vec![queued(rule("a", limits), secs(100), 3)], Lists::default()).unwrap();
    assert!(sluice.decide(&get("/")).is_admitted());
    let line: Vec<_> = (0..5)
        .map(|_| Task::new(sluice.admit(&get("/"))))
        .filter_map(|mut task| task.poll().is_pending().then_some(task))
        .collect();
    assert_eq!(line.len(), 3);
}

/// "A rule is the same if it has the same name and key": but a cost that becomes an estimate makes it
/// another, with a new burst for everybody.
#[test]
fn a_cost_that_becomes_an_estimate_is_no_new_burst() {
    let clock = ManualClock::new();
    let limited = rule("a", [bucket("1/m", 10)]);
    let sluice = sluice(&clock, [Rule { cost: Cost::Fixed(10), ..limited.clone() }]);
    assert!(sluice.decide(&get("/")).is_admitted());
    sluice.replace(vec![Rule { cost: Cost::estimate(10), ..limited }], Lists::default()).unwrap();
    assert!(!sluice.decide(&get("/")).is_admitted(), "twenty within a burst of ten");
}

/// A refusal that could have waited is left uncounted for whoever waits on its behalf. But `decide` never
/// waits, so what it refuses is never counted and never leads to a ban.
#[test]
fn what_decide_refuses_is_counted_where_admit_would_wait() {
    let clock = ManualClock::new();
    let mut limited = queued(rule("a", [bucket("1/m", 1)]), secs(1), 5);
    limited.ban = Some(Ban { after: 3, within: secs(60), lasting: secs(600) });
    let sluice = sluice(&clock, [limited]);
    for _ in 0..6 {
        let _ = sluice.decide(&get("/"));
    }
    let counts = &sluice.counts()[0];
    assert_eq!((counts.admitted, counts.refused + counts.banned), (1, 5));
    assert_eq!(sluice.bans().len(), 1);
}

/// Two rules refuse; the worse of them would let the request wait, the other does not. So it does not
/// wait, and nobody counts it.
#[test]
fn what_may_not_wait_after_all_is_counted() {
    let clock = ManualClock::new();
    let waits = queued(rule("waits", [bucket("1/h", 1)]), secs(10_000), 5);
    let refuses = rule("refuses", [bucket("1/m", 1)]);
    let sluice = sluice(&clock, [waits, refuses]);
    assert!(Task::new(sluice.admit(&get("/"))).now().is_admitted());
    assert!(!Task::new(sluice.admit(&get("/"))).now().is_admitted());
    assert_eq!(sluice.counts().iter().map(|rule| rule.refused).collect::<Vec<_>>(), [1, 1]);
}

/// A request in the line of one rule finds, when its turn comes, that another rule's permits are out.
/// When they come back, the line of that other rule is woken; the request stands in the first.
#[test]
fn a_request_in_one_line_is_woken_by_permits_of_another_rule() {
    let clock = ManualClock::new();
    let paced = on("/a/**", queued(rule("paced", [bucket("1/s", 1)]), secs(100), 5));
    let inside = on("/a/b", queued(rule("inside", [permits(1)]), secs(100), 5));
    let solo = on("/c", rule("solo", [permits(9)]));
    let sluice = sluice(&clock, [paced, Rule { target: Target::default(), ..inside }, solo]);
    // The first request takes the token of `paced` and gives its permit back at once.
    drop(sluice.decide(&get("/a/b")));
    let mut waits = waiting(sluice.admit(&get("/a/b")));
    // Somebody whom only `inside` concerns takes the permit.
    let holder = sluice.decide(&get("/c"));
    assert!(holder.is_admitted());
    clock.advance(secs(1));
    assert!(waits.poll_if_woken().is_none(), "the token is there, the permit is not");
    clock.advance(secs(1));
    drop(holder);
    assert!(waits.is_woken(), "the permit is back, and nobody tells: it sleeps until its deadline");
    assert!(waits.poll_if_woken().unwrap().is_admitted());
}

/// Each rule says how long a request may wait for it. Refused by both, it waits as long as the one with
/// the longer line says, though the other allows a tenth of a second.
#[test]
fn nobody_waits_longer_than_every_rule_allows() {
    let clock = ManualClock::new();
    let long = queued(rule("long", [bucket("1/2s", 1)]), secs(60), 5);
    let short = queued(rule("short", [bucket("1/s", 1)]), ms(100), 5);
    let sluice = sluice(&clock, [long, short]);
    assert!(sluice.decide(&get("/")).is_admitted());
    assert!(Task::new(sluice.admit(&get("/"))).poll().is_ready(), "`short` allows no wait of a second");
}

/// A leaky bucket lets requests in after a pause, and a rule says how long and how many may wait. The two
/// do not know of each other: `admit` answers at once, with any pause and for any number.
#[test]
fn nobody_is_told_to_pause_for_longer_than_the_rule_allows() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [queued(rule("paced", [leaky("1/s", 100)]), secs(2), 100)]);
    for _ in 0..10 {
        if let std::task::Poll::Ready(outcome) = Task::new(sluice.admit(&get("/"))).poll()
            && let sluicegate_engine::Verdict::Wait(pause) = outcome.verdict()
        {
            assert!(pause <= secs(2), "a pause of {pause:?}");
        }
    }
}

/// A leaky bucket that lets a request in after a pause does so at once when it is asked alone. Asked on
/// behalf of a request that waited for another rule, it refuses instead, and for good.
#[test]
fn a_leaky_bucket_admits_after_a_pause_also_whoever_waited_elsewhere() {
    let clock = ManualClock::new();
    let waits = on("/a", queued(rule("waits", [bucket("1/s", 1)]), secs(60), 5));
    let paced = rule("paced", [leaky("1/10s", 9)]);
    let sluice = sluice(&clock, [waits, paced]);
    assert!(sluice.decide(&get("/a")).is_admitted());
    assert!(sluice.decide(&get("/other")).is_admitted(), "a pause of ten seconds, but let in");
    let mut line = [Task::new(sluice.admit(&get("/a")))];
    let outcome = match line[0].poll() {
        std::task::Poll::Ready(outcome) => outcome,
        std::task::Poll::Pending => run(&clock, &mut line).remove(0).output,
    };
    assert!(outcome.is_admitted(), "{outcome:?}");
}

fn per_ip(name: &str, limits: impl Into<Vec<Limit>>) -> Rule {
    Rule { key: vec![Attribute::ClientIp.into()], ..rule(name, limits) }
}

/// Bytes for all keys; whole buckets may take a little more.
const GIVEN: usize = 1 << 20;

fn small(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(GIVEN).build().unwrap()
}

fn visit(sluice: &Sluice, clients: u32) {
    for client in 0..clients {
        let _ = sluice.decide(&get("/").with_client_ip(client.to_be_bytes()));
    }
}

/// The books of bans have tables of their own, four times the size of a bucket's, and nobody counts them.
#[test]
fn bans_are_part_of_the_memory_that_was_given() {
    let clock = ManualClock::new();
    let ban = Ban { after: 3, within: secs(60), lasting: secs(600) };
    let sluice = small(&clock, [Rule { ban: Some(ban), ..per_ip("a", [bucket("1/s", 1)]) }]);
    assert!(sluice.bytes() <= GIVEN + 4_096, "{} bytes of {GIVEN}", sluice.bytes());
}

/// Rules that go on keep their tables as large as they were when they had more memory to themselves.
#[test]
fn rules_added_later_do_not_take_more_memory_than_was_given() {
    let clock = ManualClock::new();
    let sluice = small(&clock, []);
    let mut rules = Vec::new();
    for number in 0..20 {
        rules.push(per_ip(&format!("rule {number}"), [bucket("1/s", 1)]));
        sluice.replace(rules.clone(), Lists::default()).unwrap();
    }
    assert!(sluice.bytes() <= GIVEN + 4_096, "{} bytes of {GIVEN}", sluice.bytes());
}

/// A change of limits keeps the number of keys, whatever the states of the new limits need: here a
/// thousand words instead of one.
#[test]
fn changed_limits_do_not_take_more_memory_than_was_given() {
    let clock = ManualClock::new();
    let sluice = small(&clock, [per_ip("a", [bucket("1/s", 1)])]);
    sluice.replace(vec![per_ip("a", [log(1_000, secs(60))])], Lists::default()).unwrap();
    visit(&sluice, 2_000);
    assert!(sluice.bytes() <= GIVEN + 4_096, "{} bytes of {GIVEN}", sluice.bytes());
}

/// A rule's share of memory depends on how many rules there are. One more after a restart, and the
/// tables of all others have another size than the saved ones: bans and limits are gone without a word.
#[test]
fn bans_survive_a_restart_with_one_more_rule() {
    let clock = ManualClock::new();
    let ban = Ban { after: 1, within: secs(60), lasting: secs(600) };
    let rules = vec![Rule { ban: Some(ban), ..per_ip("a", [bucket("1/h", 1)]) }];
    let before = small(&clock, rules.clone());
    let bad = get("/").with_client_ip([10, 0, 0, 1]);
    for _ in 0..3 {
        let _ = before.decide(&bad);
    }
    assert_eq!(before.bans().len(), 1);
    let more = [rules, vec![per_ip("b", [bucket("1/s", 100)])]].concat();
    let builder = Sluice::builder().rules(more).clock(clock.clone()).memory(GIVEN);
    let after = builder.restore(before.save()).build().unwrap();
    assert!(!after.decide(&bad).is_admitted(), "the ban is forgotten, and so is the limit");
}

/// A table that changes its size hands a key to all buckets it may belong to. When it changes again, the
/// copies nobody used meet the key's own state, and must not take its place.
#[test]
fn copies_left_by_a_change_of_size_do_not_come_back() {
    let clock = ManualClock::new();
    let one = || vec![per_ip("a", [bucket("1/h", 10)])];
    let with = |more: usize| {
        let others = (0..more).map(|number| on("/elsewhere", per_ip(&format!("other {number}"), [bucket("1/s", 1)])));
        [one(), others.collect()].concat()
    };
    let sluice = small(&clock, with(3));
    let address = |number: u16| get("/").with_client_ip([10, 0, number.to_be_bytes()[0], number.to_be_bytes()[1]]);
    let take = |rounds: usize| {
        (0..500).map(|number| (0..rounds).filter(|_| sluice.decide(&address(number)).is_admitted()).count()).collect()
    };
    let first: Vec<usize> = take(1);
    sluice.replace(with(0), Lists::default()).unwrap();
    let second: Vec<usize> = take(6);
    sluice.replace(with(3), Lists::default()).unwrap();
    let third: Vec<usize> = take(10);
    for (number, taken) in first.iter().zip(&second).zip(&third).map(|((a, b), c)| a + b + c).enumerate() {
        assert!(taken <= 10, "address {number} was let in {taken} times");
    }
}
