//! Tokens taken ahead by one caller, who then spends them one by one without asking again.
//!
//! Reading the clock and swapping a shared word is most of what a decision costs. Who has many things to
//! let through one after another, as a stream has, can take tokens for some of them at once.
//!
//! **Guarantee.** The bucket's own: at most `burst + rate × T` in any T. Tokens leave the bucket when they
//! are taken, and the bucket fills only up to `burst` less what is out, so a token spent late does not come
//! on top of one that was refilled in its place.
//!
//! **Nobody is starved by it.** All batches of a limiter together never hold more than an eighth of the
//! burst, and none more than half of what is left. A batch begins with a single token and doubles each time
//! it was spent to the last; given back, it begins anew. Where somebody stands in line, nothing is taken.

use std::fmt;
use std::sync::Arc;

use super::inner::{Inner, NO_KEY, Store};
use super::word::Held;
use crate::algorithm::gcra::Gcra;

/// The largest batch: what asking costs is then nothing beside what is spent.
const MOST: u64 = 1_024;
/// All batches together hold at most this part of the burst.
const PART_OF_BURST: u64 = 8;

/// Tokens taken ahead. Dropping it gives back what it did not spend.
///
/// Only a limiter of a single token bucket gives tokens ahead, because only there a token that is
/// spent later than it was taken breaks no promise. Of any other limiter nothing can be taken here:
/// [`Batch::take`] answers `false`, and [`Limiter::acquire`](super::Limiter::acquire) has to be asked.
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
pub struct Batch {
    inner: Arc<Inner>,
    share: Share,
}

/// What one batch has of the bucket.
pub(super) struct Share {
    /// Tokens that can still be spent.
    left: u64,
    /// Tokens that the bucket counts as out: those left, and those spent since it was last told.
    out: u64,
    /// The bucket they are out of.
    origin: u64,
    /// How many to take the next time.
    size: u64,
}

impl Batch {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner, share: Share { left: 0, out: 0, origin: 0, size: 1 } }
    }

    /// Spends `cost` tokens, taking more if there are not enough left. `false` if the limiter does not
    /// admit that now: then nothing is kept, and the caller has to wait for a turn.
    #[inline]
    pub fn take(&mut self, cost: u64) -> bool {
        match self.share.left.checked_sub(cost) {
            Some(left) => {
                self.share.left = left;
                true
            }
            None => self.fetch(cost),
        }
    }

    /// Tokens that can be spent without asking.
    pub const fn left(&self) -> u64 {
        self.share.left
    }

    /// Gives back what was not spent. Call it whenever there is nothing to spend it on for a while.
    #[inline]
    pub fn give_back(&mut self) {
        self.share.size = 1;
        if self.share.out > 0 {
            self.exchange(None);
        }
    }

    #[inline(never)]
    fn fetch(&mut self, cost: u64) -> bool {
        if self.inner.has_line(NO_KEY) {
            self.give_back();
            return false;
        }
        self.exchange(Some(cost))
    }

    #[inline(never)]
    fn exchange(&mut self, want: Option<u64>) -> bool {
        let Store::Unkeyed(state) = &self.inner.store else { return false };
        let was_out = self.share.out > 0;
        let taken = state.exchange(self.inner.clock.now(), &mut self.share, want);
        if was_out {
            self.inner.room.wake(NO_KEY);
        }
        taken
    }
}

impl Share {
    /// The bucket is gone, and with it what was out.
    pub(super) const fn void(&mut self) {
        (self.left, self.out) = (0, 0);
    }

    /// Gives back what is left; what was spent is out no more.
    pub(super) fn end(&mut self, bucket: &Gcra, held: &mut Held<'_>, origin: u64) {
        if self.origin == origin {
            held.out = held.out.saturating_sub(self.out);
            held.arrival = Gcra::give_back(held.arrival, bucket.span(self.left));
        }
        self.void();
        self.origin = origin;
    }

    /// Takes `cost` to be spent now, and if there is plenty, more to be spent later.
    pub(super) fn begin(&mut self, bucket: &Gcra, held: &mut Held<'_>, now: u64, cost: u64) -> bool {
        let remaining = bucket.remaining(held.arrival, now);
        if cost > remaining {
            self.size = 1;
            return false;
        }
        let to_spare = (bucket.burst() / PART_OF_BURST).saturating_sub(held.out);
        self.left = self.size.min(to_spare).min(remaining / 2).saturating_sub(cost);
        self.out = self.left;
        held.out += self.out;
        held.arrival = held.arrival.max(now).saturating_add(bucket.span(cost + self.left));
        self.size = (self.size * 2).min(MOST);
        true
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("left", &self.share.left).finish_non_exhaustive()
    }
}
