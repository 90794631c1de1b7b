//! The atomic token bucket under random and PCT thread schedules (shuttle).
//!
//! The file under test is compiled again in this crate, with atomics that yield to the scheduler at every access.
//! Ordering is sequentially consistent: the test covers the protocol, not the memory model, and the bucket guards
//! nothing but itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../src/limiter/atomic_bucket.rs"]
#[allow(dead_code, reason = "the same file as in the engine")]
mod atomic_bucket;

mod algorithm {
    pub(crate) use sluicegate_engine::algorithm::gcra;
}

/// Replacement of `sync.rs` for the scheduler.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};

    pub(crate) fn spin(_round: u32) {
        shuttle::thread::yield_now();
    }
}

use std::sync::atomic::{AtomicU64 as Plain, Ordering};

use algorithm::gcra::{Gcra, TICKS_PER_NANO};
use atomic_bucket::{AtomicBucket, BucketMoved, TakeOutcome};
use shuttle::sync::Arc;
use shuttle::thread;
use sluicegate_engine::Rate;

/// Bucket with one token per second.
fn bucket(burst: u64) -> Gcra {
    Gcra::new(Rate::per_second(1).unwrap(), burst, "burst").unwrap()
}

const START: u64 = 1_000_000_000_000 * TICKS_PER_NANO;
const SECOND: u64 = 1_000_000_000 * TICKS_PER_NANO;

/// Runs a scenario under random schedules and under PCT schedules with few preemptions.
fn under_all_schedules(scenario: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(scenario.clone(), 10_000);
    for depth in 1..4 {
        shuttle::check_pct(scenario.clone(), 5_000, depth);
    }
}

fn join<T>(threads: Vec<thread::JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn take(word: &AtomicBucket, bucket: &Gcra, now: u64, cost: u64) -> bool {
    matches!(word.take(bucket, now, cost), Ok(TakeOutcome::Taken(_)))
}

#[test]
fn threads_take_no_more_than_the_burst() {
    under_all_schedules(|| {
        let (word, bucket) = (Arc::new(AtomicBucket::new(0, 0)), bucket(4));
        let threads = (0..3).map(|_| {
            let word = Arc::clone(&word);
            thread::spawn(move || (0..3).filter(|_| take(&word, &bucket, START, 1)).count())
        });
        let admitted: usize = join(threads.collect()).into_iter().sum();
        assert_eq!(admitted, 4, "exactly the available tokens");
        assert_eq!(word.read(&bucket, START), Ok(START + 4 * SECOND));
    });
}

/// Thread clocks may differ: each of three threads is a second behind the next.
#[test]
fn skewed_clocks_take_no_more_than_the_latest_allows() {
    under_all_schedules(|| {
        let (word, bucket) = (Arc::new(AtomicBucket::new(0, 0)), bucket(2));
        let threads = (0..3u64).map(|behind| {
            let word = Arc::clone(&word);
            thread::spawn(move || (0..3).filter(|_| take(&word, &bucket, START - behind * SECOND, 1)).count())
        });
        let admitted: usize = join(threads.collect()).into_iter().sum();
        assert!((2..=4).contains(&admitted), "{admitted} in two seconds with a burst of two");
        assert!(word.read(&bucket, START).unwrap() <= START + 2 * SECOND);
    });
}

#[test]
fn different_costs_add_up() {
    under_all_schedules(|| {
        let (word, bucket) = (Arc::new(AtomicBucket::new(0, 0)), bucket(7));
        let threads = [1, 2, 3, 5].map(|cost| {
            let word = Arc::clone(&word);
            thread::spawn(move || cost * u64::from(take(&word, &bucket, START, cost)))
        });
        let admitted: u64 = join(threads.into()).into_iter().sum();
        assert!(admitted <= 7);
        assert_eq!(word.read(&bucket, START), Ok(START + admitted * SECOND), "every token taken is counted");
    });
}

/// A decision over several limiters locks the bucket while others take from it, and one gives up halfway. No
/// token is lost or duplicated.
#[test]
fn locking_neither_loses_nor_duplicates_tokens() {
    under_all_schedules(|| {
        let (word, bucket) = (Arc::new(AtomicBucket::new(START, 0)), bucket(4));
        let takes = (0..2).map(|_| {
            let word = Arc::clone(&word);
            thread::spawn(move || (0..2).filter(|_| take(&word, &bucket, START, 1)).count())
        });
        let holds = [true, false].map(|commits| {
            let word = Arc::clone(&word);
            thread::spawn(move || {
                let mut held = word.lock().unwrap();
                // Another thread may run here and must find the bucket locked.
                thread::yield_now();
                match bucket.admit(held.arrival, START, 1) {
                    Ok(next) if commits => {
                        held.arrival = next;
                        1
                    }
                    _ => 0,
                }
            })
        });
        let admitted: usize = join(takes.chain(holds).collect()).into_iter().sum();
        assert_eq!(admitted, 4);
        assert_eq!(word.read(&bucket, START), Ok(START + 4 * SECOND));
    });
}

/// The bucket is replaced while threads take from it. They continue with the successor, which starts with the
/// same state.
#[test]
fn a_retired_bucket_hands_over_every_token_once() {
    under_all_schedules(|| {
        let (first, second) = (Arc::new(AtomicBucket::new(0, 0)), Arc::new(AtomicBucket::new(u64::MAX, 0)));
        let bucket = bucket(3);
        let threads = (0..2).map(|_| {
            let words = [Arc::clone(&first), Arc::clone(&second)];
            thread::spawn(move || {
                let take = || {
                    let outcome = words.iter().find_map(|word| word.take(&bucket, START, 1).ok());
                    matches!(outcome.expect("one of the two buckets is active"), TakeOutcome::Taken(_))
                };
                (0..2).filter(|_| take()).count()
            })
        });
        let threads: Vec<_> = threads.collect();
        let change = {
            let words = [Arc::clone(&first), Arc::clone(&second)];
            thread::spawn(move || {
                let held = words[0].lock().unwrap();
                // The successor must be stored before the bucket is marked as moved.
                let mut next = words[1].lock().unwrap();
                next.arrival = held.arrival;
                drop(next);
                held.retire();
            })
        };
        let admitted: usize = join(threads).into_iter().sum();
        change.join().unwrap();
        assert_eq!(admitted, 3, "four calls, three tokens");
        assert_eq!(first.take(&bucket, START, 1), Err(BucketMoved));
        assert_eq!(second.read(&bucket, START), Ok(START + 3 * SECOND));
        assert!(first.lock().is_err());
    });
}

/// A panicking lock holder unlocks the bucket unchanged.
#[test]
fn a_panicking_holder_releases_the_lock() {
    let failed = Plain::new(0);
    let failed = std::sync::Arc::new(failed);
    let seen = std::sync::Arc::clone(&failed);
    shuttle::check_random(
        move || {
            let word = Arc::new(AtomicBucket::new(START, 0));
            let held = word.lock().unwrap();
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let _held = held;
                std::panic::resume_unwind(Box::new("the decision failed"));
            }));
            assert!(caught.is_err());
            failed.fetch_add(1, Ordering::Relaxed);
            assert_eq!(word.read(&bucket(4), START), Ok(START));
        },
        10,
    );
    assert_eq!(seen.load(Ordering::Relaxed), 10);
}

/// Takes a batch like the engine: both numbers change while the bucket is locked.
fn take_batch(word: &AtomicBucket, bucket: &Gcra, now: u64, size: u64) -> bool {
    let mut held = word.lock().unwrap();
    held.catch_up(bucket, now);
    let fits = bucket.admit(held.arrival, now, size);
    if let Ok(next) = fits {
        held.arrival = next;
        held.outstanding += size;
    }
    fits.is_ok()
}

#[test]
fn outstanding_tokens_are_never_refilled() {
    under_all_schedules(|| {
        let (word, bucket) = (Arc::new(AtomicBucket::new(0, 0)), bucket(4));
        let shared = Arc::clone(&word);
        let holder = thread::spawn(move || {
            // Taken early and spent late: the clock advances by more than a burst in between.
            take_batch(&shared, &bucket, START, 2)
        });
        let others = (0..2).map(|_| {
            let word = Arc::clone(&word);
            thread::spawn(move || (0..4).filter(|_| take(&word, &bucket, START + 8 * SECOND, 1)).count())
        });
        let taken: usize = join(others.collect()).into_iter().sum();
        let out = if holder.join().unwrap() { 2 } else { 0 };
        let later = (0..4).filter(|_| take(&word, &bucket, START + 8 * SECOND, 1)).count();
        assert_eq!(taken + later + out, 4);
    });
}

#[test]
fn settling_a_batch_returns_exactly_the_unspent_tokens() {
    under_all_schedules(|| {
        let (word, bucket) = (Arc::new(AtomicBucket::new(0, 0)), bucket(4));
        let shared = Arc::clone(&word);
        let holder = thread::spawn(move || {
            let had = take_batch(&shared, &bucket, START, 2);
            if had {
                // One spent, one returned.
                let mut held = shared.lock().unwrap();
                held.catch_up(&bucket, START);
                held.outstanding -= 2;
                held.arrival -= bucket.span(1);
            }
            usize::from(had)
        });
        let others = (0..2).map(|_| {
            let word = Arc::clone(&word);
            thread::spawn(move || (0..2).filter(|_| take(&word, &bucket, START, 1)).count())
        });
        let taken: usize = join(others.collect()).into_iter().sum();
        let spent = taken + holder.join().unwrap();
        let left = (0..4).filter(|_| take(&word, &bucket, START, 1)).count();
        assert_eq!((spent + left, word.outstanding()), (4, 0));
    });
}
