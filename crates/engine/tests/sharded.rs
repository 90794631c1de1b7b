//! A sharded token bucket keeps the bucket's bound.

use crate::support;

use sluicegate_engine::algorithm::TokenBucket;
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{Limiter, LocalTokens, Rate, ShardedLimiter, Verdict};
use sluicegate_testkit::bound::{self, AdmissionEvent, ExactRate};
use sluicegate_testkit::random::SplitMix64;
use support::*;

fn sharded(clock: &ManualClock, burst: u64, batch_size: u64) -> ShardedLimiter {
    let bucket = TokenBucket::new(Rate::per_second(10).unwrap(), burst).unwrap();
    Limiter::builder().clock(clock.clone()).build_sharded(bucket, batch_size).unwrap()
}

#[test]
fn local_tokens_together_keep_the_bound() {
    for seed in 0..400 {
        let mut dice = SplitMix64::new(seed);
        let clock = ManualClock::new();
        let burst = 1 + dice.below(20);
        let shared = sharded(&clock, burst, 1 + dice.below(8));
        let mut local_tokens: Vec<LocalTokens> = (0..4).map(|_| shared.local_tokens()).collect();
        let mut spent = Vec::new();
        for _ in 0..200 {
            let index = dice.below(4) as usize;
            match dice.below(10) {
                0..7 => {
                    let cost = dice.below(5);
                    if local_tokens[index].take(cost).is_ok() {
                        spent.push(AdmissionEvent { at: clock.now().as_nanos(), cost });
                    }
                }
                7 => local_tokens[index] = shared.local_tokens(),
                _ => clock.advance(ms(dice.below(500))),
            }
        }
        bound::token_bucket(&spent, ExactRate::per_second(10), burst)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        drop(local_tokens);
        clock.advance(secs(10));
        assert_eq!(shared.status().remaining, burst, "seed {seed}: all tokens are returned");
    }
}

#[test]
fn threads_with_local_tokens_share_one_burst() {
    let clock = ManualClock::new();
    let shared = sharded(&clock, 1_000, 7);
    let spent: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let mut local = shared.local_tokens();
                scope.spawn(move || (0..2_000).filter(|_| local.take(1).is_ok()).count() as u64)
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(spent, 1_000);
}

#[test]
fn local_tokens_are_refused_like_the_bucket() {
    let clock = ManualClock::new();
    let shared = sharded(&clock, 10, 4);
    let mut local = shared.local_tokens();
    assert!(local.take(0).is_ok() && local.take(1).is_ok());
    assert_eq!((local.remaining(), shared.status().remaining), (3, 6));
    assert_eq!(local.take(11).unwrap_err().decision.verdict, Verdict::Never);
    assert!(local.take(9).is_ok(), "three local tokens and six of the bucket");
    let mut other = shared.local_tokens();
    assert!(other.take(1).is_err());
    clock.advance(ms(100));
    assert!(other.take(2).is_err());
}
