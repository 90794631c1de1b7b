//! Sharded token bucket: each thread takes shares of tokens and decides locally.
//!
//! Reading the clock and the compare-and-swap on a shared word are most of the cost of a decision. A thread
//! that takes several tokens at once decides without clock and shared memory until they are spent.
//!
//! **Guarantee.** That of the bucket: at most `burst + rate × T` in any T. Tokens leave the bucket when they
//! are handed out, and the bucket refills only up to `burst` minus the outstanding tokens, so the bucket and
//! all shares together never hold more than the burst. The price: unspent tokens of a share are not available
//! to other threads until the share is dropped, so a share should be a small part of the burst.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{AcquireError, RefusalReason};
use crate::algorithm::{AdmitMode, Algorithm, Check, LimitCharge, Status, TokenBucket};
use crate::clock::ClockHandle;
use crate::decision::{Decision, Verdict};
use crate::limit::LimitError;

/// Token bucket that hands out shares of tokens to threads.
///
/// ```
/// use sluicegate_engine::{Limiter, Rate, algorithm::TokenBucket};
///
/// let bucket = TokenBucket::new(Rate::per_second(1_000_000)?, 100_000)?;
/// let shared = Limiter::builder().build_sharded(bucket, 100)?;
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| {
///             let mut local = shared.local_tokens();
///             assert!(local.take(1).is_ok());
///         });
///     }
/// });
/// # Ok::<(), sluicegate_engine::LimitError>(())
/// ```
#[derive(Clone)]
pub struct ShardedLimiter {
    shared: Arc<ShardedBucket>,
}

struct ShardedBucket {
    bucket: TokenBucket,
    slice: u64,
    clock: ClockHandle,
    state: Mutex<[u64; 2]>,
}

/// One thread's share of the bucket. Dropping it returns the unspent tokens.
pub struct LocalTokens {
    shared: Arc<ShardedBucket>,
    /// Tokens left in the share.
    remaining: u64,
    /// Spent tokens that still count as outstanding.
    spent: u64,
}

impl ShardedLimiter {
    pub(super) fn new(bucket: TokenBucket, slice: u64, clock: ClockHandle) -> Result<Self, LimitError> {
        if slice == 0 {
            return Err(LimitError::zero("slice"));
        }
        let slice = slice.min(bucket.burst());
        let shared = ShardedBucket { bucket: bucket.reservable(), slice, clock, state: Mutex::new([0; 2]) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Creates an empty share for one thread.
    pub fn local_tokens(&self) -> LocalTokens {
        LocalTokens { shared: Arc::clone(&self.shared), remaining: 0, spent: 0 }
    }

    /// Status of the bucket without the tokens in shares.
    pub fn status(&self) -> Status {
        let now = self.shared.clock.now();
        self.shared.bucket.status(&*self.shared.state.lock(), now)
    }
}

impl LocalTokens {
    /// Takes `cost` tokens from the share; fetches another share if too few remain.
    #[inline]
    pub fn take(&mut self, cost: u64) -> Result<(), AcquireError> {
        if cost <= self.remaining {
            self.remaining -= cost;
            self.spent += cost;
            return Ok(());
        }
        self.fetch_and_take(cost)
    }

    /// Tokens that can be taken without accessing the bucket.
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    fn fetch_and_take(&mut self, cost: u64) -> Result<(), AcquireError> {
        let shared = Arc::clone(&self.shared);
        let ShardedBucket { bucket, slice, clock, state } = &*shared;
        let now = clock.now();
        let mut state = state.lock();
        self.report_spent(&mut *state, bucket, now);
        let missing = cost - self.remaining;
        let check = match bucket.check(&*state, now, missing, AdmitMode::Reserve) {
            Check::Now if cost <= bucket.burst() => Check::Now,
            Check::Now => Check::Never,
            other => other,
        };
        let status = bucket.status(&*state, now);
        if check != Check::Now {
            let verdict = if cost > bucket.burst() { Verdict::Never } else { check.verdict() };
            return Err(AcquireError {
                decision: Decision { verdict, limit: 0, status },
                reason: RefusalReason::Limit,
            });
        }
        let fetched = missing.max((*slice).min(status.remaining));
        bucket.commit(&mut *state, now, fetched, true);
        self.remaining = self.remaining + fetched - cost;
        self.spent = cost;
        Ok(())
    }

    /// Reports spent tokens to the bucket, so that they are no longer outstanding.
    fn report_spent(&mut self, state: &mut [u64], bucket: &TokenBucket, now: crate::time::Timestamp) {
        let spent = std::mem::take(&mut self.spent);
        let taken = LimitCharge { at: now, cost: spent, mark: 0, reserved: true };
        bucket.settle(state, taken, spent, now);
    }
}

impl Drop for LocalTokens {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        let now = shared.clock.now();
        let mut state = shared.state.lock();
        self.report_spent(&mut *state, &shared.bucket, now);
        let taken = LimitCharge { at: now, cost: self.remaining, mark: 0, reserved: true };
        shared.bucket.settle(&mut *state, taken, 0, now);
    }
}

impl fmt::Debug for ShardedLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlicedLimiter").field("bucket", &self.shared.bucket).finish_non_exhaustive()
    }
}

impl fmt::Debug for LocalTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slice").field("left", &self.remaining).finish_non_exhaustive()
    }
}
