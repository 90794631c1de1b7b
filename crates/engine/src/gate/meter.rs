//! What passes a gate, measured: the last second for conditions, and laps for whoever tunes it.

use std::time::Duration;

use super::histogram::Histogram;
use crate::rule::Priority;
use crate::time::Timestamp;

/// How many classes of requests there are.
pub(super) const CLASSES: usize = 3;

/// A class's place in rows of numbers.
pub(super) const fn place(class: Priority) -> usize {
    match class {
        Priority::Background => 0,
        Priority::Normal => 1,
        Priority::Vip => 2,
    }
}

/// The last second is kept in so many cells.
const CELLS: usize = 10;
const CELL_NANOS: u64 = 100_000_000;

/// What passed in the last second, for conditions on a rule's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Passing {
    /// Requests that are being served now.
    pub in_flight: usize,
    /// Requests that wait for a place now.
    pub waiting: usize,
    /// Requests that arrived per second, refused ones included.
    pub arrivals: f64,
    /// Requests that were refused per second.
    pub refusals: f64,
    /// Requests that were answered per second.
    pub answers: f64,
    /// Their average response time, in seconds. `None`: nothing was answered.
    pub average: Option<f64>,
    /// The response time that half stay within, in seconds.
    pub p50: Option<f64>,
    /// The response time that nine in ten stay within.
    pub p90: Option<f64>,
    /// The response time that 99 in 100 stay within.
    pub p99: Option<f64>,
}

/// What passed since somebody last asked, for whoever tunes the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lap {
    /// How long that was.
    pub lasted: Duration,
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests that were answered well.
    pub answered: u64,
    /// Requests that failed: cut off, timed out, answered by a fault of the server.
    pub failed: u64,
    /// The response time that half of the answered stayed within, in seconds. `None`: nothing was answered.
    pub p50: Option<f64>,
    /// The response time that 99 in 100 stayed within.
    pub p99: Option<f64>,
    /// Their average.
    pub average: Option<f64>,
    /// Requests that were being served, on average over time.
    pub in_flight: f64,
    /// The most at once.
    pub peak: usize,
    /// For which share of the time every place was taken.
    pub full: f64,
}

#[derive(Default)]
struct Cell {
    /// Which cell of time this is, counted from the epoch.
    number: u64,
    arrived: u64,
    refused: u64,
    answered: u64,
    nanos: u64,
    times: Histogram,
}

/// The measuring itself. Told of everything, in the order of time.
pub(super) struct Meter {
    cells: [Cell; CELLS],
    first: Timestamp,
    lap: LapSoFar,
}

#[derive(Default)]
struct LapSoFar {
    since: Timestamp,
    /// Up to when `in_flight_nanos` and `full_nanos` are summed up.
    until: Timestamp,
    arrived: u64,
    refused: u64,
    answered: u64,
    failed: u64,
    nanos: u64,
    times: Histogram,
    in_flight_nanos: f64,
    full_nanos: u64,
    peak: usize,
}

impl Meter {
    pub(super) fn new(now: Timestamp) -> Self {
        let lap = LapSoFar { since: now, until: now, ..LapSoFar::default() };
        Self { cells: Default::default(), first: now, lap }
    }

    fn cell(&mut self, now: Timestamp) -> &mut Cell {
        let number = now.as_nanos() / CELL_NANOS;
        let cell = &mut self.cells[(number % CELLS as u64) as usize];
        if cell.number != number {
            cell.times.clear();
            let times = std::mem::take(&mut cell.times);
            *cell = Cell { number, times, ..Cell::default() };
        }
        cell
    }

    pub(super) fn arrived(&mut self, now: Timestamp) {
        self.cell(now).arrived += 1;
        self.lap.arrived += 1;
    }

    pub(super) fn refused(&mut self, now: Timestamp) {
        self.cell(now).refused += 1;
        self.lap.refused += 1;
    }

    /// A request was answered, or failed, after so long.
    pub(super) fn finished(&mut self, now: Timestamp, took: Duration, well: bool) {
        if !well {
            self.lap.failed += 1;
            return;
        }
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let cell = self.cell(now);
        cell.answered += 1;
        cell.nanos = cell.nanos.saturating_add(nanos);
        cell.times.note(nanos);
        self.lap.answered += 1;
        self.lap.nanos = self.lap.nanos.saturating_add(nanos);
        self.lap.times.note(nanos);
    }

    /// So many are inside up to now; `full`: and every place is taken. To be told before either changes.
    pub(super) fn inside(&mut self, now: Timestamp, in_flight: usize, full: bool) {
        let lap = &mut self.lap;
        let nanos = now.saturating_since(lap.until).as_nanos() as u64;
        lap.until = lap.until.max(now);
        lap.in_flight_nanos += nanos as f64 * in_flight as f64;
        lap.full_nanos += if full { nanos } else { 0 };
        lap.peak = lap.peak.max(in_flight);
    }

    /// The last second.
    pub(super) fn passing(&self, now: Timestamp) -> Passing {
        let newest = now.as_nanos() / CELL_NANOS;
        let oldest = newest.saturating_sub(CELLS as u64 - 1);
        let live = || self.cells.iter().filter(|cell| (oldest..=newest).contains(&cell.number));
        let since = Timestamp::from_nanos(oldest * CELL_NANOS).max(self.first);
        // Right after the start there is next to nothing to divide by.
        let seconds = (now - since).as_secs_f64().max(0.1);
        let sum = |of: fn(&Cell) -> u64| live().map(of).sum::<u64>() as f64;
        let mut times = Histogram::default();
        live().for_each(|cell| times.add(&cell.times));
        let answered = sum(|cell| cell.answered);
        let quantile = |share| times.quantile(share).map(|nanos| nanos / 1e9);
        Passing {
            in_flight: 0,
            waiting: 0,
            arrivals: sum(|cell| cell.arrived) / seconds,
            refusals: sum(|cell| cell.refused) / seconds,
            answers: answered / seconds,
            average: (answered > 0.0).then(|| sum(|cell| cell.nanos) / answered / 1e9),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
        }
    }

    /// Ends the lap and begins the next.
    pub(super) fn take_lap(&mut self, now: Timestamp) -> Lap {
        let lap = self.look_at_lap(now);
        let mut times = std::mem::take(&mut self.lap.times);
        times.clear();
        self.lap = LapSoFar { since: now, until: now, times, ..LapSoFar::default() };
        lap
    }

    /// The lap so far.
    pub(super) fn look_at_lap(&self, now: Timestamp) -> Lap {
        let lap = &self.lap;
        let lasted = now - lap.since;
        let nanos = (lasted.as_nanos() as f64).max(1.0);
        let quantile = |share| lap.times.quantile(share).map(|nanos| nanos / 1e9);
        Lap {
            lasted,
            arrived: lap.arrived,
            refused: lap.refused,
            answered: lap.answered,
            failed: lap.failed,
            p50: quantile(0.5),
            p99: quantile(0.99),
            average: (lap.answered > 0).then(|| lap.nanos as f64 / lap.answered as f64 / 1e9),
            in_flight: lap.in_flight_nanos / nanos,
            peak: lap.peak,
            full: lap.full_nanos as f64 / nanos,
        }
    }
}
