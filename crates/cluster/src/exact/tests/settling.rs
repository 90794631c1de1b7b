//! Settling and giving back: never more than if the actual cost had been taken at first.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sluicegate_engine::algorithm::{Alignment, Check};
use sluicegate_engine::{Limit, Rate};

use super::support::{FAR, Store, prepared, unit};
use crate::ask::Unit;
use crate::exact::Ending;

fn subjects() -> Vec<Limit> {
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

fn end(unit: &Unit, at: u64, taken: u64, actual: u64) -> Ending {
    Ending { key: unit.key.clone(), limits: Arc::clone(&unit.limits), taken, at, actual, permit: None }
}

#[test]
fn what_nobody_touched_since_is_given_back_whole() {
    let mut store = Store::start();
    for limit in subjects() {
        let mut unit = unit(&prepared(&[limit]));
        unit.cost = 6;
        let at = store.ask(&unit, FAR).at;
        assert_eq!(at, FAR);
        store.end(&[end(&unit, at, 6, 0)], FAR);
        let look = store.ask(&Unit { cost: 0, ..unit.clone() }, FAR);
        if !matches!(limit, Limit::WarmUp(_)) {
            assert_eq!(look.status.remaining, 10, "{limit}");
        }
        store.end(&[end(&unit, at, 0, 4)], FAR);
        let look = store.ask(&Unit { cost: 0, ..unit.clone() }, FAR);
        if !matches!(limit, Limit::WarmUp(_)) {
            assert_eq!(look.status.remaining, 6, "{limit}");
        }
    }
    store.run(&[b"FLUSHALL"]);
}

#[test]
fn what_is_full_again_leaves_no_key() {
    let mut store = Store::start();
    for limit in subjects() {
        if matches!(
            limit,
            Limit::WarmUp(_) | Limit::FixedWindow(_) | Limit::SlidingWindow(_) | Limit::InterpolatedWindow(_)
        ) {
            // Windows stay open, and what was warm has to cool.
            continue;
        }
        let unit = Unit { cost: 6, ..unit(&prepared(&[limit])) };
        store.ask(&unit, FAR);
        store.end(&[end(&unit, FAR, 6, 0)], FAR);
        assert_eq!(store.dump(), [], "{limit}");
    }
}

#[test]
fn tokens_come_back_only_if_nobody_came_since() {
    let mut store = Store::start();
    let unit = Unit { cost: 6, ..unit(&prepared(&[subjects()[0]])) };
    store.ask(&unit, FAR);
    store.ask(&Unit { cost: 1, ..unit.clone() }, FAR);
    // Somebody came at the same moment: what was taken is still told from it.
    store.end(&[end(&unit, FAR, 6, 2)], FAR);
    assert_eq!(store.ask(&Unit { cost: 0, ..unit.clone() }, FAR).status.remaining, 7);
    store.ask(&Unit { cost: 1, ..unit.clone() }, FAR + 1);
    let before = store.dump();
    store.end(&[end(&unit, FAR, 2, 0)], FAR + 1);
    assert_eq!(store.dump(), before);
}

#[test]
fn a_place_in_line_comes_back_only_if_nobody_else_is_in_it() {
    let mut store = Store::start();
    let unit = Unit { cost: 2, ..unit(&prepared(&[subjects()[2]])) };
    store.ask(&unit, FAR);
    assert_eq!(store.ask(&unit, FAR).check, Check::After(200_000_000));
    let before = store.dump();
    store.end(&[end(&unit, FAR, 2, 0)], FAR);
    assert_eq!(store.dump(), before);
}

/// Runs the same sequence twice: once taking `taken` and settling it later, once taking `actual` at first.
/// Afterwards the first must never admit what the second refuses.
#[test]
fn settling_never_leaves_more_than_taking_the_actual_cost_at_first() {
    let mut store = Store::start();
    let store = std::cell::RefCell::new(&mut store);
    let mut runner = TestRunner::new(Config { cases: 600, failure_persistence: None, ..Config::default() });
    let steps = prop::collection::vec((0..700_000u64, 1..5u64), 0..6);
    let strategy = (0..subjects().len(), 0..8u64, 0..12u64, steps, 0..900_000u64);
    runner
        .run(&strategy, |(nth, taken, actual, between, later)| {
            let limit = subjects()[nth];
            let prepared = prepared(&[limit]);
            let (settled, direct) = (unit(&prepared), unit(&prepared));
            let mut store = store.borrow_mut();
            let admit = |store: &mut Store, unit: &Unit, cost, now| store.ask(&Unit { cost, ..unit.clone() }, now);
            // What was not admitted at first cannot be compared.
            let most = if matches!(limit, Limit::WarmUp(_)) { u64::MAX } else { 10 };
            prop_assume!(actual <= most);
            // A window that begins with first use begins elsewhere if a look is all there was at first.
            let opens = matches!(limit, Limit::FixedWindow(window) if window.alignment() == Alignment::FirstUse);
            prop_assume!(!opens || (taken == 0) == (actual == 0));
            admit(&mut store, &settled, taken, FAR);
            admit(&mut store, &direct, actual, FAR);
            let mut now = FAR;
            // Who comes after a warm-up has been warmed pays less than after a cold one: as in the engine.
            let between = if matches!(limit, Limit::WarmUp(_)) { Vec::new() } else { between };
            for (after, cost) in between {
                now += after;
                // Both take what the stricter one admits.
                if [&settled, &direct].iter().all(|unit| {
                    matches!(admit(&mut store, &Unit { cost: 0, ..(*unit).clone() }, 0, now).status.remaining, left if left >= cost)
                }) {
                    admit(&mut store, &settled, cost, now);
                    admit(&mut store, &direct, cost, now);
                }
            }
            now += later;
            store.end(&[end(&settled, FAR, taken, actual)], now);
            for ahead in [0, 1, 50_000, 100_000, 250_000, 400_000, 1_000_000, 1_300_000] {
                let looks = [&settled, &direct].map(|unit| admit(&mut store, unit, 0, now + ahead).status);
                prop_assert!(
                    looks[0].remaining <= looks[1].remaining,
                    "{limit}: {} left, not {}, {ahead} after it", looks[0].remaining, looks[1].remaining
                );
            }
            store.run(&[b"FLUSHALL"]);
            Ok(())
        })
        .unwrap();
}

/// The log has no entries for what was charged beyond its limit: what comes back might be that.
#[test]
fn an_overdrawn_log_keeps_what_is_given_back() {
    let mut store = Store::start();
    let log = Limit::sliding_log(10, Duration::from_secs(1)).unwrap();
    let unit = unit(&prepared(&[log]));
    let left = |store: &mut Store, now| store.ask(&Unit { cost: 0, ..unit.clone() }, now).status.remaining;
    store.ask(&Unit { cost: 1, ..unit.clone() }, FAR);
    store.end(&[end(&unit, FAR, 1, 15)], FAR);
    store.end(&[end(&unit, 0, 3, 0)], FAR);
    assert_eq!(left(&mut store, FAR), 0);
    let later = FAR + 1_000_001;
    assert_eq!(left(&mut store, later), 10);
    store.ask(&Unit { cost: 4, ..unit.clone() }, later);
    store.end(&[end(&unit, 0, 3, 0)], later);
    assert_eq!(left(&mut store, later), 9, "a debt is over with its window");
}
