//! The decision itself: which calls are not made. A pure state machine of time, chance and what came back.

use std::time::Duration;

use sluicegate_engine::Timestamp;

/// Into how many cells the window is cut.
const CELLS: usize = 60;
/// How many of them are the recent past.
const RECENT: u64 = 5;
/// So many calls fail before any is refused: few of them prove nothing.
const PADDING: f64 = 5.0;
/// After so many rejections in a row, and no acceptance for so long, everything is taken to fail.
const TOTAL_FROM: u64 = 10;
const TOTAL_AFTER: Duration = Duration::from_secs(2);
/// How often a call is made in any case.
const PROBE_EVERY: Duration = Duration::from_secs(1);

const SECOND: u64 = 1_000_000_000;

/// How strict it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Strictness {
    /// How far back it remembers.
    pub(super) window: Duration,
    /// So many calls per accepted one are made while at least half of them are accepted.
    pub(super) most: f64,
    /// And so many when none is.
    pub(super) least: f64,
}

/// What happened in a cell of time.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    number: u64,
    /// Calls that were wanted, those that were not made included.
    wanted: u64,
    accepted: u64,
    rejected: u64,
}

/// Calls of a second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    number: u64,
    made: u64,
    accepted: u64,
}

/// The memory of one backend.
#[derive(Clone, Debug)]
pub(super) struct Throttle {
    strictness: Strictness,
    cell: u64,
    cells: [Cell; CELLS],
    second: Second,
    before: Second,
    last_made: Option<Timestamp>,
    last_accepted: Option<Timestamp>,
    rejected_in_a_row: u64,
}

/// A call is not made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Refused {
    /// The share of calls that are not made at present.
    pub(super) share: f64,
    /// After how long one is made in any case.
    pub(super) wait: Duration,
}

/// What is remembered, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) wanted: u64,
    pub(super) accepted: u64,
    pub(super) rejected: u64,
}

impl Throttle {
    pub(super) fn new(strictness: Strictness) -> Self {
        let window = u64::try_from(strictness.window.as_nanos()).unwrap_or(u64::MAX);
        Self {
            strictness,
            cell: (window / CELLS as u64).max(1),
            cells: [Cell::default(); CELLS],
            second: Second::default(),
            before: Second::default(),
            last_made: None,
            last_accepted: None,
            rejected_in_a_row: 0,
        }
    }

    /// Somebody wants to make a call; `chance` is between 0 and 1.
    pub(super) fn ask(&mut self, now: Timestamp, chance: f64) -> Result<(), Refused> {
        let share = self.refused_share(now);
        let is_made = chance >= share || self.may_double(now) || self.is_probe(now);
        self.cell_at(now).wanted += 1;
        if is_made {
            self.second_at(now).made += 1;
            self.last_made = Some(now);
            return Ok(());
        }
        let since = self.last_made.map_or(PROBE_EVERY, |made| now - made);
        Err(Refused { share, wait: PROBE_EVERY.saturating_sub(since) })
    }

    /// A call was answered by a backend that wanted it.
    pub(super) fn accepted(&mut self, now: Timestamp) {
        self.cell_at(now).accepted += 1;
        self.second_at(now).accepted += 1;
        self.last_accepted = Some(now);
        self.rejected_in_a_row = 0;
    }

    /// A call was turned away, or not answered at all.
    pub(super) fn rejected(&mut self, now: Timestamp) {
        self.cell_at(now).rejected += 1;
        self.rejected_in_a_row += 1;
        let long_ago = self.last_accepted.is_some_and(|accepted| now - accepted >= TOTAL_AFTER);
        if long_ago && self.rejected_in_a_row >= TOTAL_FROM {
            self.last_accepted = None;
            // What was accepted before everything failed says nothing about now.
            self.cells.iter_mut().for_each(|cell| cell.accepted = 0);
        }
    }

    /// A call that was wanted at that time is taken back, as if it never had been.
    pub(super) fn take_back(&mut self, wanted_at: Timestamp) {
        let number = wanted_at.as_nanos() / self.cell;
        let cell = &mut self.cells[(number % CELLS as u64) as usize];
        if cell.number == number {
            cell.wanted = cell.wanted.saturating_sub(1);
        }
    }

    /// The share of calls that are not made: those wanted beyond so many times the accepted.
    pub(super) fn refused_share(&self, now: Timestamp) -> f64 {
        let all = self.sums(now);
        let wanted = all.wanted as f64;
        let share = (wanted - self.calls_per_accepted(now) * all.accepted as f64 - PADDING) / (wanted + 1.0);
        share.clamp(0.0, 1.0)
    }

    pub(super) fn calls_per_accepted(&self, now: Timestamp) -> f64 {
        let Strictness { most, least, .. } = self.strictness;
        let recent = self.recent(now);
        let answered = recent.accepted + recent.rejected;
        let good = if answered == 0 { 1.0 } else { recent.accepted as f64 / answered as f64 };
        least + (most - least) * (2.0 * good).min(1.0)
    }

    pub(super) fn sums(&self, now: Timestamp) -> Sums {
        self.sums_of(now, CELLS as u64)
    }

    fn recent(&self, now: Timestamp) -> Sums {
        self.sums_of(now, RECENT)
    }

    /// Whether fewer calls were made in this second, so far, than the last one's accepted allow. The bound is the same
    /// as over the whole window; but a backend that is back is found within seconds, by twice as many calls in each, and
    /// not only when the window has forgotten its failure.
    fn may_double(&self, now: Timestamp) -> bool {
        let number = second_of(now);
        let of = |wanted: u64| [self.second, self.before].into_iter().find(|second| second.number == wanted);
        let made = of(number).map_or(0, |second| second.made);
        let accepted = number.checked_sub(1).and_then(of).map_or(0, |second| second.accepted);
        // The first call of a second need not wait for a part of it to pass.
        let so_far = (now.as_nanos() % SECOND) as f64 / SECOND as f64;
        accepted > 0 && (made as f64) < (self.calls_per_accepted(now) * accepted as f64 * so_far).max(1.0)
    }

    /// Whether no call was made for so long that one is due in any case.
    fn is_probe(&self, now: Timestamp) -> bool {
        self.last_made.is_none_or(|made| now < made || now - made >= PROBE_EVERY)
    }

    fn sums_of(&self, now: Timestamp, cells: u64) -> Sums {
        let newest = now.as_nanos() / self.cell;
        let oldest = (newest + 1).saturating_sub(cells);
        let live = self.cells.iter().filter(|cell| (oldest..=newest).contains(&cell.number));
        live.fold(Sums::default(), |sums, cell| Sums {
            wanted: sums.wanted + cell.wanted,
            accepted: sums.accepted + cell.accepted,
            rejected: sums.rejected + cell.rejected,
        })
    }

    fn cell_at(&mut self, now: Timestamp) -> &mut Cell {
        let number = now.as_nanos() / self.cell;
        let cell = &mut self.cells[(number % CELLS as u64) as usize];
        if cell.number != number {
            *cell = Cell { number, ..Cell::default() };
        }
        cell
    }

    fn second_at(&mut self, now: Timestamp) -> &mut Second {
        let number = second_of(now);
        if self.second.number != number {
            self.before = std::mem::replace(&mut self.second, Second { number, ..Second::default() });
        }
        &mut self.second
    }
}

fn second_of(now: Timestamp) -> u64 {
    now.as_nanos() / SECOND
}
