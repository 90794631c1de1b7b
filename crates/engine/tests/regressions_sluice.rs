//! Regression tests of `Sluice`; each test explains the bug it guards against.

use crate::support;

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

/// An invalid capacity was detected only after the limits of earlier rules had changed.
#[test]
fn a_rule_set_rejected_for_capacity_changes_nothing() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [rule("a", [bucket("1/s", 5)])]);
    let mut bad = rule("b", [bucket("1/s", 1)]);
    bad.key = vec![Attribute::ClientIp.into()];
    bad.max_keys = Some(0);
    let changed = rule("a", [bucket("1/s", 1)]);
    assert!(sluice.replace(vec![changed, bad], Lists::default()).is_err());
    let admitted = (0..9).filter(|_| sluice.decide(&get("/")).is_admitted()).count();
    assert_eq!(admitted, 5, "limits of a rejected rule set are active");
}

/// A rule with unchanged limits kept its limiter, and with it the old bound of its queue.
#[test]
fn a_changed_queue_bound_is_applied() {
    let clock = ManualClock::new();
    let limits = [bucket("1/s", 1)];
    let sluice = sluice(&clock, [queued(rule("a", limits), secs(100), 1)]);
    sluice.replace(vec![queued(rule("a", limits), secs(100), 3)], Lists::default()).unwrap();
    assert!(sluice.decide(&get("/")).is_admitted());
    let waiters: Vec<_> = (0..5)
        .map(|_| Task::new(sluice.admit(&get("/"))))
        .filter_map(|mut task| task.poll().is_pending().then_some(task))
        .collect();
    assert_eq!(waiters.len(), 3);
}

/// A rule is the same if it has the same name and key; but a cost changed to an estimate made it another rule,
/// with a new burst for every key.
#[test]
fn switching_to_an_estimate_gives_no_new_burst() {
    let clock = ManualClock::new();
    let limited = rule("a", [bucket("1/m", 10)]);
    let sluice = sluice(&clock, [Rule { cost: Cost::Fixed(10), ..limited.clone() }]);
    assert!(sluice.decide(&get("/")).is_admitted());
    sluice.replace(vec![Rule { cost: Cost::estimate(10), ..limited }], Lists::default()).unwrap();
    assert!(!sluice.decide(&get("/")).is_admitted(), "twenty within a burst of ten");
}

/// A refusal that could queue was left uncounted for the queueing code to count. But `decide` never queues, so
/// its refusals were never counted and never caused a ban.
#[test]
fn a_decide_refusal_is_counted_although_admit_would_queue() {
    let clock = ManualClock::new();
    let mut limited = queued(rule("a", [bucket("1/m", 1)]), secs(1), 5);
    limited.ban = Some(Ban { after: 3, within: secs(60), duration: secs(600) });
    let sluice = sluice(&clock, [limited]);
    for _ in 0..6 {
        let _ = sluice.decide(&get("/"));
    }
    let counts = &sluice.counts()[0];
    assert_eq!((counts.admitted, counts.refused + counts.banned), (1, 5));
    assert_eq!(sluice.bans().len(), 1);
}

/// Two rules refuse; the worse one would queue the request, the other does not. So it is not queued, and the
/// refusal was not counted.
#[test]
fn a_request_that_cannot_queue_is_counted() {
    let clock = ManualClock::new();
    let waits = queued(rule("waits", [bucket("1/h", 1)]), secs(10_000), 5);
    let refuses = rule("refuses", [bucket("1/m", 1)]);
    let sluice = sluice(&clock, [waits, refuses]);
    assert!(Task::new(sluice.admit(&get("/"))).now().is_admitted());
    assert!(!Task::new(sluice.admit(&get("/"))).now().is_admitted());
    assert_eq!(sluice.counts().iter().map(|rule| rule.refused).collect::<Vec<_>>(), [1, 1]);
}

/// A request queued for one rule finds on wakeup that another rule's permits are all held. Their release woke
/// only the queue of that other rule, not the one with the request.
#[test]
fn a_queued_request_is_woken_by_permits_of_another_rule() {
    let clock = ManualClock::new();
    let paced = on("/a/**", queued(rule("paced", [bucket("1/s", 1)]), secs(100), 5));
    let inside = on("/a/b", queued(rule("inside", [permits(1)]), secs(100), 5));
    let solo = on("/c", rule("solo", [permits(9)]));
    let sluice = sluice(&clock, [paced, Rule { target: Target::default(), ..inside }, solo]);
    // The first request takes the token of `paced` and releases its permit immediately.
    drop(sluice.decide(&get("/a/b")));
    let mut waits = waiting(sluice.admit(&get("/a/b")));
    // A request that matches only `inside` takes the permit.
    let holder = sluice.decide(&get("/c"));
    assert!(holder.is_admitted());
    clock.advance(secs(1));
    assert!(waits.poll_if_woken().is_none(), "the token is available, the permit is not");
    clock.advance(secs(1));
    drop(holder);
    assert!(waits.is_woken(), "the permit is released, but no wakeup was sent");
    assert!(waits.poll_if_woken().unwrap().is_admitted());
}

/// Each rule has a maximum wait. A request refused by both waited as long as the rule with the longer queue
/// allowed, although the other allows only a tenth of a second.
#[test]
fn waits_respect_every_rule() {
    let clock = ManualClock::new();
    let long = queued(rule("long", [bucket("1/2s", 1)]), secs(60), 5);
    let short = queued(rule("short", [bucket("1/s", 1)]), ms(100), 5);
    let sluice = sluice(&clock, [long, short]);
    assert!(sluice.decide(&get("/")).is_admitted());
    assert!(Task::new(sluice.admit(&get("/"))).poll().is_ready(), "`short` allows no wait of a second");
}

/// A leaky bucket admits requests after a wait, and a rule bounds the wait and the queue. The two were not
/// combined: `admit` returned immediately, with any wait and for any number of requests.
#[test]
fn returned_waits_respect_the_rule() {
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

/// A leaky bucket on its own admits a request after a wait. For a request that had queued for another rule, it
/// refused for good instead.
#[test]
fn a_leaky_bucket_wait_applies_after_another_queue() {
    let clock = ManualClock::new();
    let waits = on("/a", queued(rule("waits", [bucket("1/s", 1)]), secs(60), 5));
    let paced = rule("paced", [leaky("1/10s", 9)]);
    let sluice = sluice(&clock, [waits, paced]);
    assert!(sluice.decide(&get("/a")).is_admitted());
    assert!(sluice.decide(&get("/other")).is_admitted(), "admitted although the wait is ten seconds");
    let mut waiters = [Task::new(sluice.admit(&get("/a")))];
    let outcome = match waiters[0].poll() {
        std::task::Poll::Ready(outcome) => outcome,
        std::task::Poll::Pending => run(&clock, &mut waiters).remove(0).output,
    };
    assert!(outcome.is_admitted(), "{outcome:?}");
}

fn per_ip(name: &str, limits: impl Into<Vec<Limit>>) -> Rule {
    Rule { key: vec![Attribute::ClientIp.into()], ..rule(name, limits) }
}

/// Memory for all keys in bytes; whole buckets may take a little more.
const MEMORY_BYTES: usize = 1 << 20;

fn small(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(MEMORY_BYTES).build().unwrap()
}

fn request_from(sluice: &Sluice, clients: u32) {
    for client in 0..clients {
        let _ = sluice.decide(&get("/").with_client_ip(client.to_be_bytes()));
    }
}

/// Ban tables, four times the size of a bucket table, were not counted.
#[test]
fn bans_count_towards_the_memory_budget() {
    let clock = ManualClock::new();
    let ban = Ban { after: 3, within: secs(60), duration: secs(600) };
    let sluice = small(&clock, [Rule { ban: Some(ban), ..per_ip("a", [bucket("1/s", 1)]) }]);
    assert!(sluice.bytes() <= MEMORY_BYTES + 4_096, "{} bytes of {MEMORY_BYTES}", sluice.bytes());
}

/// Unchanged rules kept the tables sized for their earlier, larger share of memory.
#[test]
fn added_rules_stay_within_the_memory_budget() {
    let clock = ManualClock::new();
    let sluice = small(&clock, []);
    let mut rules = Vec::new();
    for number in 0..20 {
        rules.push(per_ip(&format!("rule {number}"), [bucket("1/s", 1)]));
        sluice.replace(rules.clone(), Lists::default()).unwrap();
    }
    assert!(sluice.bytes() <= MEMORY_BYTES + 4_096, "{} bytes of {MEMORY_BYTES}", sluice.bytes());
}

/// A change of limits kept the number of keys regardless of the new state size: here a thousand words instead of
/// one.
#[test]
fn changed_limits_stay_within_the_memory_budget() {
    let clock = ManualClock::new();
    let sluice = small(&clock, [per_ip("a", [bucket("1/s", 1)])]);
    sluice.replace(vec![per_ip("a", [log(1_000, secs(60))])], Lists::default()).unwrap();
    request_from(&sluice, 2_000);
    assert!(sluice.bytes() <= MEMORY_BYTES + 4_096, "{} bytes of {MEMORY_BYTES}", sluice.bytes());
}

/// A rule's share of memory depends on the number of rules. With one more after a restart, all other tables had
/// another size than the saved ones, and bans and limits were dropped without notice.
#[test]
fn bans_survive_a_restart_with_one_more_rule() {
    let clock = ManualClock::new();
    let ban = Ban { after: 1, within: secs(60), duration: secs(600) };
    let rules = vec![Rule { ban: Some(ban), ..per_ip("a", [bucket("1/h", 1)]) }];
    let before = small(&clock, rules.clone());
    let bad = get("/").with_client_ip([10, 0, 0, 1]);
    for _ in 0..3 {
        let _ = before.decide(&bad);
    }
    assert_eq!(before.bans().len(), 1);
    let more = [rules, vec![per_ip("b", [bucket("1/s", 100)])]].concat();
    let builder = Sluice::builder().rules(more).clock(clock.clone()).memory(MEMORY_BYTES);
    let after = builder.restore(before.save()).build().unwrap();
    assert!(!after.decide(&bad).is_admitted(), "the ban and the limit are lost");
}

/// A resized table copies a key to all buckets it may belong to. On the next resize, the unused copies meet the
/// key's own state and must not replace it.
#[test]
fn stale_copies_of_a_resize_do_not_come_back() {
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
        assert!(taken <= 10, "address {number} was admitted {taken} times");
    }
}
