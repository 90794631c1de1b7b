//! Differential tests: the scripts against the engine's limiter on the same sequences.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sluicegate_engine::algorithm::{Alignment, Check, Status};
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Request, Rule};
use sluicegate_engine::{Decision, Limit, Limiter, Rate, Sluice, Timestamp};

use super::support::{TEST_NOW, TestStore, encoded, key_check};
use crate::decision::KeyCheck;
use crate::exact::Release;

fn rate() -> impl Strategy<Value = Rate> {
    let period = prop_oneof![
        Just(1_000u64),
        Just(1_000_000),
        Just(1_000_000_000),
        Just(60_000_000_000),
        1_000..=5_000_000_000u64,
        Just(86_400_000_000_000),
        Just(30 * 86_400_000_000_000)
    ];
    (1..=1_000u64, period).prop_map(|(count, period)| Rate::new(count, Duration::from_nanos(period)).unwrap())
}

fn window() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(1u64),
        2..=2_000u64,
        Just(1_000_000),
        Just(60_000_000),
        1_000..=5_000_000u64,
        Just(30 * 86_400_000_000)
    ]
    .prop_map(Duration::from_micros)
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 1..=40u64, 1 => 250..=260u64, 1 => 65_530..=65_540u64]
}

fn token_bucket() -> BoxedStrategy<Limit> {
    (rate(), count(), any::<bool>())
        .prop_filter_map("fills too slowly", |(rate, burst, bytes)| match bytes {
            true => Limit::bandwidth(rate, burst).ok(),
            false => Limit::token_bucket(rate, burst).ok(),
        })
        .boxed()
}

fn leaky_bucket() -> BoxedStrategy<Limit> {
    (rate(), count()).prop_filter_map("fills too slowly", |(rate, queue)| Limit::leaky_bucket(rate, queue).ok()).boxed()
}

fn fixed_window() -> BoxedStrategy<Limit> {
    let alignment = prop_oneof![Just(Alignment::Epoch), Just(Alignment::FirstUse)];
    (count(), window(), alignment).prop_map(|(count, window, a)| Limit::fixed_window(count, window, a).unwrap()).boxed()
}

/// Cells are whole microseconds, as in the store.
fn sliding_window() -> BoxedStrategy<Limit> {
    (count(), window(), prop_oneof![20 => 1..=20u32, 1 => 900..=1_000u32])
        .prop_filter_map("too long", |(count, window, cells)| Limit::sliding_window(count, window * cells, cells).ok())
        .boxed()
}

fn interpolated_window() -> BoxedStrategy<Limit> {
    (prop_oneof![9 => count(), 1 => Just(1 << 45)], window())
        .prop_map(|(count, window)| Limit::interpolated_window(count, window).unwrap())
        .boxed()
}

fn sliding_log() -> BoxedStrategy<Limit> {
    (prop_oneof![4 => 1..=40u64, 1 => 1..=300u64], window())
        .prop_map(|(count, window)| Limit::sliding_log(count, window).unwrap())
        .boxed()
}

fn warm_up() -> BoxedStrategy<Limit> {
    let period = prop_oneof![1_000_000..=10_000_000_000u64, Just(3_600_000_000_000)];
    (1..=50u64, period, 6..=60u64, 2..=10u32)
        .prop_map(|(count, period, gaps, factor)| {
            let rate = Rate::new(count, Duration::from_nanos(period)).unwrap();
            Limit::warm_up(rate, rate.time_for(gaps), factor).unwrap()
        })
        .boxed()
}

fn any_rate() -> BoxedStrategy<Limit> {
    prop_oneof![
        token_bucket(),
        leaky_bucket(),
        fixed_window(),
        sliding_window(),
        interpolated_window(),
        sliding_log(),
        warm_up()
    ]
    .boxed()
}

/// One request: the clock movement before it, relative to the limits' window, and its cost.
#[derive(Clone, Copy, Debug)]
struct RequestStep {
    clock_move: ClockMove,
    cost: CostChoice,
}

#[derive(Clone, Copy, Debug)]
enum ClockMove {
    Stay,
    Micros(u64),
    Part(u64),
    Windows(u64),
    Back(u64),
    FarBack,
    ByWait,
    JustBeforeWait,
}

#[derive(Clone, Copy, Debug)]
enum CostChoice {
    Zero,
    Small(u64),
    Part(u64),
    Max,
    AboveLimit(u64),
}

fn steps() -> impl Strategy<Value = Vec<RequestStep>> {
    let clock_move = prop_oneof![
        4 => Just(ClockMove::Stay),
        2 => (1..=3u64).prop_map(ClockMove::Micros),
        6 => (1..=100u64).prop_map(ClockMove::Part),
        1 => (1..=3u64).prop_map(ClockMove::Windows),
        1 => (1..=200u64).prop_map(ClockMove::Back),
        1 => Just(ClockMove::FarBack),
        2 => Just(ClockMove::ByWait),
        2 => Just(ClockMove::JustBeforeWait),
    ];
    let cost = prop_oneof![
        1 => Just(CostChoice::Zero),
        8 => (1..=3u64).prop_map(CostChoice::Small),
        4 => (1..=100u64).prop_map(CostChoice::Part),
        1 => Just(CostChoice::Max),
        1 => prop_oneof![Just(1u64), Just(u64::MAX / 2)].prop_map(CostChoice::AboveLimit),
    ];
    prop::collection::vec((clock_move, cost).prop_map(|(clock_move, cost)| RequestStep { clock_move, cost }), 1..=60)
}

/// The limits' window in microseconds, and the largest cost that can fit.
fn scale(limits: &[Limit]) -> (u64, u64) {
    let windows = limits.iter().filter_map(Limit::window).map(|window| window.as_micros() as u64);
    let max = limits.iter().filter(|limit| !matches!(limit, Limit::WarmUp(_))).map(Limit::capacity);
    (windows.max().unwrap_or(1).max(1), max.min().unwrap_or(5))
}

fn cost_of(cost: CostChoice, max: u64) -> u64 {
    match cost {
        CostChoice::Zero => 0,
        CostChoice::Small(cost) => cost,
        CostChoice::Part(part) => (max / 100 * part).max(1),
        CostChoice::Max => max,
        CostChoice::AboveLimit(by) => max.saturating_add(by),
    }
}

/// Check, limit and status.
type DecisionTuple = (Check, usize, Status);

/// The engine's decision as a tuple.
fn decision_tuple(decision: &Decision) -> DecisionTuple {
    (Check::from(decision.verdict), decision.limit, decision.status)
}

/// True if equal, to the nanosecond for a hundred days ahead and nearly so beyond. That far ahead, the waits of
/// two limits may be indistinguishable.
fn same_decision(found: DecisionTuple, expected: DecisionTuple) -> bool {
    let equal_up_to_rounding = |a: u64, b: u64| a.min(b) >= 1 << 53 && a.abs_diff(b) <= a.max(b) >> 50;
    let (a, b) = (found.2, expected.2);
    let same_limit = found.1 == expected.1
        && (a.limit, a.remaining) == (b.limit, b.remaining)
        && (a.reset == b.reset || equal_up_to_rounding(a.reset, b.reset));
    match (found.0, expected.0) {
        (Check::After(a), Check::After(b)) | (Check::NotBefore(a), Check::NotBefore(b)) => {
            equal_up_to_rounding(a, b) || (a == b && same_limit)
        }
        (a, b) => a == b && same_limit,
    }
}

fn compare(store: &mut TestStore, limits: &[Limit], steps: &[RequestStep]) {
    let clock = ManualClock::starting_at(Timestamp::from_nanos(TEST_NOW * 1_000));
    let engine = Limiter::builder().limits(limits.to_vec()).clock(clock.clone()).build().unwrap();
    let encoded = encoded(limits);
    let mut check = key_check(&encoded);
    let (window, max) = scale(limits);
    let warm_up = limits.iter().any(|limit| matches!(limit, Limit::WarmUp(_)));
    let (mut now, mut wait) = (TEST_NOW, 0);
    for (index, step) in steps.iter().enumerate() {
        now = match step.clock_move {
            ClockMove::Stay => now,
            ClockMove::Micros(by) => now + by,
            ClockMove::Part(part) => now + window * part / 100,
            ClockMove::Windows(count) => now + window * count,
            ClockMove::Back(part) => now.saturating_sub(window * part / 100),
            ClockMove::FarBack => now.saturating_sub((window * 7).min(TEST_NOW / 100)),
            ClockMove::ByWait => now + wait,
            ClockMove::JustBeforeWait => now + wait.saturating_sub(1),
        };
        // Not before the server's own clock, by which keys expire, and not beyond the engine's last tick.
        now = now.clamp(TEST_NOW / 2, 2 * TEST_NOW);
        check.cost = cost_of(step.cost, max);
        if warm_up {
            check.cost = check.cost.min(1_000);
        }
        clock.set(Timestamp::from_nanos(now * 1_000));
        let expected = decision_tuple(&engine.check_cost(check.cost));
        let before = store.dump();
        let decision = store.check(&check, now);
        let found = (decision.check, decision.limit, decision.status);
        assert!(same_decision(found, expected), "{found:?}, not {expected:?}: step {index} of {steps:?} on {limits:?}");
        assert_eq!(decision.at, now);
        if !matches!(decision.check, Check::Now | Check::After(_)) || check.cost == 0 {
            assert_eq!(store.dump(), before, "a refusal changed the state: step {index} of {steps:?} on {limits:?}");
        }
        wait = match decision.check {
            Check::After(wait) | Check::NotBefore(wait) => wait.div_ceil(1_000),
            _ => 0,
        };
        assert_full_at_expiry(store, &check, &engine, limits, now, false);
    }
    store.run(&[b"FLUSHALL"]);
}

/// Each key expires exactly once its limits are full again. After a release, windows may
/// be open though nothing is taken in them.
fn assert_full_at_expiry(
    store: &mut TestStore,
    check: &KeyCheck,
    engine: &Limiter,
    limits: &[Limit],
    now: u64,
    refunded: bool,
) {
    let mut expected: Vec<(Vec<u8>, u64)> = Vec::new();
    let statuses = engine.status();
    for (index, (limit, status)) in limits.iter().zip(&statuses).enumerate() {
        // A warm-up limit may still be warm though it is free.
        if matches!(limit, Limit::WarmUp(_)) {
            return;
        }
        let full = if status.reset == 0 { 0 } else { now + status.reset.div_ceil(1_000) };
        if matches!(limit, Limit::SlidingLog(_)) {
            expected.push((check.key.secondary(&format!("log{index}")).to_vec(), full));
        } else {
            match expected.iter_mut().find(|(key, _)| *key == *check.key.0) {
                Some((_, latest)) => *latest = full.max(*latest),
                None => expected.push((check.key.0.to_vec(), full)),
            }
        }
    }
    for (key, full) in expected {
        if let Some(expiry) = store.expiry(&key)
            && full > now
        {
            let full = full.div_ceil(1_000) * 1_000;
            assert!(expiry == full || (refunded && expiry > full), "{expiry}, not {full}, on {limits:?}");
        } else {
            assert!(full <= now, "no key although not full: {limits:?}");
        }
    }
}

fn check(limits: BoxedStrategy<Vec<Limit>>, cases: u32) {
    let mut store = TestStore::start();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let store = std::cell::RefCell::new(&mut store);
    runner
        .run(&(limits, steps()), |(limits, steps)| {
            compare(&mut store.borrow_mut(), &limits, &steps);
            Ok(())
        })
        .unwrap();
}

fn one(limit: BoxedStrategy<Limit>) -> BoxedStrategy<Vec<Limit>> {
    limit.prop_map(|limit| vec![limit]).boxed()
}

const CASES: u32 = 150;

#[test]
fn token_buckets_decide_as_the_engine_does() {
    check(one(token_bucket()), CASES);
}

#[test]
fn leaky_buckets_decide_as_the_engine_does() {
    check(one(leaky_bucket()), CASES);
}

#[test]
fn fixed_windows_decide_as_the_engine_does() {
    check(one(fixed_window()), CASES);
}

#[test]
fn sliding_windows_decide_as_the_engine_does() {
    check(one(sliding_window()), CASES);
}

#[test]
fn interpolated_windows_decide_as_the_engine_does() {
    check(one(interpolated_window()), CASES);
}

#[test]
fn sliding_logs_decide_as_the_engine_does() {
    check(one(sliding_log()), CASES);
}

#[test]
fn warm_ups_decide_as_the_engine_does() {
    check(one(warm_up()), CASES);
}

#[test]
fn several_limits_of_one_key_decide_as_the_engine_does() {
    check(prop::collection::vec(any_rate(), 2..=5).boxed(), CASES);
    check(prop::collection::vec(token_bucket(), 2..=3).boxed(), CASES / 3);
}

/// Takes and settles before any other request: the remainder must equal the engine's.
fn compare_settling(store: &mut TestStore, limits: &[Limit], takes: &[(u64, u64, u64, u64)]) {
    let clock = ManualClock::starting_at(Timestamp::from_nanos(TEST_NOW * 1_000));
    let engine = Limiter::builder().limits(limits.to_vec()).clock(clock.clone()).build().unwrap();
    let mut check = key_check(&encoded(limits));
    let (window, max) = scale(limits);
    let mut now = TEST_NOW;
    for (before, cost, later, actual) in takes {
        now += window * before / 100;
        clock.set(Timestamp::from_nanos(now * 1_000));
        check.cost = (max.min(1_000) * cost / 100).max(1);
        let Ok(permit) = engine.enter(check.cost) else {
            assert!(!matches!(store.check(&check, now).check, Check::Now | Check::After(_)), "{limits:?}");
            continue;
        };
        let at = store.check(&check, now).at;
        now += window * later / 100;
        clock.set(Timestamp::from_nanos(now * 1_000));
        let mut actual = max.min(1_000) * actual / 100;
        if limits.iter().any(|limit| matches!(limit, Limit::SlidingLog(_))) {
            // An overdrawn log counts for one clock tick longer, and the engine's ticks are shorter.
            actual = actual.min(check.cost);
        }
        permit.settle(actual);
        let (key, limits_of) = (check.key.clone(), std::sync::Arc::clone(&check.limits));
        let release = Release { key, limits: limits_of, taken: check.cost, at, actual, permit: None };
        store.release(&[release], now);
        let peeked = store.check(&KeyCheck { cost: 0, ..check.clone() }, now);
        let expected = decision_tuple(&engine.check_cost(0));
        let found = (peeked.check, peeked.limit, peeked.status);
        assert!(same_decision(found, expected), "{found:?}, not {expected:?}: {takes:?} on {limits:?}");
        assert_full_at_expiry(store, &check, &engine, limits, now, true);
    }
    store.run(&[b"FLUSHALL"]);
}

/// Takes, and refunds without an acquisition time: the remainder must equal the engine's.
fn compare_refunds(store: &mut TestStore, limits: &[Limit], steps: &[(u64, TestOperation)]) {
    let clock = ManualClock::starting_at(Timestamp::from_nanos(TEST_NOW * 1_000));
    let engine = Sluice::builder().rule(Rule::new("rule", limits)).clock(clock.clone()).build().unwrap();
    let mut check = key_check(&encoded(limits));
    let (window, max) = scale(limits);
    let mut now = TEST_NOW;
    for (index, (before, operation)) in steps.iter().enumerate() {
        now += window * before / 100;
        clock.set(Timestamp::from_nanos(now * 1_000));
        match operation {
            TestOperation::Take(part) => {
                check.cost = (max.min(1_000) * part / 100).max(1);
                let taken = engine.decide(&Request::new("", "").with_cost(check.cost)).is_admitted();
                assert_eq!(matches!(store.check(&check, now).check, Check::Now | Check::After(_)), taken, "{limits:?}");
            }
            TestOperation::Refund(part) => {
                let amount = max.min(1_000) * part / 100;
                engine.decide(&Request::new("", "").with_cost(0)).refund(amount);
                let (key, limits) = (check.key.clone(), std::sync::Arc::clone(&check.limits));
                store.release(&[Release { key, limits, taken: amount, at: 0, actual: 0, permit: None }], now);
            }
        }
        let peeked = store.check(&KeyCheck { cost: 0, ..check.clone() }, now);
        let outcome = engine.decide(&Request::new("", "").with_cost(0));
        let expected = decision_tuple(&outcome.decisions().next().unwrap().1.decision);
        let found = (peeked.check, peeked.limit, peeked.status);
        assert!(same_decision(found, expected), "{found:?}, not {expected:?}: step {index} of {steps:?} on {limits:?}");
    }
    store.run(&[b"FLUSHALL"]);
}

/// Operation of one step, in hundredths of the limit.
#[derive(Clone, Copy, Debug)]
enum TestOperation {
    Take(u64),
    Refund(u64),
}

#[test]
fn untimed_refunds_match_the_engine() {
    let mut store = TestStore::start();
    let store = std::cell::RefCell::new(&mut store);
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let operation =
        prop_oneof![2 => (0..=100u64).prop_map(TestOperation::Take), 1 => (0..=150u64).prop_map(TestOperation::Refund)];
    let steps = prop::collection::vec((prop_oneof![Just(0), 0..120u64], operation), 1..=30);
    let limit = any_rate().prop_filter("for bytes only", |limit| !matches!(limit, Limit::Bandwidth(_)));
    runner
        .run(&(prop::collection::vec(limit, 1..=2), steps), |(limits, steps)| {
            // Buckets that take years to fill would move the clock beyond the engine's last tick.
            prop_assume!(scale(&limits).0 < TEST_NOW / 100);
            compare_refunds(&mut store.borrow_mut(), &limits, &steps);
            Ok(())
        })
        .unwrap();
}

#[test]
fn immediate_settlement_matches_the_engine() {
    let mut store = TestStore::start();
    let store = std::cell::RefCell::new(&mut store);
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let limit =
        prop_oneof![token_bucket(), fixed_window(), sliding_window(), interpolated_window(), sliding_log(), warm_up()];
    let takes = prop::collection::vec((0..120u64, 0..=100u64, 0..90u64, 0..130u64), 1..=20);
    runner
        .run(&(prop::collection::vec(limit, 1..=2), takes), |(limits, takes)| {
            // Buckets that take years to fill would move the clock beyond the engine's last tick.
            prop_assume!(scale(&limits).0 < TEST_NOW / 100);
            compare_settling(&mut store.borrow_mut(), &limits, &takes);
            Ok(())
        })
        .unwrap();
}
