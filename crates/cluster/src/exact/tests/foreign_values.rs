//! Foreign values at our keys: replaced and counted, never an error.

use std::time::Duration;

use sluicegate_engine::algorithm::Check;
use sluicegate_engine::{Limit, Rate};

use super::support::{TEST_NOW, TestStore, encoded, key_check};
use crate::decision::{DecisionRequest, KeyCheck};
use crate::exact::Release;

/// Commands by which another program may have written our key.
const FOREIGN_COMMANDS: [&[&[u8]]; 7] = [
    &[b"SET", b"KEY", b"hello"],
    &[b"SET", b"KEY", b""],
    &[b"SET", b"KEY", b"0123456789abcdefg"],
    &[b"HSET", b"KEY", b"tokens", b"5"],
    &[b"RPUSH", b"KEY", b"a", b"b"],
    &[b"ZADD", b"KEY", b"1", b"a", b"99999999999999999", b"b"],
    &[b"SADD", b"KEY", b"a"],
];

fn limits_under_test() -> Vec<Limit> {
    vec![
        Limit::token_bucket(Rate::per_second(1).unwrap(), 5).unwrap(),
        Limit::leaky_bucket(Rate::per_second(1).unwrap(), 5).unwrap(),
        Limit::fixed_window(5, Duration::from_secs(60), Default::default()).unwrap(),
        Limit::sliding_window(5, Duration::from_secs(60), 10).unwrap(),
        Limit::interpolated_window(5, Duration::from_secs(60)).unwrap(),
        Limit::sliding_log(5, Duration::from_secs(60)).unwrap(),
        Limit::concurrency(5).unwrap(),
        Limit::warm_up(Rate::per_second(1).unwrap(), Duration::from_secs(60), 3).unwrap(),
    ]
}

fn key_of(check: &KeyCheck) -> Vec<u8> {
    match check.limits.secondary_suffixes() {
        [] => check.key.0.to_vec(),
        [second, ..] => check.key.secondary(second).to_vec(),
    }
}

#[test]
fn a_foreign_value_is_replaced_and_counted_once() {
    let mut store = TestStore::start();
    for limit in limits_under_test() {
        for other in FOREIGN_COMMANDS {
            let check = KeyCheck { cost: 2, ..key_check(&encoded(&[limit])) };
            let key = key_of(&check);
            let command: Vec<&[u8]> = other.iter().map(|part| if *part == b"KEY" { &*key } else { part }).collect();
            store.run(&command);
            // An empty string counts as no value for a log: the store never keeps one.
            let request = [DecisionRequest { checks: [check.clone()].into_iter().collect() }];
            let (replies, replaced) = store.acquire(&request, TEST_NOW);
            assert_eq!(replies[0][0].check, Check::Now, "{limit} after {other:?}");
            let empty = other[2].is_empty() && matches!(limit, Limit::SlidingLog(_));
            assert_eq!(replaced, u64::from(!empty), "{limit} after {other:?}");
            assert!(store.expiry(&key).is_some());
            let (_, replaced) = store.acquire(
                &[DecisionRequest { checks: [KeyCheck { cost: 0, ..check }].into_iter().collect() }],
                TEST_NOW,
            );
            assert_eq!(replaced, 0);
        }
    }
}

#[test]
fn a_refusal_or_release_on_a_foreign_value_is_no_error() {
    let mut store = TestStore::start();
    for limit in limits_under_test() {
        for other in FOREIGN_COMMANDS {
            let check = KeyCheck { cost: 2, ..key_check(&encoded(&[limit])) };
            let key = key_of(&check);
            let command: Vec<&[u8]> = other.iter().map(|part| if *part == b"KEY" { &*key } else { part }).collect();
            for (cost, actual) in [(0, 0), (6, 0), (2, 0), (2, 3)] {
                store.run(&[b"DEL", &key]);
                store.run(&command);
                store.check(&KeyCheck { cost: cost * 100, ..check.clone() }, TEST_NOW);
                store.run(&[b"DEL", &key]);
                store.run(&command);
                let (key, limits) = (check.key.clone(), check.limits.clone());
                let release = Release { key, limits, taken: cost, at: TEST_NOW, actual, permit: check.permit };
                let (released, _) = store.release(&[release], TEST_NOW + 1);
                assert_eq!(released, [false]);
            }
        }
    }
}
