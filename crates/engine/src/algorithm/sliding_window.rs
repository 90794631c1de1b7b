//! Sliding window of cells, the strict form: the meaning of `300/1m` in a rule file.
//!
//! The window is divided into `cells` cells with a counter each. At any time the current cell and the `cells`
//! before it count, the oldest in full although the window covers it only in part.
//!
//! **Guarantee.** At most `limit` in *any* span of one window, regardless of its start. The price is that a
//! request counts for up to `window + window / cells`; more cells make this smaller. (A cell is a whole number
//! of nanoseconds, rounded up; a window that is no multiple of it is rounded up to one.) Waits are exact: the
//! time at which enough old cells have expired.
//!
//! **State.** Word 0: the newest cell's number plus one. The other words: a ring of `cells + 1` counters, as
//! narrow as the limit allows. Cells are numbered from the engine's epoch, the same for every key.

use std::ops::Range;
use std::time::Duration;

use super::counter_ring::CounterRing;
use super::description::{
    Describe, Description, Imprecision, LeaseForm, LimitArguments, LimitUnit, NodeShare, Pacing, Parameter,
    ParameterKind, ParameterValue, Share,
};
use super::store_form::{MAX_NUMBER, StoreForm, StoreFormError, ceil_micros, exact};
use super::{AdmitMode, Algorithm, Check, LimitCharge, Status, nanos};
use crate::quota::{LimitError, Rate, window_nanos};
use crate::time::Timestamp;

/// Maximum number of cells of a window.
pub const MAX_CELLS: u32 = 1_000;

/// Default number of cells.
pub const DEFAULT_CELLS: u32 = 10;

/// Sliding window limit. See the [module documentation](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    limit: u64,
    window: u64,
    cells: u32,
    /// Length of a cell, rounded up so that `cells` of them cover the window.
    cell: u64,
    ring: CounterRing,
}

impl SlidingWindow {
    /// At most `limit` in any `window`, counted in `cells` cells.
    pub fn new(limit: u64, window: Duration, cells: u32) -> Result<Self, LimitError> {
        if limit == 0 {
            return Err(LimitError::zero("limit"));
        }
        let window = window_nanos(window)?;
        if cells == 0 || cells > MAX_CELLS || u64::from(cells) > window {
            let max = u64::from(MAX_CELLS).min(window);
            let reason = format!("cells {cells} is out of range: this window can have 1 to {max}");
            return Err(LimitError::parameter("cells", reason));
        }
        let cell = window.div_ceil(u64::from(cells));
        // If rounding up made the cells much longer (1001 ns in 1000 cells of 2 ns), fewer cells suffice.
        let cells = u32::try_from(window.div_ceil(cell)).unwrap_or(cells);
        Ok(Self { limit, window, cells, cell, ring: CounterRing::new(cells + 1, limit) })
    }

    /// The limit `300/1m`, with the default number of cells.
    pub(crate) fn from_rate(rate: Rate) -> Result<Self, LimitError> {
        let window = u32::try_from(rate.period().as_nanos()).unwrap_or(u32::MAX);
        Self::new(rate.count(), rate.period(), window.min(DEFAULT_CELLS))
    }

    /// Maximum in any window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Length of the window.
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window)
    }

    /// Number of cells: as configured, or fewer if whole nanoseconds do not allow that many.
    pub const fn cells(&self) -> u32 {
        self.cells
    }

    /// Current cell: that of `now`, or the newest stored cell if the clock stepped back.
    #[inline]
    fn current(&self, state: &[u64], now: u64) -> u64 {
        (now / self.cell).max(state[0].saturating_sub(1))
    }

    /// Time at which `cell` expires.
    #[inline]
    const fn expires_at(&self, cell: u64) -> u64 {
        cell.saturating_add(self.cells as u64 + 1).saturating_mul(self.cell)
    }

    /// Cells that count at `current`, oldest first.
    fn live_cells(&self, state: &[u64], current: u64) -> Range<u64> {
        let (newest, cells) = (state[0], u64::from(self.cells));
        let oldest_held = newest.saturating_sub(1 + cells);
        current.saturating_sub(cells).max(oldest_held)..newest
    }

    /// Cells that count at `current` with their counts.
    fn live<'a>(&self, state: &'a [u64], current: u64) -> impl DoubleEndedIterator<Item = (u64, u64)> + use<'a> {
        let ring = self.ring;
        self.live_cells(state, current).map(move |cell| (cell, ring.get(&state[1..], cell)))
    }

    /// Usage against the limit with `current` as the current cell.
    #[inline]
    fn used(&self, state: &[u64], current: u64) -> u64 {
        if state[0] == current + 1 {
            // Nothing has expired since the last write: the whole ring counts.
            return self.ring.sum(&state[1..]);
        }
        self.live(state, current).map(|(_, count)| count).fold(0, u64::saturating_add)
    }

    /// Makes `current` the newest cell and clears expired cells.
    #[inline]
    fn advance(&self, state: &mut [u64], current: u64) {
        let newest = state[0];
        if newest == current + 1 {
            return;
        }
        if newest == 0 || current + 1 - newest > u64::from(self.cells) {
            state[1..].fill(0);
        } else {
            for cell in newest..=current {
                self.ring.set(&mut state[1..], cell, 0);
            }
        }
        state[0] = current + 1;
    }
}

impl Describe for SlidingWindow {
    const DESCRIPTION: &'static Description = &Description {
        name: "sliding_window",
        title: "a sliding window",
        doc: "Strict limit: never more than the count in any window. `300/1m` is its short form.",
        code: 4,
        unit: LimitUnit::Requests,
        pacing: Pacing::None,
        refundable: true,
        reservable: false,
        parameters: &[
            Parameter {
                name: "sliding_window",
                doc: "Count in any window.",
                kind: ParameterKind::Window,
                default: None,
                example: "15/3s",
                notation: " {}",
            },
            Parameter {
                name: "cells",
                doc: "Resolution of the window. A request counts for up to 1/cells longer than the window.",
                kind: ParameterKind::Count(1, MAX_CELLS as u64),
                default: Some("10"),
                example: "30",
                notation: ", {} cells",
            },
        ],
    };

    fn from_arguments(arguments: &LimitArguments) -> Result<Self, LimitError> {
        let rate = arguments.rate()?;
        match arguments.count32(1) {
            Some(cells) => Self::new(rate.count(), rate.period(), cells),
            None => Self::from_rate(rate),
        }
    }

    fn arguments(&self) -> LimitArguments {
        let rate = Rate::new(self.limit, self.window()).ok().map(ParameterValue::Rate);
        LimitArguments::new([rate, Some(ParameterValue::Count(self.cells.into()))])
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn window(&self) -> Option<Duration> {
        Some(self.window())
    }

    fn share(&self, nodes: NodeShare) -> Result<Share<Self>, LimitError> {
        let (limit, window) = nodes.window(self.limit, self.window());
        Self::new(limit, window, self.cells).map(Share::Limit)
    }

    fn store_form(&self) -> Result<StoreForm, StoreFormError> {
        let max = exact(self.limit, "limit")?;
        let length = ceil_micros(self.window());
        let cell = length.div_ceil(u64::from(self.cells));
        let cells = length.div_ceil(cell);
        let (width, highest, mark) =
            if max < u64::from(u32::MAX) { (4, u64::from(u32::MAX), "") } else { (7, 2 * MAX_NUMBER - 1, "w") };
        let numbers = [max as f64, cell as f64, cells as f64, highest as f64, f64::from(width)];
        Ok(StoreForm::new(format!("sw{cells}x{cell}{mark}"), numbers))
    }

    fn lease_form(&self) -> Option<LeaseForm> {
        Some(LeaseForm::Window { limit: self.limit, window: self.window(), cells: self.cells })
    }

    /// Keeps the counts of a window with the same cells.
    fn carry_over(&self, state: &mut [u64], old: &Self, old_state: &[u64]) -> bool {
        if self.window != old.window || self.cells != old.cells {
            return false;
        }
        state.fill(0);
        if let Some(newest) = old_state[0].checked_sub(1) {
            state[0] = old_state[0];
            for (cell, count) in old.live(old_state, newest) {
                self.ring.set(&mut state[1..], cell, count);
            }
        }
        true
    }

    fn implies(&self, other: &Self) -> bool {
        self.window == other.window && self.cells == other.cells && self.limit <= other.limit
    }

    fn max_admitted(&self, span: Duration) -> Option<u128> {
        span.as_nanos().div_ceil(u128::from(self.window)).checked_mul(u128::from(self.limit))
    }

    /// A request counts until its cell has expired: up to one cell longer than the window.
    fn counting_time(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.expires_at(0)))
    }

    fn imprecision(&self) -> Option<Imprecision> {
        let (cells, retention) = (self.cells, 100 + 100 / self.cells);
        (cells < 4).then(|| Imprecision {
            description: format!("with {cells} cells, a request counts for up to {retention}% of the window"),
            remedy: "use 10 cells or more",
        })
    }
}

impl Algorithm for SlidingWindow {
    fn words(&self) -> usize {
        1 + self.ring.words()
    }

    #[inline]
    fn check(&self, state: &[u64], now: Timestamp, cost: u64, _mode: AdmitMode) -> Check {
        if cost > self.limit {
            return Check::Never;
        }
        let now = nanos(now);
        let current = self.current(state, now);
        let room = self.limit - cost;
        if cost == 0 || self.used(state, current) <= room {
            return Check::Now;
        }
        // Starting from the newest cell, the first one that no longer fits has to expire.
        let mut counted = 0u64;
        let wait = self.live(state, current).rev().find_map(|(cell, count)| {
            counted = counted.saturating_add(count);
            (counted > room).then(|| self.expires_at(cell) - now)
        });
        wait.map_or(Check::Now, Check::NotBefore)
    }

    #[inline]
    fn commit(&self, state: &mut [u64], now: Timestamp, cost: u64, _hold: bool) -> u64 {
        let current = self.current(state, nanos(now));
        if cost > 0 {
            self.advance(state, current);
            let count = self.ring.get(&state[1..], current);
            self.ring.set(&mut state[1..], current, count.saturating_add(cost));
        }
        current
    }

    fn settle(&self, state: &mut [u64], taken: LimitCharge, actual: u64, now: Timestamp) {
        let cell = taken.mark;
        let is_live = cell < state[0] && state[0] - cell <= u64::from(self.cells) + 1;
        if is_live {
            self.ring.correct(&mut state[1..], cell, taken.cost, actual);
        } else if cell >= state[0] && actual > taken.cost {
            // The cell was never stored, because the first charge was zero.
            self.commit(state, now, actual - taken.cost, false);
        }
    }

    fn refund(&self, state: &mut [u64], now: Timestamp, amount: u64) {
        let mut left = amount;
        for cell in self.live_cells(state, self.current(state, nanos(now))) {
            left -= self.ring.subtract(&mut state[1..], cell, left);
        }
    }

    fn status(&self, state: &[u64], now: Timestamp) -> Status {
        let now = nanos(now);
        let current = self.current(state, now);
        let used = self.used(state, current);
        let reset = if used == 0 { 0 } else { self.expires_at(state[0] - 1) - now };
        Status { limit: self.limit, remaining: self.limit.saturating_sub(used), reset }
    }

    fn full_at(&self, state: &[u64]) -> Timestamp {
        Timestamp::from_nanos(state[0].checked_sub(1).map_or(0, |newest| self.expires_at(newest)))
    }

    fn merge(&self, into: &mut [u64], from: &[u64]) {
        if from[0] == 0 {
            return;
        }
        let current = self.current(into, 0).max(from[0] - 1);
        self.advance(into, current);
        for (cell, count) in self.live(from, current) {
            let larger = self.ring.get(&into[1..], cell).max(count);
            self.ring.set(&mut into[1..], cell, larger);
        }
    }
}
