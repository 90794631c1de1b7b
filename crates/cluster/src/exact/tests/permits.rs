//! Permits: counted, kept alive by renewal, given back once, and forgotten if nobody renews them.

use std::sync::Arc;

use proptest::prelude::*;
use sluicegate_engine::algorithm::Check;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::{Limit, Limiter, Pass, Rate, Timestamp};

use super::support::{FAR, LIFE, Store, prepared, unit};
use crate::ask::{PermitId, Unit};
use crate::exact::{Ending, Renewal};

const LIFE_MICROS: u64 = LIFE.as_micros() as u64;

fn by(unit: &Unit, id: u128, cost: u64) -> Unit {
    Unit { cost, permit: Some(PermitId(id)), ..unit.clone() }
}

fn ending(unit: &Unit) -> Ending {
    let (key, limits) = (unit.key.clone(), Arc::clone(&unit.limits));
    Ending { key, limits, taken: unit.cost, at: FAR, actual: unit.cost, permit: unit.permit }
}

fn renewal(unit: &Unit) -> Renewal {
    let (key, limits) = (unit.key.clone(), Arc::clone(&unit.limits));
    Renewal { key, limits, taken: unit.cost, permit: unit.permit.unwrap() }
}

fn left(store: &mut Store, unit: &Unit, now: u64) -> u64 {
    store.ask(&by(unit, 0, 0), now).status.remaining
}

#[test]
fn permits_are_counted_and_given_back_exactly_once() {
    let mut store = Store::start();
    let unit = unit(&prepared(&[Limit::concurrency(5).unwrap()]));
    let (one, three, two) = (by(&unit, 1, 1), by(&unit, 2, 3), by(&unit, 3, 2));
    assert_eq!(store.ask(&one, FAR).status.remaining, 4);
    assert_eq!(store.ask(&three, FAR).status.remaining, 1);
    let before = store.dump();
    assert_eq!(store.ask(&two, FAR).check, Check::Held);
    assert_eq!(store.ask(&by(&unit, 4, 6), FAR).check, Check::Never);
    assert_eq!(store.dump(), before);
    assert_eq!(store.end(&[ending(&three)], FAR + 5), (vec![true], 0));
    assert_eq!(store.end(&[ending(&three), ending(&two)], FAR + 6), (vec![false, false], 0));
    assert_eq!(left(&mut store, &unit, FAR), 4);
    assert_eq!(store.end(&[ending(&one), ending(&one)], FAR + 6), (vec![true, false], 0));
    assert_eq!(store.dump(), []);
}

#[test]
fn permits_nobody_renews_are_forgotten() {
    let mut store = Store::start();
    let unit = unit(&prepared(&[Limit::concurrency(3).unwrap()]));
    let (lost, kept) = (by(&unit, 1, 1), by(&unit, 2, 2));
    store.ask(&lost, FAR);
    store.ask(&kept, FAR + 1_000);
    let key = unit.key.second("permits");
    assert_eq!(store.expiry(&key), Some(FAR + 1_000 + LIFE_MICROS));
    assert_eq!(store.renew(&[renewal(&kept)], FAR + 5_000), [true]);
    assert_eq!(store.expiry(&key), Some(FAR + 5_000 + LIFE_MICROS));
    // One microsecond before, and when its time is up.
    assert_eq!(left(&mut store, &unit, FAR + LIFE_MICROS - 1), 0);
    assert_eq!(left(&mut store, &unit, FAR + LIFE_MICROS), 1);
    assert_eq!(store.renew(&[renewal(&lost), renewal(&kept)], FAR + LIFE_MICROS), [false, true]);
    assert_eq!(store.end(&[ending(&lost)], FAR + LIFE_MICROS), (vec![false], 0));
    assert_eq!(left(&mut store, &unit, FAR + LIFE_MICROS), 1);
    assert_eq!(left(&mut store, &unit, FAR + 2 * LIFE_MICROS - 1), 1);
    assert_eq!(left(&mut store, &unit, FAR + 2 * LIFE_MICROS), 3);
    assert_eq!(store.dump(), []);
    assert_eq!(store.renew(&[renewal(&kept)], FAR + 2 * LIFE_MICROS), [false]);
}

#[test]
fn a_renewal_never_shortens_a_life() {
    let mut store = Store::start();
    let unit = by(&unit(&prepared(&[Limit::concurrency(1).unwrap()])), 1, 1);
    store.ask(&unit, FAR);
    // The clock has stepped back.
    assert_eq!(store.renew(&[renewal(&unit)], FAR - 1_000_000), [true]);
    assert_eq!(left(&mut store, &unit, FAR + LIFE_MICROS - 1), 0);
}

#[test]
fn beside_rates_a_request_holds_one_permit_whatever_it_costs() {
    let mut store = Store::start();
    let limits = [
        Limit::concurrency(2).unwrap(),
        Limit::token_bucket(Rate::per_second(1).unwrap(), 100).unwrap(),
        Limit::concurrency(3).unwrap(),
    ];
    let unit = unit(&prepared(&limits));
    let first = store.ask(&by(&unit, 1, 40), FAR);
    assert_eq!((first.check, first.limit, first.status.remaining), (Check::Now, 0, 1));
    assert_eq!(store.ask(&by(&unit, 2, 40), FAR).status.remaining, 0);
    let third = store.ask(&by(&unit, 3, 40), FAR);
    assert_eq!((third.check, third.limit), (Check::Held, 0));
    assert_eq!(store.end(&[ending(&by(&unit, 1, 40))], FAR), (vec![true], 0));
    // Now the bucket is what is short of.
    let third = store.ask(&by(&unit, 3, 40), FAR);
    assert_eq!((third.check, third.limit), (Check::NotBefore(20_000_000_000), 1));
    assert_eq!(store.end(&[ending(&by(&unit, 2, 40))], FAR), (vec![true], 0));
    let look = store.ask(&by(&unit, 3, 0), FAR);
    assert_eq!((look.limit, look.status.remaining), (0, 2));
}

#[test]
fn who_asks_twice_holds_once() {
    let mut store = Store::start();
    let unit = unit(&prepared(&[Limit::concurrency(5).unwrap()]));
    let (twice, other) = (by(&unit, 1, 2), by(&unit, 2, 1));
    store.ask(&twice, FAR);
    store.ask(&other, FAR);
    assert_eq!(store.ask(&twice, FAR + 1).status.remaining, 2);
    assert_eq!(store.end(&[ending(&twice)], FAR + 2), (vec![true], 0));
    assert_eq!(left(&mut store, &unit, FAR + 2), 4);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Takes and ends in any order, against the engine's passes.
    #[test]
    fn permits_are_counted_as_the_engine_counts_them(
        mixed in any::<bool>(), steps in prop::collection::vec((any::<bool>(), 0..5usize, 0..8u64, 0..200_000u64), 1..60),
    ) {
        thread_local! {
            static STORE: std::cell::RefCell<Store> = std::cell::RefCell::new(Store::start());
        }
        let mut limits = vec![Limit::concurrency(6).unwrap(), Limit::concurrency(5).unwrap()];
        if mixed {
            limits.insert(1, Limit::token_bucket(Rate::per_second(20).unwrap(), 7).unwrap());
        }
        let clock = ManualClock::starting_at(Timestamp::from_nanos(FAR * 1_000));
        let engine = Limiter::builder().limits(limits.clone()).clock(clock.clone()).build().unwrap();
        let unit = unit(&prepared(&limits));
        let (mut now, mut held): (u64, Vec<(Pass, Unit)>) = (FAR, Vec::new());
        STORE.with_borrow_mut(|store| {
            for (id, (take, which, cost, later)) in steps.into_iter().enumerate() {
                now += later;
                clock.set(Timestamp::from_nanos(now * 1_000));
                if take {
                    let asking = by(&unit, id as u128, cost);
                    let said = store.ask(&asking, now);
                    let expected = match engine.enter(cost) {
                        Ok(pass) => {
                            let decision = *pass.decision();
                            held.push((pass, asking));
                            decision
                        }
                        Err(refused) => refused.decision,
                    };
                    let expected = (Check::from(expected.verdict), expected.limit, expected.status);
                    prop_assert_eq!((said.check, said.limit, said.status), expected);
                } else if which < held.len() {
                    let (pass, taken) = held.swap_remove(which);
                    drop(pass);
                    prop_assert_eq!(store.end(&[ending(&taken)], now), (vec![taken.cost > 0], 0));
                }
            }
            Ok(())
        })?;
    }
}
