//! Token batches: one caller takes tokens ahead and spends them without further decisions.
//!
//! Reading the clock and the compare-and-swap on a shared word are most of the cost of a decision. A caller
//! with many items in sequence, such as a stream, can take tokens for several of them at once.
//!
//! **Guarantee.** That of the bucket: at most `burst + rate × T` in any T. Tokens leave the bucket when they
//! are taken, and the bucket refills only up to `burst` minus the outstanding tokens, so a token spent late
//! is not refilled in the meantime.
//!
//! **Fairness.** All batches of a limiter together never hold more than an eighth of the burst, and no batch
//! takes more than half of the remaining tokens. A batch starts with a single token and doubles each time it
//! was fully spent; after a return it starts with one again. While callers are queued, no batch is taken.

use std::fmt;
use std::sync::Arc;

use super::atomic_bucket::LockedBucket;
use super::limiter_core::{LimiterCore, LimiterState, NO_KEY};
use crate::algorithm::gcra::Gcra;

/// Maximum batch size; at this size the cost of a decision is negligible per token.
const MAX_BATCH_TOKENS: u64 = 1_024;
/// All batches together hold at most `burst / BURST_DIVISOR` tokens.
const BURST_DIVISOR: u64 = 8;

/// Tokens taken ahead. Dropping it returns the unspent tokens.
///
/// Only a limiter with a single token bucket supports batches: only there a token spent later than it was
/// taken keeps the guarantee. With any other limiter [`TokenBatch::take`] returns `false`; use
/// [`Limiter::acquire`](super::Limiter::acquire) then.
///
/// ```
/// use sluicegate_engine::{Limit, Limiter, Rate};
///
/// let limiter = Limiter::new(Limit::token_bucket(Rate::per_second(1_000_000)?, 10_000)?);
/// let mut batch = limiter.batch();
/// for _ in 0..100 {
///     assert!(batch.take(1));
/// }
/// batch.give_back();
/// assert!(limiter.status()[0].remaining >= 9_900);
/// # Ok::<(), sluicegate_engine::LimitError>(())
/// ```
pub struct TokenBatch {
    inner: Arc<LimiterCore>,
    tokens: BatchTokens,
}

/// Tokens of one batch.
pub(super) struct BatchTokens {
    /// Tokens that can still be spent.
    remaining: u64,
    /// Tokens the bucket counts as outstanding: the remaining ones, and those spent since the last exchange.
    outstanding: u64,
    /// Id of the bucket they were taken from.
    origin: u64,
    /// Size of the next batch.
    size: u64,
}

impl TokenBatch {
    pub(super) fn new(inner: Arc<LimiterCore>) -> Self {
        Self { inner, tokens: BatchTokens { remaining: 0, outstanding: 0, origin: 0, size: 1 } }
    }

    /// Spends `cost` tokens and takes more if too few remain. Returns `false` if the limiter does not admit
    /// that now; then no tokens are kept, and the caller has to wait with `acquire`.
    #[inline]
    pub fn take(&mut self, cost: u64) -> bool {
        match self.tokens.remaining.checked_sub(cost) {
            Some(left) => {
                self.tokens.remaining = left;
                true
            }
            None => self.fetch(cost),
        }
    }

    /// Tokens that can be spent without a new decision.
    pub const fn remaining(&self) -> u64 {
        self.tokens.remaining
    }

    /// Returns the unspent tokens. Call it before an idle period.
    #[inline]
    pub fn give_back(&mut self) {
        self.tokens.size = 1;
        if self.tokens.outstanding > 0 {
            self.exchange(None);
        }
    }

    #[inline(never)]
    fn fetch(&mut self, cost: u64) -> bool {
        if self.inner.has_waiters(NO_KEY) {
            self.give_back();
            return false;
        }
        self.exchange(Some(cost))
    }

    #[inline(never)]
    fn exchange(&mut self, requested: Option<u64>) -> bool {
        let LimiterState::Unkeyed(state) = &self.inner.state else { return false };
        let had_outstanding = self.tokens.outstanding > 0;
        let taken = state.exchange(self.inner.clock.now(), &mut self.tokens, requested);
        if had_outstanding {
            self.inner.queue.wake(NO_KEY);
        }
        taken
    }
}

impl BatchTokens {
    /// Drops all tokens: the bucket they belong to is gone.
    pub(super) const fn clear(&mut self) {
        (self.remaining, self.outstanding) = (0, 0);
    }

    /// Returns the remaining tokens; spent tokens are no longer outstanding.
    pub(super) fn settle(&mut self, bucket: &Gcra, locked: &mut LockedBucket<'_>, origin: u64) {
        if self.origin == origin {
            locked.outstanding = locked.outstanding.saturating_sub(self.outstanding);
            locked.arrival = Gcra::give_back(locked.arrival, bucket.span(self.remaining));
        }
        self.clear();
        self.origin = origin;
    }

    /// Takes `cost` tokens to spend now and, if enough remain, more to spend later.
    pub(super) fn reserve(&mut self, bucket: &Gcra, locked: &mut LockedBucket<'_>, now: u64, cost: u64) -> bool {
        let remaining = bucket.remaining(locked.arrival, now);
        if cost > remaining {
            self.size = 1;
            return false;
        }
        let allowance = (bucket.burst() / BURST_DIVISOR).saturating_sub(locked.outstanding);
        self.remaining = self.size.min(allowance).min(remaining / 2).saturating_sub(cost);
        self.outstanding = self.remaining;
        locked.outstanding += self.outstanding;
        locked.arrival = locked.arrival.max(now).saturating_add(bucket.span(cost + self.remaining));
        self.size = (self.size * 2).min(MAX_BATCH_TOKENS);
        true
    }
}

impl Drop for TokenBatch {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl fmt::Debug for TokenBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("left", &self.tokens.remaining).finish_non_exhaustive()
    }
}
