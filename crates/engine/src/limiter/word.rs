//! A token bucket in one atomic word: the lock-free heart of the unkeyed limiter.
//!
//! One load, one comparison, one compare-and-swap. Two values of the word are out of any bucket's
//! reach and mean something else: that somebody holds the word for a decision over several limiters,
//! and that the bucket has been replaced. Both look like a moment in the far future, so the fast path
//! needs no test for them: it finds the bucket empty and only then looks closer.

use crate::algorithm::gcra::Gcra;
use crate::sync::{AtomicU64, Ordering, spin};

/// Somebody works on the word.
const LOCKED: u64 = u64::MAX - 1;
/// The bucket has a successor.
const MOVED: u64 = u64::MAX;
/// The latest arrival time a word can hold.
const LATEST: u64 = LOCKED - 1;

/// The arrival time of one bucket. It has its cache lines to itself: threads that wait for each other's
/// swaps still read the constants beside it at once.
#[repr(align(128))]
pub(crate) struct Word(AtomicU64);

/// The bucket has been replaced: ask its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved;

/// What became of an attempt, with the arrival time after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// Taken.
    Taken(u64),
    /// Not taken: so many ticks too early.
    Early { arrival: u64, early: u64 },
}

impl Word {
    pub(crate) fn new(arrival: u64) -> Self {
        Self(AtomicU64::new(arrival.min(LATEST)))
    }

    /// Takes `cost` tokens, at most a burst, at `now` in ticks.
    ///
    /// Relaxed ordering is enough: the word guards nothing but itself, and all threads agree on the
    /// order of changes to one word.
    #[inline]
    pub(crate) fn take(&self, bucket: &Gcra, now: u64, cost: u64) -> Result<Take, Moved> {
        let mut arrival = self.0.load(Ordering::Relaxed);
        loop {
            match bucket.admit(arrival, now, cost) {
                Ok(next) => match self.0.compare_exchange_weak(arrival, next, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Ok(Take::Taken(next)),
                    Err(current) => arrival = current,
                },
                Err(early) if arrival <= LATEST => return Ok(Take::Early { arrival, early }),
                Err(_) => arrival = self.settled()?,
            }
        }
    }

    /// The arrival time once nobody works on it.
    #[cold]
    fn settled(&self) -> Result<u64, Moved> {
        for round in 0.. {
            match self.0.load(Ordering::Acquire) {
                MOVED => return Err(Moved),
                LOCKED => spin(round),
                arrival => return Ok(arrival),
            }
        }
        Err(Moved)
    }

    /// Works on the word alone. Whatever happens to the guard, the word comes free again.
    pub(crate) fn lock(&self) -> Result<Held<'_>, Moved> {
        loop {
            let arrival = self.settled()?;
            if self.0.compare_exchange(arrival, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Ok(Held { word: &self.0, arrival, moved: false });
            }
        }
    }

    /// The arrival time, without touching it.
    pub(crate) fn read(&self) -> Result<u64, Moved> {
        self.settled()
    }
}

/// A word that nobody else can change.
pub(crate) struct Held<'a> {
    word: &'a AtomicU64,
    pub(crate) arrival: u64,
    moved: bool,
}

impl Held<'_> {
    /// Ends the word's life: everybody is sent to the successor, which must be in place.
    pub(crate) fn retire(mut self) {
        self.moved = true;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let arrival = if self.moved { MOVED } else { self.arrival.min(LATEST) };
        self.word.store(arrival, Ordering::Release);
    }
}
