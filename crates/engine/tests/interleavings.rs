//! The lock-free word under every order of events that two schedulers can think of.
//!
//! The file under test is compiled once more in here, with atomics that hand over to a scheduler at every
//! access. Ordering is taken as sequential: what is tried is the protocol, not the memory model, and the
//! word guards nothing but itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../src/limiter/word.rs"]
#[allow(dead_code, reason = "the same file as in the engine")]
mod word;

mod algorithm {
    pub(crate) use sluicegate_engine::algorithm::gcra;
}

/// What `sync.rs` offers, under the scheduler.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};

    pub(crate) fn spin(_round: u32) {
        shuttle::thread::yield_now();
    }
}

use std::sync::atomic::{AtomicU64 as Plain, Ordering};

use algorithm::gcra::{Gcra, TICKS_PER_NANO};
use shuttle::sync::Arc;
use shuttle::thread;
use sluicegate_engine::Rate;
use word::{Moved, Take, Word};

/// One token per second.
fn bucket(burst: u64) -> Gcra {
    Gcra::new(Rate::per_second(1).unwrap(), burst, "burst").unwrap()
}

const START: u64 = 1_000_000_000_000 * TICKS_PER_NANO;
const SECOND: u64 = 1_000_000_000 * TICKS_PER_NANO;

/// Runs a scenario under random schedules and under those that favour few switches at odd places.
fn under_all_schedules(scenario: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(scenario.clone(), 10_000);
    for depth in 1..4 {
        shuttle::check_pct(scenario.clone(), 5_000, depth);
    }
}

fn join<T>(threads: Vec<thread::JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn took(word: &Word, bucket: &Gcra, now: u64, cost: u64) -> bool {
    matches!(word.take(bucket, now, cost), Ok(Take::Taken(_)))
}

#[test]
fn threads_together_take_no_more_than_there_is() {
    under_all_schedules(|| {
        let (word, bucket) = (Arc::new(Word::new(0, 0)), bucket(4));
        let threads = (0..3).map(|_| {
            let word = Arc::clone(&word);
            thread::spawn(move || (0..3).filter(|_| took(&word, &bucket, START, 1)).count())
        });
        let admitted: usize = join(threads.collect()).into_iter().sum();
        assert_eq!(admitted, 4, "all that is there, and not one more");
        assert_eq!(word.read(&bucket, START), Ok(START + 4 * SECOND));
    });
}

/// Clocks of threads may differ: each of three threads is a second behind the next.
#[test]
fn threads_with_different_clocks_take_no_more_than_the_latest_allows() {
    under_all_schedules(|| {
        let (word, bucket) = (Arc::new(Word::new(0, 0)), bucket(2));
        let threads = (0..3u64).map(|behind| {
            let word = Arc::clone(&word);
            thread::spawn(move || (0..3).filter(|_| took(&word, &bucket, START - behind * SECOND, 1)).count())
        });
        let admitted: usize = join(threads.collect()).into_iter().sum();
        assert!((2..=4).contains(&admitted), "{admitted} in two seconds with a burst of two");
        assert!(word.read(&bucket, START).unwrap() <= START + 2 * SECOND);
    });
}

#[test]
fn different_costs_add_up() {
    under_all_schedules(|| {
        let (word, bucket) = (Arc::new(Word::new(0, 0)), bucket(7));
        let threads = [1, 2, 3, 5].map(|cost| {
            let word = Arc::clone(&word);
            thread::spawn(move || cost * u64::from(took(&word, &bucket, START, cost)))
        });
        let admitted: u64 = join(threads.into()).into_iter().sum();
        assert!(admitted <= 7);
        assert_eq!(word.read(&bucket, START), Ok(START + admitted * SECOND), "what was taken is what is counted");
    });
}

/// A decision over several limiters holds the word; meanwhile others ask for it, and one gives up half
/// way. Nothing is lost and nothing comes twice.
#[test]
fn holding_the_word_neither_loses_nor_doubles_a_token() {
    under_all_schedules(|| {
        let (word, bucket) = (Arc::new(Word::new(START, 0)), bucket(4));
        let takes = (0..2).map(|_| {
            let word = Arc::clone(&word);
            thread::spawn(move || (0..2).filter(|_| took(&word, &bucket, START, 1)).count())
        });
        let holds = [true, false].map(|commits| {
            let word = Arc::clone(&word);
            thread::spawn(move || {
                let mut held = word.lock().unwrap();
                // Somebody else may run here, and must find the word locked.
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

/// The word is replaced by another while threads take from it. They go on with the successor, which
/// starts where the word stood.
#[test]
fn a_word_that_retires_hands_over_every_token_once() {
    under_all_schedules(|| {
        let (first, second) = (Arc::new(Word::new(0, 0)), Arc::new(Word::new(u64::MAX, 0)));
        let bucket = bucket(3);
        let threads = (0..2).map(|_| {
            let words = [Arc::clone(&first), Arc::clone(&second)];
            thread::spawn(move || {
                let take = || {
                    let answer = words.iter().find_map(|word| word.take(&bucket, START, 1).ok());
                    matches!(answer.expect("one of the two is in force"), Take::Taken(_))
                };
                (0..2).filter(|_| take()).count()
            })
        });
        let threads: Vec<_> = threads.collect();
        let change = {
            let words = [Arc::clone(&first), Arc::clone(&second)];
            thread::spawn(move || {
                let held = words[0].lock().unwrap();
                // The successor must be in place before the word says that it has moved.
                let mut next = words[1].lock().unwrap();
                next.arrival = held.arrival;
                drop(next);
                held.retire();
            })
        };
        let admitted: usize = join(threads).into_iter().sum();
        change.join().unwrap();
        assert_eq!(admitted, 3, "four asked, three were there");
        assert_eq!(first.take(&bucket, START, 1), Err(Moved));
        assert_eq!(second.read(&bucket, START), Ok(START + 3 * SECOND));
        assert!(first.lock().is_err());
    });
}

/// A holder that panics lets go of the word as it found it.
#[test]
fn a_holder_that_fails_gives_the_word_back() {
    let failed = Plain::new(0);
    let failed = std::sync::Arc::new(failed);
    let seen = std::sync::Arc::clone(&failed);
    shuttle::check_random(
        move || {
            let word = Arc::new(Word::new(START, 0));
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

/// Takes a batch as the engine does: both numbers change while the word is held.
fn batch(word: &Word, bucket: &Gcra, now: u64, size: u64) -> bool {
    let mut held = word.lock().unwrap();
    held.catch_up(bucket, now);
    let fits = bucket.admit(held.arrival, now, size);
    if let Ok(next) = fits {
        held.arrival = next;
        held.out += size;
    }
    fits.is_ok()
}

#[test]
fn a_batch_that_is_out_is_never_refilled_for_others() {
    under_all_schedules(|| {
        let (word, bucket) = (Arc::new(Word::new(0, 0)), bucket(4));
        let mine = Arc::clone(&word);
        let holder = thread::spawn(move || {
            // Taken early, to be spent late: the clock moves on by more than a burst in between.
            batch(&mine, &bucket, START, 2)
        });
        let others = (0..2).map(|_| {
            let word = Arc::clone(&word);
            thread::spawn(move || (0..4).filter(|_| took(&word, &bucket, START + 8 * SECOND, 1)).count())
        });
        let taken: usize = join(others.collect()).into_iter().sum();
        let out = if holder.join().unwrap() { 2 } else { 0 };
        let late = (0..4).filter(|_| took(&word, &bucket, START + 8 * SECOND, 1)).count();
        assert_eq!(taken + late + out, 4);
    });
}

#[test]
fn ending_a_batch_frees_exactly_what_it_did_not_spend() {
    under_all_schedules(|| {
        let (word, bucket) = (Arc::new(Word::new(0, 0)), bucket(4));
        let mine = Arc::clone(&word);
        let holder = thread::spawn(move || {
            let had = batch(&mine, &bucket, START, 2);
            if had {
                // One spent, one given back.
                let mut held = mine.lock().unwrap();
                held.catch_up(&bucket, START);
                held.out -= 2;
                held.arrival -= bucket.span(1);
            }
            usize::from(had)
        });
        let others = (0..2).map(|_| {
            let word = Arc::clone(&word);
            thread::spawn(move || (0..2).filter(|_| took(&word, &bucket, START, 1)).count())
        });
        let taken: usize = join(others.collect()).into_iter().sum();
        let spent = taken + holder.join().unwrap();
        let left = (0..4).filter(|_| took(&word, &bucket, START, 1)).count();
        assert_eq!((spent + left, word.out()), (4, 0));
    });
}
