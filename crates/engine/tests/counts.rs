//! Statistics of a sluice's rules: waits, permits, list hits, utilization.

use crate::support;

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, Cost, KeyPart, Lists, Queue, Request, Rule};
use sluicegate_engine::sluice::{ListCounts, RuleCounts, WAIT_BOUNDS};
use sluicegate_engine::{Limit, Outcome, Rate, Sluice};
use support::*;

fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).build().unwrap()
}

fn queued(mut rule: Rule, max_wait: Duration) -> Rule {
    rule.on_limit.queue = Some(Queue { max_wait, max_waiting: 10 });
    rule
}

fn counts(sluice: &Sluice) -> RuleCounts {
    sluice.counts().remove(0)
}

fn get() -> Request<'static> {
    Request::new("GET", "/")
}

#[test]
fn queued_requests_are_counted_with_their_wait() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [queued(Rule::new("a", ["1/1s".parse().unwrap()]), secs(3))]);
    drop(sluice.admit(&get()).blocking());
    assert_eq!(counts(&sluice).waited, 0, "a request admitted immediately does not count as waiting");

    let mut admitted = Task::new(sluice.admit(&get()));
    let mut cancelled = Task::new(sluice.admit(&get()));
    assert!(admitted.poll().is_pending() && cancelled.poll().is_pending());
    assert_eq!((counts(&sluice).waiting, counts(&sluice).waited), (2, 0));
    clock.advance(ms(200));
    drop(cancelled);
    clock.advance(ms(1_900));
    assert!(admitted.poll_if_woken().is_some_and(|outcome| outcome.is_admitted()));
    drop(admitted);

    let counted = counts(&sluice);
    let class = |bound: Duration| WAIT_BOUNDS.iter().position(|known| *known == bound).unwrap();
    assert_eq!((counted.waiting, counted.waited, counted.waits.sum), (0, 2, ms(2_300)));
    assert_eq!(counted.waits.buckets[class(ms(250))], 1);
    assert_eq!(counted.waits.buckets[class(ms(2_500))], 1);
    assert_eq!(counted.waits.count(), 2);

    // A request refused immediately for its deadline has not waited.
    let slow = queued(Rule::new("a", ["1/1h".parse().unwrap()]), secs(3));
    sluice.replace(vec![slow], Lists::default()).unwrap();
    while sluice.decide(&get()).is_admitted() {}
    assert!(!Task::new(sluice.admit(&get())).now().is_admitted());
    assert_eq!(counts(&sluice).waited, 2);
}

#[test]
fn only_actual_waits_are_counted() {
    let clock = ManualClock::new();
    let paced = Limit::leaky_bucket(Rate::per_second(10).unwrap(), 5).unwrap();
    let sluice = sluice(&clock, [Rule::new("a", [paced])]);
    assert!(Task::new(sluice.admit(&get())).now().is_admitted());
    let mut pausing = Task::new(sluice.admit(&get()));
    assert!(pausing.poll().is_pending());
    drop(sluice.decide(&get()));
    clock.advance(ms(100));
    assert!(pausing.poll_if_woken().is_some());
    let counted = counts(&sluice);
    assert_eq!((counted.waited, counted.waits.sum), (1, ms(100)));
}

#[test]
fn list_hits_are_counted_on_every_path_and_across_reloads() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, []);
    let lists = Lists { allow: vec!["path == '/in'".parse().unwrap()], deny: vec!["path == '/out'".parse().unwrap()] };
    sluice.replace(vec![], lists.clone()).unwrap();
    assert_eq!(sluice.lists(), (lists.clone(), Lists::default()));
    for (path, times) in [("/in", 3), ("/out", 2), ("/", 5)] {
        let request = Request::new("GET", path);
        for _ in 0..times {
            if sluice.fast_path().try_decide(&request).is_none() {
                drop(sluice.decide_async(&request).blocking());
            }
        }
    }
    let before = sluice.generation();
    sluice.replace(vec![], Lists::default()).unwrap();
    assert!(sluice.generation() > before);
    assert_eq!(sluice.list_counts(), ListCounts { allowed: 3, denied: 2 });
}

#[test]
fn utilization_is_reported_for_unkeyed_rules() {
    let clock = ManualClock::new();
    let bucket = Limit::token_bucket(Rate::per_minute(1).unwrap(), 10).unwrap();
    let mut keyed = Rule::new("keyed", [bucket]);
    keyed.key = vec![Attribute::ClientIp.into()];
    let both = Rule::new("both", [bucket, Limit::concurrency(4).unwrap()]);
    let sluice = sluice(&clock, [both, keyed, Rule::new("empty", [])]);
    let used = || sluice.counts().iter().map(|counts| counts.used).collect::<Vec<_>>();
    assert_eq!(used(), [Some(0.0), None, None]);
    let held = (sluice.decide(&get()), sluice.decide(&get()));
    assert_eq!(used(), [Some(0.5), None, None]);
    drop(held);
    assert_eq!(used(), [Some(0.2), None, None]);
}

/// Actions on a rule with permits.
#[derive(Clone, Debug)]
enum Action {
    Decide { client: u8, cost: u64 },
    Admit { client: u8 },
    Cancel,
    Drop(usize),
    GiveBack(usize),
    Settle(usize, u64),
    Replace { permits: u64, rate: bool, estimate: bool, max_keys: usize },
    Advance(u64),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let step = prop_oneof![
        4 => (0..6u8, 0..4u64).prop_map(|(client, cost)| Action::Decide { client, cost }),
        2 => (0..6u8).prop_map(|client| Action::Admit { client }),
        1 => Just(Action::Cancel),
        2 => (0..9usize).prop_map(Action::Drop),
        1 => (0..9usize).prop_map(Action::GiveBack),
        1 => (0..9usize, 0..5u64).prop_map(|(at, actual)| Action::Settle(at, actual)),
        1 => (1..6u64, any::<bool>(), any::<bool>(), 1..40usize).prop_map(|(permits, rate, estimate, max_keys)| {
            Action::Replace { permits, rate, estimate, max_keys }
        }),
        1 => (0..3_000u64).prop_map(Action::Advance),
    ];
    prop::collection::vec(step, 0..80)
}

fn rule_with_permits(permits: u64, rate: bool, estimate: bool, max_keys: usize, keyed: bool) -> Rule {
    let mut limits = vec![Limit::concurrency(permits).unwrap()];
    if rate {
        limits.push("20/1s".parse().unwrap());
    }
    let mut rule = queued(Rule::new("held", limits), secs(1));
    if estimate {
        rule.cost = Cost::estimate(2);
    }
    if keyed {
        rule.key = vec![KeyPart::from(Attribute::ClientIp)];
    }
    rule.max_keys = Some(max_keys);
    rule
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Holds for every way an outcome ends and for any change of the rule.
    #[test]
    fn held_permits_match_live_outcomes(steps in actions(), keyed: bool) {
        let clock = ManualClock::new();
        let sluice = sluice(&clock, [rule_with_permits(3, false, false, 8, keyed)]);
        let request = |client: u8| get().with_client_ip([203, 0, 113, client]);
        let mut held: Vec<(Outcome, u64)> = Vec::new();
        let mut waiting = Vec::new();
        let (mut rate, mut estimate) = (false, false);
        for step in steps {
            let permits = |calls: u64| {
                // A zero-cost request only reads the state, regardless of the estimate.
                let cost = if estimate && calls > 0 { 2 } else { calls };
                if rate { cost.min(1) } else { cost }
            };
            match step {
                Action::Decide { client, cost } => {
                    let outcome = sluice.decide(&request(client).with_cost(cost));
                    let permits = if outcome.is_admitted() { permits(cost) } else { 0 };
                    held.push((outcome, permits));
                }
                Action::Admit { client } => {
                    let mut task = Task::new(sluice.admit(&request(client)));
                    match task.poll() {
                        std::task::Poll::Ready(outcome) => {
                            let permits = if outcome.is_admitted() { permits(1) } else { 0 };
                            held.push((outcome, permits));
                        }
                        std::task::Poll::Pending => waiting.push(task),
                    }
                }
                Action::Cancel => drop(waiting.pop()),
                Action::Drop(at) if at < held.len() => drop(held.swap_remove(at)),
                Action::GiveBack(at) if at < held.len() => held.swap_remove(at).0.give_back(),
                Action::Settle(at, actual) if at < held.len() => held.swap_remove(at).0.settle(actual),
                Action::Replace { permits, rate: now, estimate: estimates, max_keys } => {
                    // A queued request uses the cost of the old rule: cancel it first.
                    waiting.clear();
                    let rule = rule_with_permits(permits, now, estimates, max_keys, keyed);
                    sluice.replace(vec![rule], Lists::default()).unwrap();
                    (rate, estimate) = (now, estimates);
                }
                Action::Advance(millis) => clock.advance(ms(millis)),
                Action::Drop(_) | Action::GiveBack(_) | Action::Settle(..) => {}
            }
            loop {
                let before = waiting.len();
                let mut pending = Vec::new();
                for mut task in waiting.drain(..) {
                    match task.poll_if_woken() {
                        Some(outcome) => {
                            let cost = if estimate { 2 } else { 1 };
                            let permits = if rate { 1 } else { cost };
                            let permits = if outcome.is_admitted() { permits } else { 0 };
                            held.push((outcome, permits));
                        }
                        None => pending.push(task),
                    }
                }
                waiting = pending;
                if waiting.len() == before {
                    break;
                }
            }
            let expected: u64 = held.iter().map(|(_, permits)| permits).sum();
            prop_assert_eq!(counts(&sluice).permits, Some(expected));
        }
        drop((held, waiting));
        prop_assert_eq!(counts(&sluice).permits, Some(0));
    }
}
