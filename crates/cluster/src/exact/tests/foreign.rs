//! Foreign values at our keys: replaced and counted, never an error.

use std::time::Duration;

use sluicegate_engine::algorithm::Check;
use sluicegate_engine::{Limit, Rate};

use super::support::{FAR, Store, prepared, unit};
use crate::ask::{Ask, Unit};
use crate::exact::Ending;

/// Ways in which somebody else may have used our key.
const OTHERS: [&[&[u8]]; 7] = [
    &[b"SET", b"KEY", b"hello"],
    &[b"SET", b"KEY", b""],
    &[b"SET", b"KEY", b"0123456789abcdefg"],
    &[b"HSET", b"KEY", b"tokens", b"5"],
    &[b"RPUSH", b"KEY", b"a", b"b"],
    &[b"ZADD", b"KEY", b"1", b"a", b"99999999999999999", b"b"],
    &[b"SADD", b"KEY", b"a"],
];

fn subjects() -> Vec<Limit> {
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

fn key_of(unit: &Unit) -> Vec<u8> {
    match unit.limits.seconds() {
        [] => unit.key.0.to_vec(),
        [second, ..] => unit.key.second(second).to_vec(),
    }
}

#[test]
fn a_foreign_value_is_replaced_and_counted_once() {
    let mut store = Store::start();
    for limit in subjects() {
        for other in OTHERS {
            let unit = Unit { cost: 2, ..unit(&prepared(&[limit])) };
            let key = key_of(&unit);
            let command: Vec<&[u8]> = other.iter().map(|part| if *part == b"KEY" { &*key } else { part }).collect();
            store.run(&command);
            // An empty string is no value at all: the store keeps none such for a log.
            let ask = [Ask { units: [unit.clone()].into_iter().collect() }];
            let (answers, healed) = store.take(&ask, FAR);
            assert_eq!(answers[0][0].check, Check::Now, "{limit} after {other:?}");
            let empty = other[2].is_empty() && matches!(limit, Limit::SlidingLog(_));
            assert_eq!(healed, u64::from(!empty), "{limit} after {other:?}");
            assert!(store.expiry(&key).is_some());
            let (_, healed) = store.take(&[Ask { units: [Unit { cost: 0, ..unit }].into_iter().collect() }], FAR);
            assert_eq!(healed, 0);
        }
    }
}

#[test]
fn a_refusal_or_an_end_on_a_foreign_value_is_no_error() {
    let mut store = Store::start();
    for limit in subjects() {
        for other in OTHERS {
            let unit = Unit { cost: 2, ..unit(&prepared(&[limit])) };
            let key = key_of(&unit);
            let command: Vec<&[u8]> = other.iter().map(|part| if *part == b"KEY" { &*key } else { part }).collect();
            for (cost, actual) in [(0, 0), (6, 0), (2, 0), (2, 3)] {
                store.run(&[b"DEL", &key]);
                store.run(&command);
                store.ask(&Unit { cost: cost * 100, ..unit.clone() }, FAR);
                store.run(&[b"DEL", &key]);
                store.run(&command);
                let (key, limits) = (unit.key.clone(), unit.limits.clone());
                let ending = Ending { key, limits, taken: cost, at: FAR, actual, permit: unit.permit };
                let (released, _) = store.end(&[ending], FAR + 1);
                assert_eq!(released, [false]);
            }
        }
    }
}
