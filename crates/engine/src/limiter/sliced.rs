//! A token bucket handed out to threads in slices.
//!
//! Reading the clock and swapping a shared word is most of what a decision costs. A thread that takes a
//! slice of tokens at once decides by itself until the slice is spent: no clock, no shared memory.
//!
//! **Guarantee.** The same as the bucket's: at most `burst + rate × T` in any T. Tokens leave the
//! bucket when they are handed out, and the bucket fills only up to `burst` less what is out, so what
//! is in the bucket and in all slices together is never more than the burst. The price: tokens in a
//! slice that nobody spends are nobody else's until the slice is dropped, so slices should be a small
//! part of the burst.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Reason, Refused};
use crate::algorithm::{Algorithm, Check, Entry, Status, Taken, TokenBucket};
use crate::clock::ClockHandle;
use crate::decision::{Decision, Verdict};
use crate::limit::LimitError;

/// A token bucket whose tokens are handed out in slices.
///
/// ```
/// use sluicegate_engine::{Limiter, Rate, algorithm::TokenBucket};
///
/// let bucket = TokenBucket::new(Rate::per_second(1_000_000)?, 100_000)?;
/// let shared = Limiter::builder().build_sliced(bucket, 100)?;
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| {
///             let mut mine = shared.slice();
///             assert!(mine.take(1).is_ok());
///         });
///     }
/// });
/// # Ok::<(), sluicegate_engine::LimitError>(())
/// ```
#[derive(Clone)]
pub struct SlicedLimiter {
    shared: Arc<Shared>,
}

struct Shared {
    bucket: TokenBucket,
    slice: u64,
    clock: ClockHandle,
    state: Mutex<[u64; 2]>,
}

/// One thread's share of the bucket. Dropping it gives back what it did not spend.
pub struct Slice {
    shared: Arc<Shared>,
    /// Tokens left in the slice.
    left: u64,
    /// Tokens that were spent and still count as out.
    spent: u64,
}

impl SlicedLimiter {
    pub(super) fn new(bucket: TokenBucket, slice: u64, clock: ClockHandle) -> Result<Self, LimitError> {
        if slice == 0 {
            return Err(LimitError::zero("slice"));
        }
        let slice = slice.min(bucket.burst());
        let shared = Shared { bucket: bucket.reservable(), slice, clock, state: Mutex::new([0; 2]) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A share for one thread, empty at first.
    pub fn slice(&self) -> Slice {
        Slice { shared: Arc::clone(&self.shared), left: 0, spent: 0 }
    }

    /// What is left in the bucket, not counting what is out in slices.
    pub fn status(&self) -> Status {
        let now = self.shared.clock.now();
        self.shared.bucket.status(&*self.shared.state.lock(), now)
    }
}

impl Slice {
    /// Takes `cost` tokens from the slice, fetching another slice if it is spent.
    #[inline]
    pub fn take(&mut self, cost: u64) -> Result<(), Refused> {
        if cost <= self.left {
            self.left -= cost;
            self.spent += cost;
            return Ok(());
        }
        self.fetch_and_take(cost)
    }

    /// Tokens that can be taken without asking the bucket.
    pub const fn left(&self) -> u64 {
        self.left
    }

    fn fetch_and_take(&mut self, cost: u64) -> Result<(), Refused> {
        let shared = Arc::clone(&self.shared);
        let Shared { bucket, slice, clock, state } = &*shared;
        let now = clock.now();
        let mut state = state.lock();
        self.report(&mut *state, bucket, now);
        let lacking = cost - self.left;
        let check = match bucket.check(&*state, now, lacking, Entry::Enqueue) {
            Check::Now if cost <= bucket.burst() => Check::Now,
            Check::Now => Check::Never,
            other => other,
        };
        let status = bucket.status(&*state, now);
        if check != Check::Now {
            let verdict = if cost > bucket.burst() { Verdict::Never } else { check.verdict() };
            return Err(Refused { decision: Decision { verdict, limit: 0, status }, reason: Reason::Limit });
        }
        let fetched = lacking.max((*slice).min(status.remaining));
        bucket.commit(&mut *state, now, fetched, true);
        self.left = self.left + fetched - cost;
        self.spent = cost;
        Ok(())
    }

    /// Tells the bucket what was spent since it last heard of this slice: that is out no more.
    fn report(&mut self, state: &mut [u64], bucket: &TokenBucket, now: crate::time::Timestamp) {
        let spent = std::mem::take(&mut self.spent);
        let taken = Taken { at: now, cost: spent, mark: 0, held: true };
        bucket.settle(state, taken, spent, now);
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        let now = shared.clock.now();
        let mut state = shared.state.lock();
        self.report(&mut *state, &shared.bucket, now);
        let taken = Taken { at: now, cost: self.left, mark: 0, held: true };
        shared.bucket.settle(&mut *state, taken, 0, now);
    }
}

impl fmt::Debug for SlicedLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlicedLimiter").field("bucket", &self.shared.bucket).finish_non_exhaustive()
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slice").field("left", &self.left).finish_non_exhaustive()
    }
}
