//! Who comes when, and how much they want.
//!
//! The same arrivals come in two forms. [`Stream`] is an endless seeded iterator, for long runs and
//! fixed cases. [`strategy::arrivals`] is a proptest strategy, for properties: it shrinks to the few
//! arrivals that break one.
//!
//! Times are nanoseconds as *read from a clock*, so they may stand still or run backwards. A [`Scale`]
//! tells how long a window is, because the interesting moments are around its edges.

pub mod strategy;
mod stream;

pub use stream::{Pattern, Random, Stream};

/// One caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// What the clock shows, in nanoseconds.
    pub at: u64,
    /// How much is wanted.
    pub cost: u64,
}

/// What "long" and "much" mean for the limit under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// When the clock starts.
    pub start: u64,
    /// The length of a window, or of what the limit has instead of one, in nanoseconds.
    pub window: u64,
    /// The highest ordinary cost; now and then one beyond it comes too.
    pub cost: u64,
    /// How many arrive per window on average.
    pub per_window: u64,
}

impl Scale {
    /// Costs of one, twenty per window, from a start that lies on no round number.
    pub const fn window(window: u64) -> Self {
        Self { start: 86_400_000_000_123, window, cost: 1, per_window: 20 }
    }

    /// The same with costs up to `cost`.
    #[must_use]
    pub const fn costing(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// The same with so many arrivals per window.
    #[must_use]
    pub const fn crowded(mut self, per_window: u64) -> Self {
        self.per_window = per_window;
        self
    }

    /// The same from another start.
    #[must_use]
    pub const fn starting(mut self, start: u64) -> Self {
        self.start = start;
        self
    }

    /// The mean time between arrivals, at least a nanosecond.
    pub(crate) const fn gap(&self) -> u64 {
        let per_window = if self.per_window == 0 { 1 } else { self.per_window };
        let gap = self.window / per_window;
        if gap == 0 { 1 } else { gap }
    }

    /// The first window edge after `at`.
    pub(crate) const fn edge_after(&self, at: u64) -> u64 {
        at.saturating_add(self.window - at % self.window)
    }
}
