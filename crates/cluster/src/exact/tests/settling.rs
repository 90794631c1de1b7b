//! Settlement and release: never leave more than if the actual cost had been taken in the first place.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sluicegate_engine::algorithm::{Alignment, Check};
use sluicegate_engine::{Limit, Rate};

use super::support::{TEST_NOW, TestStore, encoded, key_check};
use crate::decision::KeyCheck;
use crate::exact::Release;

fn limits_under_test() -> Vec<Limit> {
    let second = Duration::from_secs(1);
    vec![
        Limit::token_bucket(Rate::per_second(10).unwrap(), 10).unwrap(),
        Limit::token_bucket(Rate::new(10, 10 * 86_400 * second).unwrap(), 10).unwrap(),
        Limit::leaky_bucket(Rate::per_second(10).unwrap(), 10).unwrap(),
        Limit::fixed_window(10, second, Alignment::Epoch).unwrap(),
        Limit::fixed_window(10, second, Alignment::FirstUse).unwrap(),
        Limit::sliding_window(10, second, 4).unwrap(),
        Limit::interpolated_window(10, second).unwrap(),
        Limit::sliding_log(10, second).unwrap(),
        Limit::warm_up(Rate::per_second(10).unwrap(), 2 * second, 3).unwrap(),
    ]
}

fn release_of(check: &KeyCheck, at: u64, taken: u64, actual: u64) -> Release {
    Release { key: check.key.clone(), limits: Arc::clone(&check.limits), taken, at, actual, permit: None }
}

#[test]
fn an_immediate_release_returns_everything() {
    let mut store = TestStore::start();
    for limit in limits_under_test() {
        let mut check = key_check(&encoded(&[limit]));
        check.cost = 6;
        let at = store.check(&check, TEST_NOW).at;
        assert_eq!(at, TEST_NOW);
        store.release(&[release_of(&check, at, 6, 0)], TEST_NOW);
        let peeked = store.check(&KeyCheck { cost: 0, ..check.clone() }, TEST_NOW);
        if !matches!(limit, Limit::WarmUp(_)) {
            assert_eq!(peeked.status.remaining, 10, "{limit}");
        }
        store.release(&[release_of(&check, at, 0, 4)], TEST_NOW);
        let peeked = store.check(&KeyCheck { cost: 0, ..check.clone() }, TEST_NOW);
        if !matches!(limit, Limit::WarmUp(_)) {
            assert_eq!(peeked.status.remaining, 6, "{limit}");
        }
    }
    store.run(&[b"FLUSHALL"]);
}

#[test]
fn a_full_limit_leaves_no_key() {
    let mut store = TestStore::start();
    for limit in limits_under_test() {
        if matches!(
            limit,
            Limit::WarmUp(_) | Limit::FixedWindow(_) | Limit::SlidingWindow(_) | Limit::InterpolatedWindow(_)
        ) {
            // Windows stay open, and a warm limit has to cool.
            continue;
        }
        let check = KeyCheck { cost: 6, ..key_check(&encoded(&[limit])) };
        store.check(&check, TEST_NOW);
        store.release(&[release_of(&check, TEST_NOW, 6, 0)], TEST_NOW);
        assert_eq!(store.dump(), [], "{limit}");
    }
}

#[test]
fn tokens_are_returned_only_if_no_later_request_came() {
    let mut store = TestStore::start();
    let check = KeyCheck { cost: 6, ..key_check(&encoded(&[limits_under_test()[0]])) };
    store.check(&check, TEST_NOW);
    store.check(&KeyCheck { cost: 1, ..check.clone() }, TEST_NOW);
    // Another request at the same time: the release is still attributable.
    store.release(&[release_of(&check, TEST_NOW, 6, 2)], TEST_NOW);
    assert_eq!(store.check(&KeyCheck { cost: 0, ..check.clone() }, TEST_NOW).status.remaining, 7);
    store.check(&KeyCheck { cost: 1, ..check.clone() }, TEST_NOW + 1);
    let before = store.dump();
    store.release(&[release_of(&check, TEST_NOW, 2, 0)], TEST_NOW + 1);
    assert_eq!(store.dump(), before);
}

#[test]
fn a_queue_position_is_returned_only_if_the_queue_is_empty() {
    let mut store = TestStore::start();
    let check = KeyCheck { cost: 2, ..key_check(&encoded(&[limits_under_test()[2]])) };
    store.check(&check, TEST_NOW);
    assert_eq!(store.check(&check, TEST_NOW).check, Check::After(200_000_000));
    let before = store.dump();
    store.release(&[release_of(&check, TEST_NOW, 2, 0)], TEST_NOW);
    assert_eq!(store.dump(), before);
}

/// Runs the same sequence twice: once taking `taken` and settling it later, once taking `actual` at first.
/// Afterwards the first must never admit a request that the second refuses.
#[test]
fn settling_never_leaves_more_than_taking_the_actual_cost_at_first() {
    let mut store = TestStore::start();
    let store = std::cell::RefCell::new(&mut store);
    let mut runner = TestRunner::new(Config { cases: 600, failure_persistence: None, ..Config::default() });
    let steps = prop::collection::vec((0..700_000u64, 1..5u64), 0..6);
    let strategy = (0..limits_under_test().len(), 0..8u64, 0..12u64, steps, 0..900_000u64);
    runner
        .run(&strategy, |(index, taken, actual, between, later)| {
            let limit = limits_under_test()[index];
            let encoded = encoded(&[limit]);
            let (settled, direct) = (key_check(&encoded), key_check(&encoded));
            let mut store = store.borrow_mut();
            let admit = |store: &mut TestStore, check: &KeyCheck, cost, now| store.check(&KeyCheck { cost, ..check.clone() }, now);
            // Costs that are not admitted at first cannot be compared.
            let max = if matches!(limit, Limit::WarmUp(_)) { u64::MAX } else { 10 };
            prop_assume!(actual <= max);
            // A first-use window starts elsewhere if the first request had zero cost.
            let opens = matches!(limit, Limit::FixedWindow(window) if window.alignment() == Alignment::FirstUse);
            prop_assume!(!opens || (taken == 0) == (actual == 0));
            admit(&mut store, &settled, taken, TEST_NOW);
            admit(&mut store, &direct, actual, TEST_NOW);
            let mut now = TEST_NOW;
            // After a warm limit a request costs less than after a cold one, as in the engine.
            let between = if matches!(limit, Limit::WarmUp(_)) { Vec::new() } else { between };
            for (after, cost) in between {
                now += after;
                // Both take only costs that the stricter one admits.
                if [&settled, &direct].iter().all(|check| {
                    matches!(admit(&mut store, &KeyCheck { cost: 0, ..(*check).clone() }, 0, now).status.remaining, left if left >= cost)
                }) {
                    admit(&mut store, &settled, cost, now);
                    admit(&mut store, &direct, cost, now);
                }
            }
            now += later;
            store.release(&[release_of(&settled, TEST_NOW, taken, actual)], now);
            for ahead in [0, 1, 50_000, 100_000, 250_000, 400_000, 1_000_000, 1_300_000] {
                let statuses = [&settled, &direct].map(|check| admit(&mut store, check, 0, now + ahead).status);
                prop_assert!(
                    statuses[0].remaining <= statuses[1].remaining,
                    "{limit}: {} left, not {}, {ahead} after it", statuses[0].remaining, statuses[1].remaining
                );
            }
            store.run(&[b"FLUSHALL"]);
            Ok(())
        })
        .unwrap();
}

/// The log has no entries for charges beyond its limit, so a refund might belong to those.
#[test]
fn an_overdrawn_log_ignores_refunds() {
    let mut store = TestStore::start();
    let log = Limit::sliding_log(10, Duration::from_secs(1)).unwrap();
    let check = key_check(&encoded(&[log]));
    let left = |store: &mut TestStore, now| store.check(&KeyCheck { cost: 0, ..check.clone() }, now).status.remaining;
    store.check(&KeyCheck { cost: 1, ..check.clone() }, TEST_NOW);
    store.release(&[release_of(&check, TEST_NOW, 1, 15)], TEST_NOW);
    store.release(&[release_of(&check, 0, 3, 0)], TEST_NOW);
    assert_eq!(left(&mut store, TEST_NOW), 0);
    let later = TEST_NOW + 1_000_001;
    assert_eq!(left(&mut store, later), 10);
    store.check(&KeyCheck { cost: 4, ..check.clone() }, later);
    store.release(&[release_of(&check, 0, 3, 0)], later);
    assert_eq!(left(&mut store, later), 9, "a debt ends with its window");
}
