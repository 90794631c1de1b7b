//! A bucket handed out in slices keeps the bucket's bound.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use sluicegate_engine::algorithm::TokenBucket;
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{Limiter, Rate, Slice, SlicedLimiter, Verdict};
use sluicegate_testkit::bound::{self, Admitted, Pace};
use support::*;

fn sliced(clock: &ManualClock, burst: u64, slice: u64) -> SlicedLimiter {
    let bucket = TokenBucket::new(Rate::per_second(10).unwrap(), burst).unwrap();
    Limiter::builder().clock(clock.clone()).build_sliced(bucket, slice).unwrap()
}

#[test]
fn slices_together_keep_the_bound_in_random_histories() {
    for seed in 0..400 {
        let mut dice = Dice::new(seed);
        let clock = ManualClock::new();
        let burst = 1 + dice.below(20);
        let shared = sliced(&clock, burst, 1 + dice.below(8));
        let mut slices: Vec<Slice> = (0..4).map(|_| shared.slice()).collect();
        let mut spent = Vec::new();
        for _ in 0..200 {
            let which = dice.below(4) as usize;
            match dice.below(10) {
                0..7 => {
                    let cost = dice.below(5);
                    if slices[which].take(cost).is_ok() {
                        spent.push(Admitted { at: clock.now().as_nanos(), cost });
                    }
                }
                7 => slices[which] = shared.slice(),
                _ => clock.advance(ms(dice.below(500))),
            }
        }
        bound::token_bucket(&spent, Pace::per_second(10), burst)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        drop(slices);
        clock.advance(secs(10));
        assert_eq!(shared.status().remaining, burst, "seed {seed}: everything comes back");
    }
}

#[test]
fn threads_with_slices_share_one_burst() {
    let clock = ManualClock::new();
    let shared = sliced(&clock, 1_000, 7);
    let spent: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let mut mine = shared.slice();
                scope.spawn(move || (0..2_000).filter(|_| mine.take(1).is_ok()).count() as u64)
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(spent, 1_000);
}

#[test]
fn a_slice_is_refused_as_the_bucket_would() {
    let clock = ManualClock::new();
    let shared = sliced(&clock, 10, 4);
    let mut mine = shared.slice();
    assert!(mine.take(0).is_ok() && mine.take(1).is_ok());
    assert_eq!((mine.left(), shared.status().remaining), (3, 6));
    assert_eq!(mine.take(11).unwrap_err().decision.verdict, Verdict::Never);
    assert!(mine.take(9).is_ok(), "three of the slice and six of the bucket");
    let mut other = shared.slice();
    assert!(other.take(1).is_err());
    clock.advance(ms(100));
    assert!(other.take(2).is_err());
}
