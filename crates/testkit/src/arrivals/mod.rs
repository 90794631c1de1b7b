//! Arrival sequences: request times and costs for limiter tests.
//!
//! The same arrivals come in two forms. [`ArrivalStream`] is an endless seeded iterator, for long runs and
//! fixed cases. [`strategy::arrivals`] is a proptest strategy: it shrinks a failure to the few arrivals
//! that cause it.
//!
//! Times are nanoseconds as *read from a clock*, so they may stand still or run backwards. An
//! [`ArrivalScale`] sets the window length, because the interesting times are around window edges.

pub mod strategy;
mod stream;

pub use stream::{ArrivalStream, Pattern};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Clock reading, in nanoseconds.
    pub at: u64,
    /// Requested cost.
    pub cost: u64,
}

/// Time and cost scale of generated arrivals, matched to the limit under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalScale {
    /// First clock reading.
    pub start: u64,
    /// Window length in nanoseconds, or the equivalent period of a limit without windows.
    pub window: u64,
    /// Highest ordinary cost; a higher one is generated occasionally.
    pub max_cost: u64,
    /// Average number of arrivals per window.
    pub per_window: u64,
}

impl ArrivalScale {
    /// Scale with cost 1 and 20 arrivals per window, starting at a time that is not a round number.
    pub const fn window(window: u64) -> Self {
        Self { start: 86_400_000_000_123, window, max_cost: 1, per_window: 20 }
    }

    /// Sets the highest ordinary cost.
    #[must_use]
    pub const fn with_max_cost(mut self, max_cost: u64) -> Self {
        self.max_cost = max_cost;
        self
    }

    /// Sets the average number of arrivals per window.
    #[must_use]
    pub const fn with_per_window(mut self, per_window: u64) -> Self {
        self.per_window = per_window;
        self
    }

    /// Sets the first clock reading.
    #[must_use]
    pub const fn starting_at(mut self, start: u64) -> Self {
        self.start = start;
        self
    }

    /// Mean time between arrivals, at least one nanosecond.
    pub(crate) const fn gap(&self) -> u64 {
        let per_window = if self.per_window == 0 { 1 } else { self.per_window };
        let gap = self.window / per_window;
        if gap == 0 { 1 } else { gap }
    }

    /// First window edge after `at`.
    pub(crate) const fn edge_after(&self, at: u64) -> u64 {
        at.saturating_add(self.window - at % self.window)
    }
}
