//! The same sequences, the same answers: the scripts against the engine's limiter.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sluicegate_engine::algorithm::{Alignment, Check, Status};
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Request, Rule};
use sluicegate_engine::{Decision, Limit, Limiter, Rate, Sluice, Timestamp};

use super::support::{FAR, Store, prepared, unit};
use crate::ask::Unit;
use crate::exact::Ending;

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

/// Cells are whole microseconds, as the store has them.
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

/// One request: how the clock moves before it, in parts of the limits' own time, and what it costs.
#[derive(Clone, Copy, Debug)]
struct Step {
    moved: Moved,
    cost: Cost,
}

#[derive(Clone, Copy, Debug)]
enum Moved {
    Not,
    Micros(u64),
    Part(u64),
    Windows(u64),
    Back(u64),
    FarBack,
    ToTheWait,
    JustBeforeTheWait,
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Look,
    Small(u64),
    Part(u64),
    Most,
    TooMuch(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let moved = prop_oneof![
        4 => Just(Moved::Not),
        2 => (1..=3u64).prop_map(Moved::Micros),
        6 => (1..=100u64).prop_map(Moved::Part),
        1 => (1..=3u64).prop_map(Moved::Windows),
        1 => (1..=200u64).prop_map(Moved::Back),
        1 => Just(Moved::FarBack),
        2 => Just(Moved::ToTheWait),
        2 => Just(Moved::JustBeforeTheWait),
    ];
    let cost = prop_oneof![
        1 => Just(Cost::Look),
        8 => (1..=3u64).prop_map(Cost::Small),
        4 => (1..=100u64).prop_map(Cost::Part),
        1 => Just(Cost::Most),
        1 => prop_oneof![Just(1u64), Just(u64::MAX / 2)].prop_map(Cost::TooMuch),
    ];
    prop::collection::vec((moved, cost).prop_map(|(moved, cost)| Step { moved, cost }), 1..=60)
}

/// The limits' own time in microseconds, and the most that can be had at once.
fn scale(limits: &[Limit]) -> (u64, u64) {
    let windows = limits.iter().filter_map(Limit::window).map(|window| window.as_micros() as u64);
    let most = limits.iter().filter(|limit| !matches!(limit, Limit::WarmUp(_))).map(Limit::capacity);
    (windows.max().unwrap_or(1).max(1), most.min().unwrap_or(5))
}

fn cost_of(cost: Cost, most: u64) -> u64 {
    match cost {
        Cost::Look => 0,
        Cost::Small(cost) => cost,
        Cost::Part(part) => (most / 100 * part).max(1),
        Cost::Most => most,
        Cost::TooMuch(by) => most.saturating_add(by),
    }
}

/// Check, limit and status.
type Words = (Check, usize, Status);

/// The engine's decision in the store's words.
fn in_words(decision: &Decision) -> Words {
    (Check::from(decision.verdict), decision.limit, decision.status)
}

/// The same, to the nanosecond for a hundred days ahead and nearly so beyond. So far ahead, waits of two limits
/// may not be told apart.
fn alike(found: Words, expected: Words) -> bool {
    let far = |a: u64, b: u64| a.min(b) >= 1 << 53 && a.abs_diff(b) <= a.max(b) >> 50;
    let (a, b) = (found.2, expected.2);
    let same_limit = found.1 == expected.1
        && (a.limit, a.remaining) == (b.limit, b.remaining)
        && (a.reset == b.reset || far(a.reset, b.reset));
    match (found.0, expected.0) {
        (Check::After(a), Check::After(b)) | (Check::NotBefore(a), Check::NotBefore(b)) => {
            far(a, b) || (a == b && same_limit)
        }
        (a, b) => a == b && same_limit,
    }
}

fn compare(store: &mut Store, limits: &[Limit], steps: &[Step]) {
    let clock = ManualClock::starting_at(Timestamp::from_nanos(FAR * 1_000));
    let engine = Limiter::builder().limits(limits.to_vec()).clock(clock.clone()).build().unwrap();
    let prepared = prepared(limits);
    let mut unit = unit(&prepared);
    let (window, most) = scale(limits);
    let warm_up = limits.iter().any(|limit| matches!(limit, Limit::WarmUp(_)));
    let (mut now, mut wait) = (FAR, 0);
    for (nth, step) in steps.iter().enumerate() {
        now = match step.moved {
            Moved::Not => now,
            Moved::Micros(by) => now + by,
            Moved::Part(part) => now + window * part / 100,
            Moved::Windows(count) => now + window * count,
            Moved::Back(part) => now.saturating_sub(window * part / 100),
            Moved::FarBack => now.saturating_sub((window * 7).min(FAR / 100)),
            Moved::ToTheWait => now + wait,
            Moved::JustBeforeTheWait => now + wait.saturating_sub(1),
        };
        // Not before the server's own clock, by which keys expire, and not beyond the engine's last tick.
        now = now.clamp(FAR / 2, 2 * FAR);
        unit.cost = cost_of(step.cost, most);
        if warm_up {
            unit.cost = unit.cost.min(1_000);
        }
        clock.set(Timestamp::from_nanos(now * 1_000));
        let expected = in_words(&engine.check_cost(unit.cost));
        let before = store.dump();
        let said = store.ask(&unit, now);
        let found = (said.check, said.limit, said.status);
        assert!(alike(found, expected), "{found:?}, not {expected:?}: step {nth} of {steps:?} on {limits:?}");
        assert_eq!(said.at, now);
        if !matches!(said.check, Check::Now | Check::After(_)) || unit.cost == 0 {
            assert_eq!(store.dump(), before, "a refusal wrote something: step {nth} of {steps:?} on {limits:?}");
        }
        wait = match said.check {
            Check::After(wait) | Check::NotBefore(wait) => wait.div_ceil(1_000),
            _ => 0,
        };
        assert_full_when_gone(store, &unit, &engine, limits, now, false);
    }
    store.run(&[b"FLUSHALL"]);
}

/// Each key goes when what is in it is full again, and not before. Where something was given back, windows may
/// be open though nothing is taken in them.
fn assert_full_when_gone(
    store: &mut Store,
    unit: &Unit,
    engine: &Limiter,
    limits: &[Limit],
    now: u64,
    given_back: bool,
) {
    let mut expected: Vec<(Vec<u8>, u64)> = Vec::new();
    let statuses = engine.status();
    for (index, (limit, status)) in limits.iter().zip(&statuses).enumerate() {
        // What is free again may still be warm.
        if matches!(limit, Limit::WarmUp(_)) {
            return;
        }
        let full = if status.reset == 0 { 0 } else { now + status.reset.div_ceil(1_000) };
        if matches!(limit, Limit::SlidingLog(_)) {
            expected.push((unit.key.second(&format!("log{index}")).to_vec(), full));
        } else {
            match expected.iter_mut().find(|(key, _)| *key == *unit.key.0) {
                Some((_, latest)) => *latest = full.max(*latest),
                None => expected.push((unit.key.0.to_vec(), full)),
            }
        }
    }
    for (key, full) in expected {
        if let Some(gone) = store.expiry(&key)
            && full > now
        {
            let full = full.div_ceil(1_000) * 1_000;
            assert!(gone == full || (given_back && gone > full), "{gone}, not {full}, on {limits:?}");
        } else {
            assert!(full <= now, "nothing there, though not full: on {limits:?}");
        }
    }
}

fn check(limits: BoxedStrategy<Vec<Limit>>, cases: u32) {
    let mut store = Store::start();
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

/// Takes, and settles before anybody else comes: what is left must be what the engine has left.
fn compare_settling(store: &mut Store, limits: &[Limit], takes: &[(u64, u64, u64, u64)]) {
    let clock = ManualClock::starting_at(Timestamp::from_nanos(FAR * 1_000));
    let engine = Limiter::builder().limits(limits.to_vec()).clock(clock.clone()).build().unwrap();
    let mut unit = unit(&prepared(limits));
    let (window, most) = scale(limits);
    let mut now = FAR;
    for (before, cost, later, actual) in takes {
        now += window * before / 100;
        clock.set(Timestamp::from_nanos(now * 1_000));
        unit.cost = (most.min(1_000) * cost / 100).max(1);
        let Ok(pass) = engine.enter(unit.cost) else {
            assert!(!matches!(store.ask(&unit, now).check, Check::Now | Check::After(_)), "{limits:?}");
            continue;
        };
        let at = store.ask(&unit, now).at;
        now += window * later / 100;
        clock.set(Timestamp::from_nanos(now * 1_000));
        let mut actual = most.min(1_000) * actual / 100;
        if limits.iter().any(|limit| matches!(limit, Limit::SlidingLog(_))) {
            // An overdrawn log counts for one tick of the clock longer, and the engine's ticks are shorter.
            actual = actual.min(unit.cost);
        }
        pass.settle(actual);
        let (key, limits_of) = (unit.key.clone(), std::sync::Arc::clone(&unit.limits));
        let ending = Ending { key, limits: limits_of, taken: unit.cost, at, actual, permit: None };
        store.end(&[ending], now);
        let look = store.ask(&Unit { cost: 0, ..unit.clone() }, now);
        let expected = in_words(&engine.check_cost(0));
        let found = (look.check, look.limit, look.status);
        assert!(alike(found, expected), "{found:?}, not {expected:?}: {takes:?} on {limits:?}");
        assert_full_when_gone(store, &unit, &engine, limits, now, true);
    }
    store.run(&[b"FLUSHALL"]);
}

/// Takes, and gives back what somebody took at some time: what is left must be what the engine has left.
fn compare_giving_back(store: &mut Store, limits: &[Limit], steps: &[(u64, Deed)]) {
    let clock = ManualClock::starting_at(Timestamp::from_nanos(FAR * 1_000));
    let engine = Sluice::builder().rule(Rule::new("rule", limits)).clock(clock.clone()).build().unwrap();
    let mut unit = unit(&prepared(limits));
    let (window, most) = scale(limits);
    let mut now = FAR;
    for (nth, (before, deed)) in steps.iter().enumerate() {
        now += window * before / 100;
        clock.set(Timestamp::from_nanos(now * 1_000));
        match deed {
            Deed::Take(part) => {
                unit.cost = (most.min(1_000) * part / 100).max(1);
                let taken = engine.decide(&Request::new("", "").with_cost(unit.cost)).is_admitted();
                assert_eq!(matches!(store.ask(&unit, now).check, Check::Now | Check::After(_)), taken, "{limits:?}");
            }
            Deed::GiveBack(part) => {
                let amount = most.min(1_000) * part / 100;
                engine.decide(&Request::new("", "").with_cost(0)).refund(amount);
                let (key, limits) = (unit.key.clone(), std::sync::Arc::clone(&unit.limits));
                store.end(&[Ending { key, limits, taken: amount, at: 0, actual: 0, permit: None }], now);
            }
        }
        let look = store.ask(&Unit { cost: 0, ..unit.clone() }, now);
        let outcome = engine.decide(&Request::new("", "").with_cost(0));
        let expected = in_words(&outcome.decisions().next().unwrap().1.decision);
        let found = (look.check, look.limit, look.status);
        assert!(alike(found, expected), "{found:?}, not {expected:?}: step {nth} of {steps:?} on {limits:?}");
    }
    store.run(&[b"FLUSHALL"]);
}

/// What is done at a step: so many hundredths of the limit are taken or given back.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Take(u64),
    GiveBack(u64),
}

#[test]
fn giving_back_what_somebody_took_is_the_engines_giving_back() {
    let mut store = Store::start();
    let store = std::cell::RefCell::new(&mut store);
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let deed = prop_oneof![2 => (0..=100u64).prop_map(Deed::Take), 1 => (0..=150u64).prop_map(Deed::GiveBack)];
    let steps = prop::collection::vec((prop_oneof![Just(0), 0..120u64], deed), 1..=30);
    let limit = any_rate().prop_filter("for bytes, not for requests", |limit| !matches!(limit, Limit::Bandwidth(_)));
    runner
        .run(&(prop::collection::vec(limit, 1..=2), steps), |(limits, steps)| {
            // Buckets that take years to fill would carry the clock beyond the engine's last tick.
            prop_assume!(scale(&limits).0 < FAR / 100);
            compare_giving_back(&mut store.borrow_mut(), &limits, &steps);
            Ok(())
        })
        .unwrap();
}

#[test]
fn settling_what_nobody_touched_is_the_engines_settling() {
    let mut store = Store::start();
    let store = std::cell::RefCell::new(&mut store);
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let limit =
        prop_oneof![token_bucket(), fixed_window(), sliding_window(), interpolated_window(), sliding_log(), warm_up()];
    let takes = prop::collection::vec((0..120u64, 0..=100u64, 0..90u64, 0..130u64), 1..=20);
    runner
        .run(&(prop::collection::vec(limit, 1..=2), takes), |(limits, takes)| {
            // Buckets that take years to fill would carry the clock beyond the engine's last tick.
            prop_assume!(scale(&limits).0 < FAR / 100);
            compare_settling(&mut store.borrow_mut(), &limits, &takes);
            Ok(())
        })
        .unwrap();
}
