//! Decisions over several keys, and several decisions in one call.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use redis::Value;
use sluicegate_engine::algorithm::{Check, Status};
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::{Limit, Limiter, Rate, Timestamp};

use super::support::{TEST_NOW, TestStore, encoded, key_check};
use crate::decision::{DecisionRequest, KeyCheck, KeyDecisions, PermitId};
use crate::encoded_limits::EncodedLimits;
use crate::exact::reply::MalformedReply;
use crate::exact::{decode_acquire, encode_acquire};

fn bucket(burst: u64) -> Arc<EncodedLimits> {
    encoded(&[Limit::token_bucket(Rate::per_second(10).unwrap(), burst).unwrap()])
}

fn request_of(checks: &[&KeyCheck]) -> DecisionRequest {
    DecisionRequest { checks: checks.iter().map(|check| (*check).clone()).collect() }
}

#[test]
fn a_decision_takes_from_all_of_its_keys_or_from_none() {
    let mut store = TestStore::start();
    let wide = key_check(&bucket(10));
    let narrow =
        key_check(&encoded(&["2/1m".parse().unwrap(), Limit::sliding_log(5, Duration::from_secs(1)).unwrap()]));
    let permits = key_check(&encoded(&[Limit::concurrency(5).unwrap()]));
    let together = |id| [request_of(&[&wide, &narrow, &KeyCheck { permit: Some(PermitId(id)), ..permits.clone() }])];
    for (id, left) in [(1, (9, 1, 4)), (2, (8, 0, 3))] {
        let decision = &store.acquire(&together(id), TEST_NOW).0[0];
        assert!(decision.iter().all(|decision| decision.check == Check::Now));
        assert_eq!((decision[0].status.remaining, decision[1].status.remaining, decision[2].status.remaining), left);
    }
    let before = store.dump();
    let decision = &store.acquire(&together(3), TEST_NOW).0[0];
    assert_eq!((decision[0].check, decision[0].status.remaining), (Check::Now, 8));
    assert!(matches!(decision[1].check, Check::NotBefore(_)), "{decision:?}");
    assert_eq!((decision[2].check, decision[2].status.remaining), (Check::Now, 3));
    assert_eq!(store.dump(), before);
}

#[test]
fn decisions_of_one_call_are_made_in_order() {
    let mut store = TestStore::start();
    let (one, other) = (key_check(&bucket(3)), key_check(&bucket(3)));
    let costs = [1, 1, 2, 1, 1];
    let requests: Vec<DecisionRequest> =
        costs.iter().map(|cost| request_of(&[&KeyCheck { cost: *cost, ..one.clone() }])).collect();
    let (replies, _) = store.acquire(&requests, TEST_NOW);
    let admitted: Vec<bool> = replies.iter().map(|decision| decision[0].check == Check::Now).collect();
    assert_eq!(admitted, [true, true, false, true, false]);
    let left: Vec<u64> = replies.iter().map(|decision| decision[0].status.remaining).collect();
    assert_eq!(left, [2, 1, 1, 0, 0]);
    // The same limits in the short form and in the general form.
    let (replies, _) = store.acquire(
        &[request_of(&[&other]), request_of(&[&other, &key_check(&bucket(1))]), request_of(&[&other])],
        TEST_NOW,
    );
    assert_eq!(replies.iter().map(|decision| decision[0].status.remaining).collect::<Vec<_>>(), [2, 1, 0]);
}

#[test]
fn limits_with_other_quotas_reuse_the_existing_state() {
    let mut store = TestStore::start();
    let (small, large) = (bucket(10), bucket(20));
    let before = KeyCheck { cost: 6, ..key_check(&small) };
    assert_eq!(store.check(&before, TEST_NOW).status.remaining, 4);
    let after = KeyCheck { limits: Arc::clone(&large), cost: 0, ..before.clone() };
    assert_eq!(store.check(&after, TEST_NOW).status, Status { limit: 20, remaining: 14, reset: 600_000_000 });
    // Both in one call.
    let (replies, _) = store.acquire(
        &[request_of(&[&KeyCheck { cost: 1, ..before }]), request_of(&[&KeyCheck { cost: 1, ..after }])],
        TEST_NOW,
    );
    assert_eq!(replies.iter().map(|decision| decision[0].status.remaining).collect::<Vec<_>>(), [3, 12]);
}

#[test]
fn no_and_many_decisions_in_one_call() {
    let mut store = TestStore::start();
    assert_eq!(store.acquire(&[], TEST_NOW), (vec![], 0));
    assert_eq!(store.acquire(&[request_of(&[])], TEST_NOW), (vec![KeyDecisions::new()], 0));
    assert_eq!(store.release(&[], TEST_NOW), (vec![], 0));
    assert_eq!(store.renew(&[], TEST_NOW), [false; 0]);
    let limits = bucket(10);
    let requests: Vec<DecisionRequest> = (0..9_000).map(|_| request_of(&[&key_check(&limits)])).collect();
    let (replies, replaced) = store.acquire(&requests, TEST_NOW);
    assert_eq!((replies.len(), replaced), (9_000, 0));
    assert!(replies.iter().all(|decision| decision[0].check == Check::Now && decision[0].status.remaining == 9));
}

#[test]
fn the_store_clock_is_used_by_default() {
    let mut store = TestStore::start();
    let check =
        key_check(&encoded(&[Limit::token_bucket(Rate::new(1, Duration::from_secs(3_600)).unwrap(), 2).unwrap()]));
    let requests = [request_of(&[&check])];
    let value = store.call(&encode_acquire(&requests, None));
    let decision = decode_acquire(value, &requests).unwrap().0[0][0];
    let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = Timestamp::from_unix(system).as_nanos() / 1_000;
    assert!(decision.at.abs_diff(now) < 60_000_000, "{} is not {now}", decision.at);
    assert_eq!(decision.status, Status { limit: 2, remaining: 1, reset: 3_600_000_000_000 });
    let ttl: i64 = redis::cmd("PTTL").arg(check.key.0.as_ref()).query(&mut store.connection).unwrap();
    assert!((3_500_000..=3_600_001).contains(&ttl), "{ttl}");
}

#[test]
fn malformed_replies_are_rejected() {
    let check = key_check(&bucket(1));
    let requests = [request_of(&[&check])];
    let rows: [&[i64]; 7] =
        [&[], &[1, 0], &[1, 0, 0, 5], &[1, 0, 9, 0, 0], &[1, 0, 5, 0, 0], &[1, 0, 2, 0, 0], &[1, 0, 0, -1, 0]];
    for row in rows {
        let value = Value::Array(row.iter().map(|number| Value::Int(*number)).collect());
        assert_eq!(decode_acquire(value, &requests), Err(MalformedReply), "{row:?}");
    }
    assert_eq!(decode_acquire(Value::Nil, &requests), Err(MalformedReply));
    let too_long = Value::Array([1, 0, 0, 1, 0, 0].map(Value::Int).to_vec());
    assert_eq!(decode_acquire(too_long, &requests), Err(MalformedReply));
}

#[test]
fn clocks_at_the_epoch_and_at_the_maximum_are_tolerated() {
    let mut store = TestStore::start();
    for limits in ["5/1m".parse().unwrap(), Limit::token_bucket(Rate::per_second(1).unwrap(), 5).unwrap()] {
        let check = key_check(&encoded(&[limits]));
        assert_eq!(store.check(&check, 0).check, Check::Now);
        assert_eq!(store.check(&check, u64::MAX).check, Check::Now);
        // The clock steps back: nothing refills.
        assert!(matches!(store.check(&KeyCheck { cost: 5, ..check.clone() }, 1).check, Check::NotBefore(_)));
    }
}

/// Limits that the store rounds up are never more generous than the engine.
#[test]
fn windows_of_fractional_microseconds_are_rounded_up() {
    let mut store = TestStore::start();
    let limits = [
        Limit::sliding_window(3, Duration::from_nanos(10_500), 4).unwrap(),
        Limit::fixed_window(3, Duration::from_nanos(10_001), sluicegate_engine::algorithm::Alignment::FirstUse)
            .unwrap(),
        Limit::sliding_log(3, Duration::from_nanos(10_001)).unwrap(),
    ];
    for limit in limits {
        let check = key_check(&encoded(&[limit]));
        let mut admitted: Vec<u64> = Vec::new();
        for now in TEST_NOW..TEST_NOW + 300 {
            if store.check(&check, now).check == Check::Now {
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
    fn a_batch_decides_like_consecutive_requests(
        batches in prop::collection::vec((0..400_000u64, prop::collection::vec((0..3usize, 0..6u64), 1..20)), 1..12),
        bucket in any::<bool>(),
    ) {
        thread_local! {
            static STORE: std::cell::RefCell<TestStore> = std::cell::RefCell::new(TestStore::start());
        }
        let limit = match bucket {
            true => Limit::token_bucket(Rate::per_second(10).unwrap(), 5).unwrap(),
            false => Limit::sliding_window(5, Duration::from_secs(1), 4).unwrap(),
        };
        let clock = ManualClock::starting_at(Timestamp::from_nanos(TEST_NOW * 1_000));
        let engines: Vec<Limiter> =
            (0..3).map(|_| Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap()).collect();
        let limits = encoded(&[limit]);
        let checks: Vec<KeyCheck> = (0..3).map(|_| key_check(&limits)).collect();
        let mut now = TEST_NOW;
        for (later, batch) in batches {
            now += later;
            clock.set(Timestamp::from_nanos(now * 1_000));
            let requests: Vec<DecisionRequest> =
                batch.iter().map(|(key, cost)| request_of(&[&KeyCheck { cost: *cost, ..checks[*key].clone() }])).collect();
            let (replies, _) = STORE.with_borrow_mut(|store| store.acquire(&requests, now));
            for (decision, (key, cost)) in replies.iter().zip(&batch) {
                let expected = engines[*key].check_cost(*cost);
                prop_assert_eq!((decision[0].check, decision[0].status), (Check::from(expected.verdict), expected.status));
            }
        }
    }
}
