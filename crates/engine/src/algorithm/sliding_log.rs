//! Sliding log: one stored timestamp per admitted unit, exact.
//!
//! **Guarantee.** At most `limit` in any span of one window, exactly; a request counts for precisely one
//! window and not a nanosecond longer. The price is memory: one word per unit of the limit and key, so the
//! limit is capped at [`MAX_ENTRIES`]. Every request has its own entry, so simultaneous requests are counted
//! individually.
//!
//! **State.** Word 0: position of the oldest entry. The other words: a ring of `limit` expiry times, oldest
//! first from that position. A decision reads one entry: a cost of `n` fits once the n-th oldest entry has
//! expired. A position beyond the ring marks a log that was charged more than it has entries.

use std::time::Duration;

use super::description::{
    Describe, Description, LimitArguments, LimitUnit, NodeShare, Pacing, Parameter, ParameterKind, ParameterValue,
    Share,
};
use super::store_form::{SecondaryKey, StoreForm, StoreFormError, ceil_micros};
use super::{AdmitMode, Algorithm, Check, LimitCharge, Status, nanos};
use crate::quota::{LimitError, Rate, window_nanos};
use crate::time::Timestamp;

/// Maximum limit of a log: 32 KiB of state per key.
pub const MAX_ENTRIES: u64 = 4_096;

/// Sliding log limit. See the [module documentation](self).
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
        if limit > MAX_ENTRIES {
            let reason = format!(
                "sliding_log stores every request of {limit}: the maximum is {MAX_ENTRIES}; sliding_window has no such bound"
            );
            return Err(LimitError::parameter("sliding_log", reason));
        }
        Ok(Self { limit, window: window_nanos(window)? })
    }

    /// Maximum in any window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Length of the window.
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window)
    }

    /// Index of the entry of this age: 0 is the oldest, `limit - 1` the newest.
    #[inline]
    const fn index_of(&self, state: &[u64], age: u64) -> usize {
        1 + ((state[0] % self.limit + age) % self.limit) as usize
    }

    #[inline]
    fn expiry(&self, state: &[u64], age: u64) -> u64 {
        state[self.index_of(state, age)]
    }

    fn push(&self, state: &mut [u64], expiry: u64) {
        let oldest = self.index_of(state, 0);
        state[oldest] = expiry;
        state[0] = (state[0] % self.limit + 1) % self.limit;
    }

    /// Charges more than there is room for: everything counts for a whole window from now.
    ///
    /// The log has no entries beyond the limit. If new entries pushed out the oldest, those would be lost, and
    /// a refund of one of the others would make room that does not exist. So all entries become one debt, with an
    /// expiry that no charge's mark equals and that therefore cannot be refunded.
    fn overdraw(&self, state: &mut [u64], now: Timestamp) {
        let newest = self.expiry(state, self.limit - 1);
        let expiry = nanos(now).saturating_add(self.window).max(newest);
        state[1..].fill(expiry.saturating_add(1));
        self.mark_overdrawn(state);
    }

    const fn mark_overdrawn(&self, state: &mut [u64]) {
        state[0] = state[0] % self.limit + self.limit;
    }

    /// True if more may count than the log has entries.
    const fn is_overdrawn(&self, state: &[u64]) -> bool {
        state[0] >= self.limit
    }

    /// Frees up to `count` entries with this expiry.
    ///
    /// The entries they pushed out of the log had expired at time `taken`, and nothing more is known of them. So
    /// the freed entries expire at that time, and still count for a clock that has stepped back before it.
    fn free(&self, state: &mut [u64], expiry: u64, count: u64, taken: u64) {
        if self.is_overdrawn(state) {
            return;
        }
        let refunded = state[1..].iter_mut().filter(|entry| **entry == expiry);
        for (entry, _) in refunded.zip(0..count) {
            *entry = taken.min(expiry);
        }
        state[1..].sort_unstable();
        state[0] = 0;
    }
}

impl Describe for SlidingLog {
    const DESCRIPTION: &'static Description = &Description {
        name: "sliding_log",
        title: "a sliding log",
        doc: "Exact limit: at most the count in any window. Stores every request of the window.",
        code: 6,
        unit: LimitUnit::Requests,
        pacing: Pacing::None,
        refundable: true,
        reservable: false,
        parameters: &[Parameter {
            name: "sliding_log",
            doc: "Count in any window.",
            kind: ParameterKind::Window,
            default: None,
            example: "100/1m",
            notation: " {}",
        }],
    };

    fn from_arguments(arguments: &LimitArguments) -> Result<Self, LimitError> {
        let rate = arguments.rate()?;
        Self::new(rate.count(), rate.period())
    }

    fn arguments(&self) -> LimitArguments {
        LimitArguments::new([Rate::new(self.limit, self.window()).ok().map(ParameterValue::Rate)])
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn window(&self) -> Option<Duration> {
        Some(self.window())
    }

    fn share(&self, nodes: NodeShare) -> Result<Share<Self>, LimitError> {
        let (limit, window) = nodes.window(self.limit, self.window());
        Self::new(limit, window).map(Share::Limit)
    }

    fn store_form(&self) -> Result<StoreForm, StoreFormError> {
        let numbers = [self.limit as f64, ceil_micros(self.window()) as f64];
        let form = StoreForm::new(format!("sl{}", self.limit), numbers);
        Ok(StoreForm { secondary: SecondaryKey::Own("log"), ..form })
    }

    /// Keeps the entries of a log with the same window; if too many, the newest. Those decide: once the oldest of
    /// them has expired, there is room for one.
    fn carry_over(&self, state: &mut [u64], old: &Self, old_state: &[u64]) -> bool {
        if self.window != old.window {
            return false;
        }
        state.fill(0);
        for age in old.limit.saturating_sub(self.limit)..old.limit {
            self.push(state, old.expiry(old_state, age));
        }
        if old.is_overdrawn(old_state) {
            self.mark_overdrawn(state);
        }
        true
    }

    fn max_admitted(&self, span: Duration) -> Option<u128> {
        span.as_nanos().div_ceil(u128::from(self.window)).checked_mul(u128::from(self.limit))
    }

    fn counting_time(&self) -> Option<Duration> {
        Some(self.window())
    }
}

impl Algorithm for SlidingLog {
    fn words(&self) -> usize {
        1 + self.limit as usize
    }

    #[inline]
    fn check(&self, state: &[u64], now: Timestamp, cost: u64, _mode: AdmitMode) -> Check {
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
        // Entries stay in order even if the clock stepped back: the later time is the stricter one.
        let newest = self.expiry(state, self.limit - 1);
        let expiry = nanos(now).saturating_add(self.window).max(newest);
        for _ in 0..cost.min(self.limit) {
            self.push(state, expiry);
        }
        expiry
    }

    fn settle(&self, state: &mut [u64], taken: LimitCharge, actual: u64, now: Timestamp) {
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

    /// Frees the oldest live entries from now on, so the entries stay in order. A debt has no known size and is
    /// not refunded.
    fn refund(&self, state: &mut [u64], now: Timestamp, amount: u64) {
        if self.is_overdrawn(state) {
            return;
        }
        let free = self.status(state, now).remaining;
        for age in free..free.saturating_add(amount).min(self.limit) {
            let index = self.index_of(state, age);
            state[index] = nanos(now);
        }
    }

    fn status(&self, state: &[u64], now: Timestamp) -> Status {
        let now = nanos(now);
        // Entries are ordered by expiry: count the expired ones by binary search.
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
            let index = self.index_of(into, age);
            into[index] = into[index].max(self.expiry(from, age));
        }
        if self.is_overdrawn(from) {
            self.mark_overdrawn(into);
        }
    }
}
