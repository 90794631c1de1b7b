//! Capacity estimate from past throughput.
//!
//! The capacity is the highest throughput of a second within the last ten minutes, with these rules:
//!
//! - **Only without a limit in force.** Otherwise a rate limit would measure itself. Minutes under a limit are
//!   not counted either, so earlier knowledge survives a long limit.
//! - **The second-highest value counts.** When a stall ends, everything queued completes in one second. Once is
//!   not a capacity; twice within ten minutes may be.
//! - **Overload corrects it.** A service that became slower cannot do what it did ten minutes ago; see
//!   [`Capacity::reset_to`].

/// Seconds per cell, and number of cells.
const SECONDS_PER_CELL: u32 = 60;
const CELLS: usize = 10;

/// The two highest rates of a minute.
#[derive(Clone, Copy, Debug, Default)]
struct MinutePeaks {
    highest: f64,
    second_highest: f64,
}

/// Capacity estimate over the last ten minutes.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity {
    cells: [MinutePeaks; CELLS],
    current: usize,
    seconds: u32,
}

impl Capacity {
    /// Records the completions of one full second.
    pub(super) fn record(&mut self, completions: f64) {
        if self.seconds == SECONDS_PER_CELL {
            self.current = (self.current + 1) % CELLS;
            self.cells[self.current] = MinutePeaks::default();
            self.seconds = 0;
        }
        self.seconds += 1;
        self.cells[self.current].record(completions);
    }

    /// Returns the capacity estimate; `current_rate` is used if it is higher or nothing is known.
    pub(super) fn estimate(&self, current_rate: f64) -> f64 {
        let mut all = MinutePeaks::default();
        for cell in &self.cells {
            all.record(cell.highest);
            all.record(cell.second_highest);
        }
        all.second_highest.max(current_rate)
    }

    /// Discards the history and sets the capacity.
    pub(super) fn reset_to(&mut self, capacity: f64) {
        *self = Self::default();
        self.cells[0] = MinutePeaks { highest: capacity, second_highest: capacity };
    }
}

impl MinutePeaks {
    fn record(&mut self, completions: f64) {
        if completions > self.highest {
            self.second_highest = self.highest;
            self.highest = completions;
        } else if completions > self.second_highest {
            self.second_highest = completions;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_peak_second_does_not_set_the_capacity() {
        let mut capacity = Capacity::default();
        assert_eq!(capacity.estimate(40.0), 40.0, "the current rate is used");
        (0..30).for_each(|_| capacity.record(200.0));
        capacity.record(5_000.0);
        assert_eq!(capacity.estimate(40.0), 200.0);
        capacity.record(300.0);
        assert_eq!(capacity.estimate(40.0), 300.0);
    }

    #[test]
    fn peaks_older_than_ten_minutes_are_dropped() {
        let mut capacity = Capacity::default();
        (0..2).for_each(|_| capacity.record(900.0));
        (0..9 * 60).for_each(|_| capacity.record(200.0));
        assert_eq!(capacity.estimate(0.0), 900.0);
        (0..2 * 60).for_each(|_| capacity.record(200.0));
        assert_eq!(capacity.estimate(0.0), 200.0);
        capacity.reset_to(50.0);
        assert_eq!(capacity.estimate(0.0), 50.0);
    }
}
