//! A token bucket in one atomic word: the lock-free heart of the unkeyed limiter.
//!
//! One load, one comparison, one compare-and-swap. Two values of the word are out of any bucket's
//! reach and mean something else: that somebody holds the word for a decision over several limiters,
//! and that the bucket has been replaced. Both look like a moment in the far future, so the fast path
//! needs no test for them: it finds the bucket empty and only then looks closer.
//!
//! Beside it stands how many tokens are out in [batches](super::Batch): the bucket fills only up to what
//! they leave of the burst. That number changes only while the word is held, and is in place before the
//! word is let go: whoever reads the word first sees a number that is at least as new.

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
pub(crate) struct Word {
    arrival: AtomicU64,
    /// Tokens that are out in batches.
    out: AtomicU64,
}

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
    pub(crate) fn new(arrival: u64, out: u64) -> Self {
        Self { arrival: AtomicU64::new(arrival.min(LATEST)), out: AtomicU64::new(out) }
    }

    /// Tokens that are out in batches.
    #[inline]
    pub(crate) fn out(&self) -> u64 {
        self.out.load(Ordering::Relaxed)
    }

    /// Takes `cost` tokens, at most a burst, at `now` in ticks.
    ///
    /// The word is read before what is out. A batch taken in between has moved the word on, so that the
    /// swap fails; one that ended in between was counted too long, which is only stricter.
    #[inline]
    pub(crate) fn take(&self, bucket: &Gcra, now: u64, cost: u64) -> Result<Take, Moved> {
        let mut arrival = self.arrival.load(Ordering::Acquire);
        loop {
            let counted = capped(arrival, bucket, now, self.out());
            match bucket.admit(counted, now, cost) {
                Ok(next) => {
                    match self.arrival.compare_exchange_weak(arrival, next, Ordering::Relaxed, Ordering::Acquire) {
                        Ok(_) => return Ok(Take::Taken(next)),
                        Err(current) => arrival = current,
                    }
                }
                Err(early) if arrival <= LATEST => return Ok(Take::Early { arrival: counted, early }),
                Err(_) => arrival = self.settled()?,
            }
        }
    }

    /// The arrival time once nobody works on it.
    #[cold]
    fn settled(&self) -> Result<u64, Moved> {
        for round in 0.. {
            match self.arrival.load(Ordering::Acquire) {
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
            if self.arrival.compare_exchange(arrival, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Ok(Held { word: self, arrival, out: self.out(), moved: false });
            }
        }
    }

    /// The arrival time as it counts at `now`, without touching it.
    pub(crate) fn read(&self, bucket: &Gcra, now: u64) -> Result<u64, Moved> {
        Ok(capped(self.settled()?, bucket, now, self.out()))
    }
}

/// An arrival time as it counts at `now` while so many tokens are out. A branch and no arithmetic where
/// none are, which is nearly always.
#[inline]
const fn capped(arrival: u64, bucket: &Gcra, now: u64, out: u64) -> u64 {
    if out == 0 {
        return arrival;
    }
    let earliest = now.saturating_add(bucket.span(out));
    if arrival > earliest { arrival } else { earliest }
}

/// A word that nobody else can change.
pub(crate) struct Held<'a> {
    word: &'a Word,
    pub(crate) arrival: u64,
    /// Tokens that are out in batches.
    pub(crate) out: u64,
    moved: bool,
}

impl Held<'_> {
    /// Brings the arrival time up to what the tokens that are out made of it: what would have been
    /// refilled beyond the burst is lost.
    pub(crate) fn catch_up(&mut self, bucket: &Gcra, now: u64) {
        self.arrival = capped(self.arrival, bucket, now, self.out);
    }

    /// Ends the word's life: everybody is sent to the successor, which must be in place.
    pub(crate) fn retire(mut self) {
        self.moved = true;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let arrival = if self.moved { MOVED } else { self.arrival.min(LATEST) };
        self.word.out.store(self.out, Ordering::Relaxed);
        self.word.arrival.store(arrival, Ordering::Release);
    }
}
