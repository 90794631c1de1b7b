//! Fixed-size key table: every key keeps its bound, whatever is evicted.

use crate::support;

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{KeyedLimiter, Limit, LimitError, Limiter};
use sluicegate_testkit::bound::{self, AdmissionEvent, ExactRate, Violation};
use sluicegate_testkit::random::SplitMix64;
use support::*;

fn keyed<K: Hash + ?Sized>(clock: &ManualClock, limits: &[Limit], capacity: usize) -> KeyedLimiter<K> {
    Limiter::builder().limits(limits.iter().copied()).clock(clock.clone()).build_keyed(capacity).unwrap()
}

/// Check of the guarantee on a history of admissions.
type BoundCheck = fn(&[AdmissionEvent]) -> Result<(), Violation>;

const WINDOW: u64 = 1_000_000_000;

/// Each kind of limit with four per second, with its check.
fn kinds() -> Vec<(&'static str, Vec<Limit>, BoundCheck)> {
    let strict: BoundCheck = |history| bound::any_window(history, 4, WINDOW);
    let tokens: BoundCheck = |history| bound::token_bucket(history, ExactRate::per_second(4), 4);
    let aligned: BoundCheck = |history| bound::aligned_window(history, 4, WINDOW, 0);
    // Not strict by itself: a span across two windows sees almost twice the limit.
    let twice: BoundCheck = |history| bound::any_window(history, 8, WINDOW);
    let both: BoundCheck = |history| {
        bound::any_window(history, 4, WINDOW)?;
        bound::any_window(history, 6, 2 * WINDOW)
    };
    vec![
        ("token bucket", vec![bucket("4/s", 4)], tokens),
        ("bandwidth", vec![Limit::bandwidth(rate("4/s"), 4).unwrap()], tokens),
        ("leaky bucket", vec![leaky("4/s", 4)], tokens),
        ("fixed window", vec![Limit::fixed_window(4, secs(1), Alignment::Epoch).unwrap()], aligned),
        ("sliding window", vec![sliding(4, secs(1), 10)], strict),
        ("sliding log", vec![log(4, secs(1))], strict),
        ("interpolated window", vec![Limit::interpolated_window(4, secs(1)).unwrap()], twice),
        ("two limits", vec![sliding(4, secs(1), 10), log(6, secs(2))], both),
        ("a long log", vec![log(4, secs(1)), log(40, secs(1))], strict),
    ]
}

#[test]
fn every_key_keeps_its_bound_in_a_table_far_too_small() {
    for (name, limits, promise) in kinds() {
        for seed in 0..4 {
            let mut dice = SplitMix64::new(seed);
            let clock = ManualClock::new();
            let limiter: KeyedLimiter<u64> = keyed(&clock, &limits, 10);
            let bytes = limiter.bytes();
            let mut histories: BTreeMap<u64, Vec<AdmissionEvent>> = BTreeMap::new();
            for _ in 0..15_000 {
                // A few keys are frequent, most are rare.
                let key = if dice.below(2) == 0 { dice.below(10) } else { dice.below(500) };
                let cost = 1 + dice.below(2) * dice.below(4);
                if limiter.check_cost(&key, cost).is_admitted() {
                    histories.entry(key).or_default().push(AdmissionEvent { at: clock.now().as_nanos(), cost });
                }
                match dice.below(100) {
                    0 => clock.advance(ms(dice.below(2_000))),
                    1..20 => clock.advance(ms(dice.below(20))),
                    _ => {}
                }
            }
            assert!(histories.len() > 100, "{name}: only {} keys were ever admitted", histories.len());
            for (key, history) in &histories {
                promise(history).unwrap_or_else(|broken| panic!("{name}, seed {seed}, key {key}: {broken}"));
            }
            assert!(limiter.early_evictions() > 0, "{name}");
            assert!(limiter.bytes() >= bytes && limiter.bytes() < 200_000, "{name}: {}", limiter.bytes());
        }
    }
}

#[test]
fn keys_do_not_affect_each_other_where_there_is_room() {
    for (name, limits, _) in kinds() {
        let clock = ManualClock::new();
        let mut dice = SplitMix64::new(7);
        let together: KeyedLimiter<u64> = keyed(&clock, &limits, 2_000);
        let separate: Vec<Limiter> = (0..200).map(|_| limiter(&clock, limits.iter().copied())).collect();
        for _ in 0..20_000 {
            let key = dice.below(200);
            let cost = dice.below(6);
            let decision = together.check_cost(&key, cost);
            assert_eq!(decision, separate[key as usize].check_cost(cost), "{name}");
            clock.advance(ms(dice.below(10)));
        }
        assert!((0..200).all(|key| together.status(&key) == separate[key as usize].status()), "{name}");
        assert_eq!(together.early_evictions(), 0, "{name}");
    }
}

#[test]
fn evicting_a_recovered_key_loses_nothing_and_is_not_counted() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u64> = keyed(&clock, &[bucket("10/s", 2)], 100);
    let bytes = limiter.bytes();
    for key in 0..100_000 {
        assert!(limiter.check(&key).is_allowed());
        clock.advance(ms(20));
        assert!(limiter.check_cost(&(key / 2), 0).is_allowed());
    }
    assert_eq!((limiter.early_evictions(), limiter.bytes()), (0, bytes));
    clock.advance(secs(1));
    assert!((0..100).all(|key| limiter.status(&key)[0].remaining == 2));
}

#[test]
fn evicting_an_unrecovered_key_is_counted() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u64> = keyed(&clock, &[bucket("1/h", 5)], 10);
    for key in 0..19 {
        limiter.check(&key);
    }
    assert!((0..100).all(|_| !limiter.check_cost(&3, 5).is_allowed()));
    assert_eq!(limiter.early_evictions(), 0, "a refusal takes no slot");
    for key in 100..200 {
        limiter.check(&key);
    }
    assert!(limiter.early_evictions() > 20, "{}", limiter.early_evictions());
}

#[test]
fn refused_and_zero_cost_checks_take_no_slot() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u64> = keyed(&clock, &[bucket("1/h", 5)], 10);
    for key in 0..10 {
        assert!(limiter.check_cost(&key, 5).is_allowed());
    }
    for key in 100..10_000 {
        assert!(!limiter.check_cost(&key, 6).is_allowed());
        assert!(limiter.check_cost(&key, 0).is_allowed());
        limiter.status(&key);
    }
    assert_eq!(limiter.early_evictions(), 0);
    assert!((0..10).all(|key| !limiter.check(&key).is_allowed()));
}

#[test]
fn any_hashable_type_can_be_a_key() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<str> = keyed(&clock, &[bucket("1/h", 1)], 1_000);
    let long = "k".repeat(1 << 20);
    let almost = format!("{}!", &long[1..]);
    let keys = ["", "\0", "\0\0", "\r\n", "a\r\nb", "{a}", "a", "\u{202e}", long.as_str(), almost.as_str()];
    for key in keys {
        assert!(limiter.check(key).is_allowed(), "{:?} is a separate key", &key[..key.len().min(9)]);
    }
    for key in keys {
        assert!(!limiter.check(key).is_allowed());
    }
    let bytes: KeyedLimiter<[u8]> = keyed(&clock, &[bucket("1/h", 1)], 10);
    assert!(bytes.check(&[]).is_allowed() && bytes.check(&[0]).is_allowed() && !bytes.check(&[]).is_allowed());
}

#[test]
fn an_invalid_capacity_is_rejected() {
    let build = |capacity| Limiter::builder().limit(bucket("1/s", 1)).build_keyed::<str>(capacity).map(drop);
    assert!(matches!(build(0), Err(LimitError::Capacity { keys: 0, .. })));
    assert!(matches!(build(usize::MAX), Err(LimitError::Capacity { .. })));
    assert!(build(1).is_ok());
}

#[test]
fn a_reset_key_is_fresh() {
    let clock = ManualClock::new();
    for (name, limits, _) in kinds() {
        let limiter: KeyedLimiter<str> = keyed(&clock, &limits, 100);
        while limiter.check("a").is_admitted() {}
        assert!(limiter.check("b").is_admitted());
        let (fresh, b) = (limiter.status("never"), limiter.status("b"));
        limiter.reset("a");
        assert_eq!((limiter.status("a"), limiter.status("b")), (fresh, b), "{name}");
    }
}

#[test]
fn threads_share_one_keys_limit() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u64> = keyed(&clock, &[bucket("1/h", 500)], 4);
    let admitted: Vec<[u64; 4]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut admitted = [0; 4];
                    for round in 0..2_000 {
                        let key = round % 4;
                        admitted[key] += u64::from(limiter.check(&(key as u64)).is_allowed());
                    }
                    admitted
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for key in 0..4 {
        assert_eq!(admitted.iter().map(|of_thread| of_thread[key]).sum::<u64>(), 500);
    }
}

/// Measures the loss of legitimate keys in a flood, to detect regressions: known keys keep their full quota.
#[test]
fn known_keys_keep_their_limit_through_a_flood() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u64> = keyed(&clock, &[bucket("100/s", 10)], 1_000);
    let mut dice = SplitMix64::new(3);
    let mut refused = 0;
    for round in 0..200_000u64 {
        limiter.check(&(1_000_000 + dice.bits() % 1_000_000_000));
        if round % 100 == 0 {
            clock.advance(ms(100));
            refused += u64::from(!limiter.check_cost(&(round / 100 % 10), 5).is_allowed());
        }
    }
    assert_eq!(refused, 0, "of 2000 requests of honest keys");
    clock.advance(Duration::from_secs(1));
}
