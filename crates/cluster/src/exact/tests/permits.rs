//! Permits: counted, renewed, released once, and expired without renewal.

use std::sync::Arc;

use proptest::prelude::*;
use sluicegate_engine::algorithm::Check;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::{Limit, Limiter, Permit, Rate, Timestamp};

use super::support::{PERMIT_TTL, TEST_NOW, TestStore, encoded, key_check};
use crate::decision::{KeyCheck, PermitId};
use crate::exact::{Release, Renewal};

const PERMIT_TTL_MICROS: u64 = PERMIT_TTL.as_micros() as u64;

fn with_permit(check: &KeyCheck, id: u128, cost: u64) -> KeyCheck {
    KeyCheck { cost, permit: Some(PermitId(id)), ..check.clone() }
}

fn release_of(check: &KeyCheck) -> Release {
    let (key, limits) = (check.key.clone(), Arc::clone(&check.limits));
    Release { key, limits, taken: check.cost, at: TEST_NOW, actual: check.cost, permit: check.permit }
}

fn renewal(check: &KeyCheck) -> Renewal {
    let (key, limits) = (check.key.clone(), Arc::clone(&check.limits));
    Renewal { key, limits, taken: check.cost, permit: check.permit.unwrap() }
}

fn remaining(store: &mut TestStore, check: &KeyCheck, now: u64) -> u64 {
    store.check(&with_permit(check, 0, 0), now).status.remaining
}

#[test]
fn permits_are_counted_and_released_exactly_once() {
    let mut store = TestStore::start();
    let check = key_check(&encoded(&[Limit::concurrency(5).unwrap()]));
    let (one, three, two) = (with_permit(&check, 1, 1), with_permit(&check, 2, 3), with_permit(&check, 3, 2));
    assert_eq!(store.check(&one, TEST_NOW).status.remaining, 4);
    assert_eq!(store.check(&three, TEST_NOW).status.remaining, 1);
    let before = store.dump();
    assert_eq!(store.check(&two, TEST_NOW).check, Check::Held);
    assert_eq!(store.check(&with_permit(&check, 4, 6), TEST_NOW).check, Check::Never);
    assert_eq!(store.dump(), before);
    assert_eq!(store.release(&[release_of(&three)], TEST_NOW + 5), (vec![true], 0));
    assert_eq!(store.release(&[release_of(&three), release_of(&two)], TEST_NOW + 6), (vec![false, false], 0));
    assert_eq!(remaining(&mut store, &check, TEST_NOW), 4);
    assert_eq!(store.release(&[release_of(&one), release_of(&one)], TEST_NOW + 6), (vec![true, false], 0));
    assert_eq!(store.dump(), []);
}

#[test]
fn unrenewed_permits_expire() {
    let mut store = TestStore::start();
    let check = key_check(&encoded(&[Limit::concurrency(3).unwrap()]));
    let (expired, kept) = (with_permit(&check, 1, 1), with_permit(&check, 2, 2));
    store.check(&expired, TEST_NOW);
    store.check(&kept, TEST_NOW + 1_000);
    let key = check.key.secondary("permits");
    assert_eq!(store.expiry(&key), Some(TEST_NOW + 1_000 + PERMIT_TTL_MICROS));
    assert_eq!(store.renew(&[renewal(&kept)], TEST_NOW + 5_000), [true]);
    assert_eq!(store.expiry(&key), Some(TEST_NOW + 5_000 + PERMIT_TTL_MICROS));
    // One microsecond before expiry, and at expiry.
    assert_eq!(remaining(&mut store, &check, TEST_NOW + PERMIT_TTL_MICROS - 1), 0);
    assert_eq!(remaining(&mut store, &check, TEST_NOW + PERMIT_TTL_MICROS), 1);
    assert_eq!(store.renew(&[renewal(&expired), renewal(&kept)], TEST_NOW + PERMIT_TTL_MICROS), [false, true]);
    assert_eq!(store.release(&[release_of(&expired)], TEST_NOW + PERMIT_TTL_MICROS), (vec![false], 0));
    assert_eq!(remaining(&mut store, &check, TEST_NOW + PERMIT_TTL_MICROS), 1);
    assert_eq!(remaining(&mut store, &check, TEST_NOW + 2 * PERMIT_TTL_MICROS - 1), 1);
    assert_eq!(remaining(&mut store, &check, TEST_NOW + 2 * PERMIT_TTL_MICROS), 3);
    assert_eq!(store.dump(), []);
    assert_eq!(store.renew(&[renewal(&kept)], TEST_NOW + 2 * PERMIT_TTL_MICROS), [false]);
}

#[test]
fn a_renewal_never_shortens_the_ttl() {
    let mut store = TestStore::start();
    let check = with_permit(&key_check(&encoded(&[Limit::concurrency(1).unwrap()])), 1, 1);
    store.check(&check, TEST_NOW);
    // The clock has stepped back.
    assert_eq!(store.renew(&[renewal(&check)], TEST_NOW - 1_000_000), [true]);
    assert_eq!(remaining(&mut store, &check, TEST_NOW + PERMIT_TTL_MICROS - 1), 0);
}

#[test]
fn combined_with_rates_a_request_holds_one_permit_regardless_of_cost() {
    let mut store = TestStore::start();
    let limits = [
        Limit::concurrency(2).unwrap(),
        Limit::token_bucket(Rate::per_second(1).unwrap(), 100).unwrap(),
        Limit::concurrency(3).unwrap(),
    ];
    let check = key_check(&encoded(&limits));
    let first = store.check(&with_permit(&check, 1, 40), TEST_NOW);
    assert_eq!((first.check, first.limit, first.status.remaining), (Check::Now, 0, 1));
    assert_eq!(store.check(&with_permit(&check, 2, 40), TEST_NOW).status.remaining, 0);
    let third = store.check(&with_permit(&check, 3, 40), TEST_NOW);
    assert_eq!((third.check, third.limit), (Check::Held, 0));
    assert_eq!(store.release(&[release_of(&with_permit(&check, 1, 40))], TEST_NOW), (vec![true], 0));
    // Now the bucket is the limiting one.
    let third = store.check(&with_permit(&check, 3, 40), TEST_NOW);
    assert_eq!((third.check, third.limit), (Check::NotBefore(20_000_000_000), 1));
    assert_eq!(store.release(&[release_of(&with_permit(&check, 2, 40))], TEST_NOW), (vec![true], 0));
    let peeked = store.check(&with_permit(&check, 3, 0), TEST_NOW);
    assert_eq!((peeked.limit, peeked.status.remaining), (0, 2));
}

#[test]
fn a_repeated_acquire_holds_the_permit_once() {
    let mut store = TestStore::start();
    let check = key_check(&encoded(&[Limit::concurrency(5).unwrap()]));
    let (twice, other) = (with_permit(&check, 1, 2), with_permit(&check, 2, 1));
    store.check(&twice, TEST_NOW);
    store.check(&other, TEST_NOW);
    assert_eq!(store.check(&twice, TEST_NOW + 1).status.remaining, 2);
    assert_eq!(store.release(&[release_of(&twice)], TEST_NOW + 2), (vec![true], 0));
    assert_eq!(remaining(&mut store, &check, TEST_NOW + 2), 4);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Acquires and releases in any order, against the engine's permits.
    #[test]
    fn permits_are_counted_as_the_engine_counts_them(
        mixed in any::<bool>(), steps in prop::collection::vec((any::<bool>(), 0..5usize, 0..8u64, 0..200_000u64), 1..60),
    ) {
        thread_local! {
            static STORE: std::cell::RefCell<TestStore> = std::cell::RefCell::new(TestStore::start());
        }
        let mut limits = vec![Limit::concurrency(6).unwrap(), Limit::concurrency(5).unwrap()];
        if mixed {
            limits.insert(1, Limit::token_bucket(Rate::per_second(20).unwrap(), 7).unwrap());
        }
        let clock = ManualClock::starting_at(Timestamp::from_nanos(TEST_NOW * 1_000));
        let engine = Limiter::builder().limits(limits.clone()).clock(clock.clone()).build().unwrap();
        let check = key_check(&encoded(&limits));
        let (mut now, mut held): (u64, Vec<(Permit, KeyCheck)>) = (TEST_NOW, Vec::new());
        STORE.with_borrow_mut(|store| {
            for (id, (take, position, cost, later)) in steps.into_iter().enumerate() {
                now += later;
                clock.set(Timestamp::from_nanos(now * 1_000));
                if take {
                    let request = with_permit(&check, id as u128, cost);
                    let decision_found = store.check(&request, now);
                    let expected = match engine.enter(cost) {
                        Ok(permit) => {
                            let decision = *permit.decision();
                            held.push((permit, request));
                            decision
                        }
                        Err(refused) => refused.decision,
                    };
                    let expected = (Check::from(expected.verdict), expected.limit, expected.status);
                    prop_assert_eq!((decision_found.check, decision_found.limit, decision_found.status), expected);
                } else if position < held.len() {
                    let (permit, taken) = held.swap_remove(position);
                    drop(permit);
                    prop_assert_eq!(store.release(&[release_of(&taken)], now), (vec![taken.cost > 0], 0));
                }
            }
            Ok(())
        })?;
    }
}
