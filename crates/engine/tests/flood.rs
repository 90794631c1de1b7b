//! A limited key stays limited during a flood of other keys.

use crate::support;

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{KeyedLimiter, Limit, Limiter};
use sluicegate_testkit::bound::{self, AdmissionEvent, ExactRate, Violation};
use sluicegate_testkit::random::SplitMix64;
use support::*;

/// Half a million random keys, two thousand per second, in a table for two thousand, and one key that is at its
/// limit throughout: it gets its quota and no more.
fn check_under_flood(limit: Limit, min: u64, promise: impl Fn(&[AdmissionEvent]) -> Result<(), Violation>) {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u64> = Limiter::builder().limit(limit).clock(clock.clone()).build_keyed(2_000).unwrap();
    let mut dice = SplitMix64::new(11);
    let mut history = Vec::new();
    while limiter.check(&0).is_admitted() {
        history.push(AdmissionEvent { at: clock.now().as_nanos(), cost: 1 });
    }
    for round in 0..500_000u32 {
        limiter.check(&dice.bits());
        if round % 4 == 0 {
            clock.advance(ms(2));
        }
        if round % 16 == 0 && limiter.check(&0).is_admitted() {
            history.push(AdmissionEvent { at: clock.now().as_nanos(), cost: 1 });
        }
    }
    promise(&history).unwrap_or_else(|broken| panic!("{limit}: {broken}"));
    assert!(history.len() as u64 >= min, "{limit}: only {} of {min}", history.len());
    assert!(limiter.early_evictions() > 1_000, "{limit}: no flood at all");
}

const MINUTE: u64 = 60_000_000_000;

#[test]
fn a_token_bucket_stays_empty() {
    // 250 seconds: ten at first and forty-one refilled.
    check_under_flood(bucket("10/m", 10), 40, |history| bound::token_bucket(history, ExactRate::new(10, MINUTE), 10));
}

#[test]
fn a_fixed_window_stays_full() {
    check_under_flood(fixed(10, secs(60)), 30, |history| bound::any_window(history, 20, MINUTE));
}

#[test]
fn a_sliding_window_stays_full() {
    check_under_flood(sliding(10, secs(60), 10), 30, |history| bound::any_window(history, 10, MINUTE));
}

#[test]
fn a_log_stays_full() {
    check_under_flood(log(10, secs(60)), 30, |history| bound::any_window(history, 10, MINUTE));
}
