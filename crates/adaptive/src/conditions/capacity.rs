//! How much a service can do, from how much it did.
//!
//! The capacity is the most that was answered in a second during the last ten minutes. What is thought of:
//!
//! - **Only while nobody is held back.** Otherwise a ceiling would be measured by itself. Minutes in which it holds are
//!   not counted either, so what was known before is still known when it holds for long.
//! - **The second highest counts.** When a stall ends, everything that piled up is answered in one second. That once is
//!   no capacity; twice within ten minutes it may be.
//! - **What strain proves wrong is forgotten.** A service that became slower cannot do what it did ten minutes ago; see
//!   [`Capacity::correct`].

/// Full seconds in a cell of the memory, and how many cells there are.
const CELL: u32 = 60;
const CELLS: usize = 10;

/// The two highest rates of a minute.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    highest: f64,
    second: f64,
}

/// The memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity {
    cells: [Cell; CELLS],
    now: usize,
    seconds: u32,
}

impl Capacity {
    /// Notes how many were answered in a full second.
    pub(super) fn note(&mut self, answers: f64) {
        if self.seconds == CELL {
            self.now = (self.now + 1) % CELLS;
            self.cells[self.now] = Cell::default();
            self.seconds = 0;
        }
        self.seconds += 1;
        self.cells[self.now].note(answers);
    }

    /// The most that is answered in a second; `now`: what is answered at present, if nothing else is known.
    pub(super) fn known(&self, now: f64) -> f64 {
        let mut all = Cell::default();
        for cell in &self.cells {
            all.note(cell.highest);
            all.note(cell.second);
        }
        all.second.max(now)
    }

    /// Forgets everything: this much is all that can be done.
    pub(super) fn correct(&mut self, capacity: f64) {
        *self = Self::default();
        self.cells[0] = Cell { highest: capacity, second: capacity };
    }
}

impl Cell {
    fn note(&mut self, answers: f64) {
        if answers > self.highest {
            self.second = self.highest;
            self.highest = answers;
        } else if answers > self.second {
            self.second = answers;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lucky_second_is_no_capacity() {
        let mut capacity = Capacity::default();
        assert_eq!(capacity.known(40.0), 40.0, "nothing else is known");
        (0..30).for_each(|_| capacity.note(200.0));
        capacity.note(5_000.0);
        assert_eq!(capacity.known(40.0), 200.0);
        capacity.note(300.0);
        assert_eq!(capacity.known(40.0), 300.0);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut capacity = Capacity::default();
        (0..2).for_each(|_| capacity.note(900.0));
        (0..9 * 60).for_each(|_| capacity.note(200.0));
        assert_eq!(capacity.known(0.0), 900.0);
        (0..2 * 60).for_each(|_| capacity.note(200.0));
        assert_eq!(capacity.known(0.0), 200.0);
        capacity.correct(50.0);
        assert_eq!(capacity.known(0.0), 50.0);
    }
}
