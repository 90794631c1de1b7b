//! Asks of several units, and several asks in one call.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use redis::Value;
use sluicegate_engine::algorithm::{Check, Status};
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::{Limit, Limiter, Rate, Timestamp};

use super::support::{FAR, Store, prepared, unit};
use crate::ask::{Answer, Ask, PermitId, Unit};
use crate::exact::reply::Malformed;
use crate::exact::{decode_take, encode_take};
use crate::prepared::PreparedLimits;

fn bucket(burst: u64) -> Arc<PreparedLimits> {
    prepared(&[Limit::token_bucket(Rate::per_second(10).unwrap(), burst).unwrap()])
}

fn ask(units: &[&Unit]) -> Ask {
    Ask { units: units.iter().map(|unit| (*unit).clone()).collect() }
}

#[test]
fn an_ask_takes_from_all_of_its_units_or_from_none() {
    let mut store = Store::start();
    let wide = unit(&bucket(10));
    let narrow = unit(&prepared(&["2/1m".parse().unwrap(), Limit::sliding_log(5, Duration::from_secs(1)).unwrap()]));
    let permits = unit(&prepared(&[Limit::concurrency(5).unwrap()]));
    let together = |id| [ask(&[&wide, &narrow, &Unit { permit: Some(PermitId(id)), ..permits.clone() }])];
    for (id, left) in [(1, (9, 1, 4)), (2, (8, 0, 3))] {
        let said = &store.take(&together(id), FAR).0[0];
        assert!(said.iter().all(|said| said.check == Check::Now));
        assert_eq!((said[0].status.remaining, said[1].status.remaining, said[2].status.remaining), left);
    }
    let before = store.dump();
    let said = &store.take(&together(3), FAR).0[0];
    assert_eq!((said[0].check, said[0].status.remaining), (Check::Now, 8));
    assert!(matches!(said[1].check, Check::NotBefore(_)), "{said:?}");
    assert_eq!((said[2].check, said[2].status.remaining), (Check::Now, 3));
    assert_eq!(store.dump(), before);
}

#[test]
fn asks_of_one_call_are_decided_one_after_the_other() {
    let mut store = Store::start();
    let (one, other) = (unit(&bucket(3)), unit(&bucket(3)));
    let costs = [1, 1, 2, 1, 1];
    let asks: Vec<Ask> = costs.iter().map(|cost| ask(&[&Unit { cost: *cost, ..one.clone() }])).collect();
    let (answers, _) = store.take(&asks, FAR);
    let admitted: Vec<bool> = answers.iter().map(|said| said[0].check == Check::Now).collect();
    assert_eq!(admitted, [true, true, false, true, false]);
    let left: Vec<u64> = answers.iter().map(|said| said[0].status.remaining).collect();
    assert_eq!(left, [2, 1, 1, 0, 0]);
    // The same limits in the short form and in the long one.
    let (answers, _) = store.take(&[ask(&[&other]), ask(&[&other, &unit(&bucket(1))]), ask(&[&other])], FAR);
    assert_eq!(answers.iter().map(|said| said[0].status.remaining).collect::<Vec<_>>(), [2, 1, 0]);
}

#[test]
fn limits_with_other_quotas_go_on_with_the_state_that_is_there() {
    let mut store = Store::start();
    let (small, large) = (bucket(10), bucket(20));
    let before = Unit { cost: 6, ..unit(&small) };
    assert_eq!(store.ask(&before, FAR).status.remaining, 4);
    let after = Unit { limits: Arc::clone(&large), cost: 0, ..before.clone() };
    assert_eq!(store.ask(&after, FAR).status, Status { limit: 20, remaining: 14, reset: 600_000_000 });
    // Both in one call.
    let (answers, _) = store.take(&[ask(&[&Unit { cost: 1, ..before }]), ask(&[&Unit { cost: 1, ..after }])], FAR);
    assert_eq!(answers.iter().map(|said| said[0].status.remaining).collect::<Vec<_>>(), [3, 12]);
}

#[test]
fn none_and_many_asks_in_one_call() {
    let mut store = Store::start();
    assert_eq!(store.take(&[], FAR), (vec![], 0));
    assert_eq!(store.take(&[ask(&[])], FAR), (vec![Answer::new()], 0));
    assert_eq!(store.end(&[], FAR), (vec![], 0));
    assert_eq!(store.renew(&[], FAR), [false; 0]);
    let limits = bucket(10);
    let asks: Vec<Ask> = (0..9_000).map(|_| ask(&[&unit(&limits)])).collect();
    let (answers, healed) = store.take(&asks, FAR);
    assert_eq!((answers.len(), healed), (9_000, 0));
    assert!(answers.iter().all(|said| said[0].check == Check::Now && said[0].status.remaining == 9));
}

#[test]
fn the_stores_own_clock_decides_if_nobody_says_otherwise() {
    let mut store = Store::start();
    let unit = unit(&prepared(&[Limit::token_bucket(Rate::new(1, Duration::from_secs(3_600)).unwrap(), 2).unwrap()]));
    let asks = [ask(&[&unit])];
    let value = store.call(&encode_take(&asks, None));
    let said = decode_take(value, &asks).unwrap().0[0][0];
    let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = Timestamp::from_unix(system).as_nanos() / 1_000;
    assert!(said.at.abs_diff(now) < 60_000_000, "{} is not {now}", said.at);
    assert_eq!(said.status, Status { limit: 2, remaining: 1, reset: 3_600_000_000_000 });
    let life: i64 = redis::cmd("PTTL").arg(unit.key.0.as_ref()).query(&mut store.connection).unwrap();
    assert!((3_500_000..=3_600_001).contains(&life), "{life}");
}

#[test]
fn what_no_script_answers_is_told_from_what_one_does() {
    let unit = unit(&bucket(1));
    let asks = [ask(&[&unit])];
    let rows: [&[i64]; 7] =
        [&[], &[1, 0], &[1, 0, 0, 5], &[1, 0, 9, 0, 0], &[1, 0, 5, 0, 0], &[1, 0, 2, 0, 0], &[1, 0, 0, -1, 0]];
    for row in rows {
        let value = Value::Array(row.iter().map(|number| Value::Int(*number)).collect());
        assert_eq!(decode_take(value, &asks), Err(Malformed), "{row:?}");
    }
    assert_eq!(decode_take(Value::Nil, &asks), Err(Malformed));
    let too_long = Value::Array([1, 0, 0, 1, 0, 0].map(Value::Int).to_vec());
    assert_eq!(decode_take(too_long, &asks), Err(Malformed));
}

#[test]
fn clocks_before_and_far_behind_the_epoch_do_no_harm() {
    let mut store = Store::start();
    for limits in ["5/1m".parse().unwrap(), Limit::token_bucket(Rate::per_second(1).unwrap(), 5).unwrap()] {
        let unit = unit(&prepared(&[limits]));
        assert_eq!(store.ask(&unit, 0).check, Check::Now);
        assert_eq!(store.ask(&unit, u64::MAX).check, Check::Now);
        // Back again: nothing refills.
        assert!(matches!(store.ask(&Unit { cost: 5, ..unit.clone() }, 1).check, Check::NotBefore(_)));
    }
}

/// Limits whose parts the store has to round up are never more generous than the engine.
#[test]
fn windows_of_no_whole_microseconds_are_rounded_up() {
    let mut store = Store::start();
    let limits = [
        Limit::sliding_window(3, Duration::from_nanos(10_500), 4).unwrap(),
        Limit::fixed_window(3, Duration::from_nanos(10_001), sluicegate_engine::algorithm::Alignment::FirstUse)
            .unwrap(),
        Limit::sliding_log(3, Duration::from_nanos(10_001)).unwrap(),
    ];
    for limit in limits {
        let unit = unit(&prepared(&[limit]));
        let mut admitted: Vec<u64> = Vec::new();
        for now in FAR..FAR + 300 {
            if store.ask(&unit, now).check == Check::Now {
                admitted.push(now);
            }
        }
        // Any four of them span more than a window.
        assert!(admitted.len() > 30, "{limit}");
        assert!(admitted.windows(4).all(|four| four[3] - four[0] > 10), "{limit}: {admitted:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A batch on few keys against one engine limiter per key.
    #[test]
    fn batches_decide_as_one_ask_after_the_other(
        batches in prop::collection::vec((0..400_000u64, prop::collection::vec((0..3usize, 0..6u64), 1..20)), 1..12),
        bucket in any::<bool>(),
    ) {
        thread_local! {
            static STORE: std::cell::RefCell<Store> = std::cell::RefCell::new(Store::start());
        }
        let limit = match bucket {
            true => Limit::token_bucket(Rate::per_second(10).unwrap(), 5).unwrap(),
            false => Limit::sliding_window(5, Duration::from_secs(1), 4).unwrap(),
        };
        let clock = ManualClock::starting_at(Timestamp::from_nanos(FAR * 1_000));
        let engines: Vec<Limiter> =
            (0..3).map(|_| Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap()).collect();
        let limits = prepared(&[limit]);
        let units: Vec<Unit> = (0..3).map(|_| unit(&limits)).collect();
        let mut now = FAR;
        for (later, batch) in batches {
            now += later;
            clock.set(Timestamp::from_nanos(now * 1_000));
            let asks: Vec<Ask> =
                batch.iter().map(|(key, cost)| ask(&[&Unit { cost: *cost, ..units[*key].clone() }])).collect();
            let (answers, _) = STORE.with_borrow_mut(|store| store.take(&asks, now));
            for (said, (key, cost)) in answers.iter().zip(&batch) {
                let expected = engines[*key].check_cost(*cost);
                prop_assert_eq!((said[0].check, said[0].status), (Check::from(expected.verdict), expected.status));
            }
        }
    }
}
