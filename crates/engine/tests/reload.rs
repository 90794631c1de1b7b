//! Rule reload, with few and many rules: state is kept, no key gets a free burst, and requests neither wait for
//! preparation nor drop replaced rules.

use crate::support;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::{self, ThreadId};

use proptest::prelude::*;
use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, Lists, Request, Rule};
use sluicegate_engine::{Limit, Rate, Sluice};
use support::*;

fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).build().unwrap()
}

fn per_ip(name: &str, limits: impl Into<Vec<Limit>>) -> Rule {
    Rule { key: vec![Attribute::ClientIp.into()], ..Rule::new(name, limits) }
}

fn replace(sluice: &Sluice, rules: impl Into<Vec<Rule>>) {
    sluice.replace(rules.into(), Lists::default()).unwrap();
}

fn from(host: u8) -> Request<'static> {
    Request::new("GET", "/").with_client_ip([203, 0, 113, host])
}

fn hour(limit: u64) -> Limit {
    Limit::sliding_window(limit, secs(3_600), 10).unwrap()
}

/// Number of requests a rule admits at this instant.
fn drain(sluice: &Sluice, rule: &str, request: &Request<'_>) -> u64 {
    (0..).take_while(|_| sluice.rule(rule).unwrap().decide(request).is_admitted()).count() as u64
}

/// Otherwise the first requests under new rules would wait for it.
#[test]
fn extensions_are_built_before_rules_are_applied() {
    static BUILT: AtomicUsize = AtomicUsize::new(0);
    fn names(rules: &[Rule]) -> Vec<String> {
        BUILT.fetch_add(1, Ordering::SeqCst);
        rules.iter().map(|rule| rule.name.clone()).collect()
    }
    let built = || BUILT.load(Ordering::SeqCst);
    let sluice = sluice(&ManualClock::new(), [per_ip("a", [hour(9)])]);
    replace(&sluice, [per_ip("b", [hour(9)])]);
    assert_eq!(built(), 0, "no factory is registered");
    assert_eq!(sluice.decide(&from(1)).extension(names), Some(&vec!["b".to_owned()]));
    assert_eq!(built(), 1);
    replace(&sluice, [per_ip("c", [hour(9)])]);
    assert_eq!(built(), 2);
    assert_eq!(sluice.decide(&from(1)).extension(names), Some(&vec!["c".to_owned()]));
    assert_eq!(built(), 2);
    assert_eq!(sluice.decide(&from(1)).extension(<[Rule]>::len), None, "there is one slot");
}

/// Dropping thousands of rules takes milliseconds.
#[test]
fn replaced_rules_are_never_dropped_on_the_request_path() {
    static DROPPED_ON: std::sync::Mutex<Vec<ThreadId>> = std::sync::Mutex::new(Vec::new());
    struct DropRecorder;
    impl Drop for DropRecorder {
        fn drop(&mut self) {
            DROPPED_ON.lock().unwrap().push(thread::current().id());
        }
    }
    let dropped_on = || DROPPED_ON.lock().unwrap().clone();
    let sluice = sluice(&ManualClock::new(), [per_ip("a", [hour(9)])]);
    let (held, other) = (sluice.decide(&from(1)), sluice.decide(&from(1)));
    assert!(held.extension(|_| DropRecorder).is_some());
    replace(&sluice, [per_ip("a", [hour(9)])]);
    thread::scope(|scope| scope.spawn(|| drop(held)).join().unwrap());
    sluice.reclaim();
    assert!(dropped_on().is_empty(), "the rules are still referenced");
    thread::scope(|scope| scope.spawn(|| drop(other)).join().unwrap());
    assert!(dropped_on().is_empty());
    sluice.reclaim();
    assert_eq!(dropped_on(), [thread::current().id()]);
    replace(&sluice, [per_ip("a", [hour(9)])]);
    assert_eq!(dropped_on().len(), 2, "immediately if unreferenced");
}

/// Otherwise all tables would be rebuilt for every added rule.
#[test]
fn adding_a_rule_keeps_the_other_tables() {
    let rules = |count: usize| (0..count).map(|n| per_ip(&format!("r{n}"), [hour(9)])).collect::<Vec<_>>();
    let sluice = Sluice::builder().rules(rules(100)).memory(8 << 20).build().unwrap();
    let each = sluice.bytes() / 100;
    for count in [101, 102, 104, 97] {
        replace(&sluice, rules(count));
        assert_eq!(sluice.bytes(), each * count);
    }
    for count in [1, 2, 16, 17, 31, 33, 100, 1_000] {
        replace(&sluice, rules(count));
        assert!(sluice.bytes() <= 8 << 20, "{count}: {}", sluice.bytes());
    }
}

#[test]
fn a_rule_keeps_its_state_by_name() {
    let clock = ManualClock::new();
    let rule = |name| per_ip(name, [hour(9)]);
    let sluice = sluice(&clock, [rule("a"), rule("b")]);
    assert_eq!((0..4).filter(|_| sluice.rule("a").unwrap().decide(&from(1)).is_admitted()).count(), 4);
    let left = |name| sluice.peek(name, &["203.0.113.1"]).unwrap().limits[0].remaining;
    replace(&sluice, [rule("c"), rule("b"), rule("a")]);
    assert_eq!((left("a"), left("b"), left("c")), (5, 9, 9));
    replace(&sluice, [rule("a")]);
    assert_eq!(left("a"), 5);
    // With another name it is another rule.
    replace(&sluice, [rule("z")]);
    assert_eq!(left("z"), 9);
    replace(&sluice, [rule("a")]);
    assert_eq!(left("a"), 9, "removed with the rule");
}

/// Any limit with an amount and a window.
fn limits() -> impl Strategy<Value = Limit> {
    (0..6usize, 1..20u64, prop::sample::select(vec![secs(1), secs(60), secs(3_600)])).prop_map(
        |(kind, amount, window)| {
            let limit = match kind {
                0 => Limit::token_bucket(Rate::new(amount, window).unwrap(), amount),
                1 => Limit::sliding_window(amount, window, 10),
                2 => Limit::fixed_window(amount, window, Alignment::FirstUse),
                3 => Limit::interpolated_window(amount, window),
                4 => Limit::sliding_log(amount, window),
                _ => Limit::concurrency(amount),
            };
            limit.unwrap()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Raised or lowered, to another algorithm or none: no change gives extra quota.
    #[test]
    fn a_changed_rule_gives_no_free_burst_and_an_unchanged_one_continues(
        old in limits(), new in limits(), keyed: bool, uses in prop::collection::vec(0..5_000u64, 0..12),
        others in 0..3usize, first: bool, after in 0..2_000u64,
    ) {
        let clock = ManualClock::new();
        let rule = |limit| if keyed { per_ip("a", [limit]) } else { Rule::new("a", [limit]) };
        let with_other_rules = |limit| {
            let mut rules: Vec<Rule> = (0..others).map(|n| per_ip(&format!("other{n}"), [hour(3)])).collect();
            rules.insert(if first { 0 } else { others }, rule(limit));
            rules
        };
        let all = [(); 4].map(|()| sluice(&clock, [rule(old)]));
        let [changed, unchanged, twin, later] = &all;
        // Permits are held to the end.
        let mut held = Vec::new();
        for pause in uses {
            clock.advance(ms(pause));
            held.extend(all.each_ref().map(|sluice| sluice.rule("a").unwrap().decide(&from(1))));
        }
        replace(changed, with_other_rules(new));
        replace(unchanged, with_other_rules(old));
        let left = |sluice: &Sluice| {
            let state = if keyed { sluice.peek("a", &["203.0.113.1"]) } else { sluice.peek("a", &[]) };
            state.unwrap().limits[0].remaining
        };
        match (old.is_concurrency(), new.is_concurrency()) {
            (true, true) => {
                let out = twin.counts()[0].permits.unwrap();
                prop_assert_eq!(left(changed), new.capacity().saturating_sub(out), "held permits stay held");
            }
            (false, false) => {
                let had = drain(twin, "a", &from(1));
                let max = max_after_change(&old, &new, had);
                let taken = drain(changed, "a", &from(1));
                prop_assert!(taken <= max, "{} of {}: {} -> {}", taken, max, old, new);
            }
            // Rates and permits have no common unit.
            _ => {}
        }
        prop_assert_eq!(left(unchanged), left(later));
        clock.advance(ms(after));
        prop_assert_eq!(left(unchanged), left(later));
        if !old.is_concurrency() {
            prop_assert_eq!(drain(unchanged, "a", &from(1)), drain(later, "a", &from(1)));
        }
    }
}

/// For any changes in any number, no key is admitted more than the highest limit of any of the rules.
#[test]
fn a_thousand_reloads_under_load_admit_nothing_extra() {
    const MAX_ADMITTED: u64 = 300;
    const HOSTS: u8 = 5;
    let clock = ManualClock::new();
    let rules_for = |round: u64| {
        let limit = match round % 4 {
            0 => hour(MAX_ADMITTED),
            1 => hour(MAX_ADMITTED - round % 50),
            2 => Limit::token_bucket(Rate::new(1, secs(3_600)).unwrap(), MAX_ADMITTED).unwrap(),
            _ => Limit::fixed_window(MAX_ADMITTED, secs(3_600), Alignment::FirstUse).unwrap(),
        };
        let mut rules: Vec<Rule> = (0..round % 3).map(|n| per_ip(&format!("other{n}"), [hour(1 << 40)])).collect();
        rules.push(Rule { max_keys: Some(20 + round as usize % 40), ..per_ip("a", [limit]) });
        rules.rotate_left(round as usize % 2);
        rules
    };
    let sluice = sluice(&clock, rules_for(0));
    let (stop, admitted) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; HOSTS as usize]);
    let (started, start_receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            let started = started.clone();
            let (sluice, stop, admitted) = (&sluice, &stop, &admitted);
            scope.spawn(move || {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    for host in 0..HOSTS {
                        let request = from(host);
                        let is_admitted = match sluice.fast_path().try_decide(&request) {
                            Some(fast) => fast.is_admitted(),
                            None => sluice.decide(&request).is_admitted(),
                        };
                        admitted[usize::from(host)].fetch_add(u64::from(is_admitted), Ordering::Relaxed);
                    }
                    round += 1;
                    if round == 1 {
                        started.send(()).unwrap();
                    }
                }
            });
        }
        start_receiver.recv().unwrap();
        for round in 1..=1_000 {
            replace(&sluice, rules_for(round));
        }
        stop.store(true, Ordering::Relaxed);
    });
    for admitted in &admitted {
        let admitted = admitted.load(Ordering::Relaxed);
        assert!((1..=MAX_ADMITTED).contains(&admitted), "{admitted}");
    }
}
