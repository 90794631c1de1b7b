//! Sliding log: one remembered moment per admitted unit, and nothing approximate.
//!
//! **Guarantee.** At most `limit` in any span of one window, exactly; a request counts for precisely
//! one window and not a nanosecond longer. The price is memory: one word per unit of the limit and
//! key, which is why the limit is capped at [`MOST_ENTRIES`]. Every request has its own entry, so any
//! number of them at one instant are counted each.
//!
//! **State.** Word 0: position of the oldest entry. The rest: a ring of `limit` moments, each the one
//! at which an admitted unit stops counting, oldest first from that position. Deciding looks at one
//! entry only: a cost of `n` fits when the n-th oldest has expired. A position beyond the ring, where it
//! begins anew, says that more was charged than the log has entries.

use std::time::Duration;

use super::{Algorithm, Check, Entry, Status, Taken, nanos};
use crate::limit::{LimitError, window_nanos};
use crate::time::Timestamp;

/// The highest limit a log may have: 32 KiB of state per key.
pub const MOST_ENTRIES: u64 = 4_096;

/// An exact log of admissions. See the [module's head](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: u64,
    window: u64,
}

impl SlidingLog {
    /// At most `limit` in any `window`.
    pub fn new(limit: u64, window: Duration) -> Result<Self, LimitError> {
        if limit == 0 {
            return Err(LimitError::zero("limit"));
        }
        if limit > MOST_ENTRIES {
            return Err(LimitError::LogTooLong { limit, most: MOST_ENTRIES });
        }
        Ok(Self { limit, window: window_nanos(window)? })
    }

    /// The most any window admits.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of the window.
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window)
    }

    /// Takes over the entries of a log of the same window that differs in its limit alone; of more than fit, the
    /// newest. Those are the ones that count: as soon as the oldest of them has expired, there is room for one.
    pub(crate) fn go_on(&self, state: &mut [u64], old: &Self, old_state: &[u64]) {
        state.fill(0);
        for age in old.limit.saturating_sub(self.limit)..old.limit {
            self.push(state, old.expiry(old_state, age));
        }
        if old.is_overdrawn(old_state) {
            self.note_overdraft(state);
        }
    }

    /// Where the entry of this age stands: 0 is the oldest, `limit - 1` the newest.
    #[inline]
    const fn place(&self, state: &[u64], age: u64) -> usize {
        1 + ((state[0] % self.limit + age) % self.limit) as usize
    }

    #[inline]
    fn expiry(&self, state: &[u64], age: u64) -> u64 {
        state[self.place(state, age)]
    }

    fn push(&self, state: &mut [u64], expiry: u64) {
        let oldest = self.place(state, 0);
        state[oldest] = expiry;
        state[0] = (state[0] % self.limit + 1) % self.limit;
    }

    /// Charges more than there is room for: everything counts for a whole window from now.
    ///
    /// The log has no place for entries beyond the limit. Letting the new ones push out the oldest would
    /// forget those, and giving back one of the rest would then make room that is not there. So all
    /// entries become one debt, with an expiry that nobody's mark has and nobody can give back.
    fn overdraw(&self, state: &mut [u64], now: Timestamp) {
        let newest = self.expiry(state, self.limit - 1);
        let expiry = nanos(now).saturating_add(self.window).max(newest);
        state[1..].fill(expiry.saturating_add(1));
        self.note_overdraft(state);
    }

    const fn note_overdraft(&self, state: &mut [u64]) {
        state[0] = state[0] % self.limit + self.limit;
    }

    /// Whether more may count than the log has entries.
    const fn is_overdrawn(&self, state: &[u64]) -> bool {
        state[0] >= self.limit
    }

    /// Frees up to `count` entries with this expiry.
    ///
    /// What they had pushed out of the log had expired when they were `taken`, and no more is known of
    /// it: so they are free from that moment on, and not for a clock that has stepped back before it.
    fn free(&self, state: &mut [u64], expiry: u64, count: u64, taken: u64) {
        if self.is_overdrawn(state) {
            return;
        }
        let given_back = state[1..].iter_mut().filter(|entry| **entry == expiry);
        for (entry, _) in given_back.zip(0..count) {
            *entry = taken.min(expiry);
        }
        state[1..].sort_unstable();
        state[0] = 0;
    }
}

impl Algorithm for SlidingLog {
    fn words(&self) -> usize {
        1 + self.limit as usize
    }

    #[inline]
    fn check(&self, state: &[u64], now: Timestamp, cost: u64, _entry: Entry) -> Check {
        if cost > self.limit {
            return Check::Never;
        }
        if cost == 0 {
            return Check::Now;
        }
        match self.expiry(state, cost - 1).checked_sub(nanos(now)) {
            None | Some(0) => Check::Now,
            Some(wait) => Check::NotBefore(wait),
        }
    }

    fn commit(&self, state: &mut [u64], now: Timestamp, cost: u64, _hold: bool) -> u64 {
        // Entries stay in order even if the clock stepped back: the later moment is the stricter one.
        let newest = self.expiry(state, self.limit - 1);
        let expiry = nanos(now).saturating_add(self.window).max(newest);
        for _ in 0..cost.min(self.limit) {
            self.push(state, expiry);
        }
        expiry
    }

    fn settle(&self, state: &mut [u64], taken: Taken, actual: u64, now: Timestamp) {
        if actual > taken.cost {
            let extra = actual - taken.cost;
            if self.status(state, now).remaining >= extra {
                self.commit(state, now, extra, false);
            } else {
                self.overdraw(state, now);
            }
        } else if actual < taken.cost {
            self.free(state, taken.mark, taken.cost - actual, nanos(taken.at));
        }
    }

    /// Frees the oldest that count: they are free from now on, so the entries stay in order. Of a debt nobody knows
    /// how large it is, and it stays.
    fn refund(&self, state: &mut [u64], now: Timestamp, amount: u64) {
        if self.is_overdrawn(state) {
            return;
        }
        let free = self.status(state, now).remaining;
        for age in free..free.saturating_add(amount).min(self.limit) {
            let place = self.place(state, age);
            state[place] = nanos(now);
        }
    }

    fn status(&self, state: &[u64], now: Timestamp) -> Status {
        let now = nanos(now);
        // Entries are in order of expiry: count the expired ones by bisection.
        let (mut low, mut high) = (0, self.limit);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.expiry(state, middle) <= now { low = middle + 1 } else { high = middle }
        }
        let reset = self.expiry(state, self.limit - 1).saturating_sub(now);
        Status { limit: self.limit, remaining: low, reset }
    }

    fn full_at(&self, state: &[u64]) -> Timestamp {
        Timestamp::from_nanos(self.expiry(state, self.limit - 1))
    }

    fn merge(&self, into: &mut [u64], from: &[u64]) {
        for age in 0..self.limit {
            let place = self.place(into, age);
            into[place] = into[place].max(self.expiry(from, age));
        }
        if self.is_overdrawn(from) {
            self.note_overdraft(into);
        }
    }
}
