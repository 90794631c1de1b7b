//! Atomic token bucket: the lock-free state of an unkeyed limiter.
//!
//! One load, one comparison, one compare-and-swap. Two values of the arrival time are outside any bucket's
//! range and have a special meaning: the bucket is locked for a decision over several limiters, or it has
//! been replaced. Both look like an arrival time in the far future, so the fast path needs no test for them:
//! it finds the bucket empty and only then checks for them.
//!
//! A second word counts the tokens outstanding in [batches](super::TokenBatch): the bucket refills only up to
//! the burst minus that count. The count changes only while the bucket is locked and is stored before the
//! unlock, so a reader that loads the arrival time first sees a count that is at least as new.

use crate::algorithm::gcra::Gcra;
use crate::sync::{AtomicU64, Ordering, spin};

/// Value of a locked bucket.
const LOCKED: u64 = u64::MAX - 1;
/// Value of a bucket that has a successor.
const MOVED: u64 = u64::MAX;
/// Maximum arrival time.
const MAX_ARRIVAL: u64 = LOCKED - 1;

/// Arrival time of one bucket, on cache lines of its own: threads that contend for it can still read the
/// adjacent constants without a miss.
#[repr(align(128))]
pub(crate) struct AtomicBucket {
    arrival: AtomicU64,
    /// Tokens outstanding in batches.
    outstanding: AtomicU64,
}

/// Error: the bucket has been replaced; use its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketMoved;

/// Result of an attempt to take tokens, with the arrival time after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeOutcome {
    /// Taken.
    Taken(u64),
    /// Not taken: `early` ticks too early.
    TooEarly { arrival: u64, early: u64 },
}

impl AtomicBucket {
    pub(crate) fn new(arrival: u64, outstanding: u64) -> Self {
        Self { arrival: AtomicU64::new(arrival.min(MAX_ARRIVAL)), outstanding: AtomicU64::new(outstanding) }
    }

    /// Tokens outstanding in batches.
    #[inline]
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Takes `cost` tokens, at most a burst, at `now` in ticks.
    ///
    /// The arrival time is loaded before the outstanding count. A batch taken in between has moved the arrival
    /// time, so the swap fails; one settled in between is counted too long, which is only stricter.
    #[inline]
    pub(crate) fn take(&self, bucket: &Gcra, now: u64, cost: u64) -> Result<TakeOutcome, BucketMoved> {
        let mut arrival = self.arrival.load(Ordering::Acquire);
        loop {
            let effective = effective_arrival(arrival, bucket, now, self.outstanding());
            match bucket.admit(effective, now, cost) {
                Ok(next) => {
                    match self.arrival.compare_exchange_weak(arrival, next, Ordering::Relaxed, Ordering::Acquire) {
                        Ok(_) => return Ok(TakeOutcome::Taken(next)),
                        Err(current) => arrival = current,
                    }
                }
                Err(early) if arrival <= MAX_ARRIVAL => return Ok(TakeOutcome::TooEarly { arrival: effective, early }),
                Err(_) => arrival = self.wait_unlocked()?,
            }
        }
    }

    /// Waits until the bucket is unlocked and returns the arrival time.
    #[cold]
    fn wait_unlocked(&self) -> Result<u64, BucketMoved> {
        for round in 0.. {
            match self.arrival.load(Ordering::Acquire) {
                MOVED => return Err(BucketMoved),
                LOCKED => spin(round),
                arrival => return Ok(arrival),
            }
        }
        Err(BucketMoved)
    }

    /// Locks the bucket. Dropping the guard always unlocks it.
    pub(crate) fn lock(&self) -> Result<LockedBucket<'_>, BucketMoved> {
        loop {
            let arrival = self.wait_unlocked()?;
            if self.arrival.compare_exchange(arrival, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Ok(LockedBucket { atomic: self, arrival, outstanding: self.outstanding(), moved: false });
            }
        }
    }

    /// Effective arrival time at `now`, without a change.
    pub(crate) fn read(&self, bucket: &Gcra, now: u64) -> Result<u64, BucketMoved> {
        Ok(effective_arrival(self.wait_unlocked()?, bucket, now, self.outstanding()))
    }
}

/// Effective arrival time at `now` with this many outstanding tokens. Without any, which is the common case,
/// it costs one branch and no arithmetic.
#[inline]
const fn effective_arrival(arrival: u64, bucket: &Gcra, now: u64, outstanding: u64) -> u64 {
    if outstanding == 0 {
        return arrival;
    }
    let earliest = now.saturating_add(bucket.span(outstanding));
    if arrival > earliest { arrival } else { earliest }
}

/// Guard of a locked bucket.
pub(crate) struct LockedBucket<'a> {
    atomic: &'a AtomicBucket,
    pub(crate) arrival: u64,
    /// Tokens outstanding in batches.
    pub(crate) outstanding: u64,
    moved: bool,
}

impl LockedBucket<'_> {
    /// Raises the arrival time to the cap set by outstanding tokens: refill beyond that cap is lost.
    pub(crate) fn catch_up(&mut self, bucket: &Gcra, now: u64) {
        self.arrival = effective_arrival(self.arrival, bucket, now, self.outstanding);
    }

    /// Marks the bucket as replaced. The successor must already be stored.
    pub(crate) fn retire(mut self) {
        self.moved = true;
    }
}

impl Drop for LockedBucket<'_> {
    fn drop(&mut self) {
        let arrival = if self.moved { MOVED } else { self.arrival.min(MAX_ARRIVAL) };
        self.atomic.outstanding.store(self.outstanding, Ordering::Relaxed);
        self.atomic.arrival.store(arrival, Ordering::Release);
    }
}
