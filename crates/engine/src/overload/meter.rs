//! Gate measurements: the last second for conditions, and intervals for the control loop.

use std::time::Duration;

use super::histogram::Histogram;
use crate::rule::Priority;
use crate::time::Timestamp;

/// Number of priority classes.
pub(super) const CLASSES: usize = 3;

/// Array index of a class.
pub(super) const fn class_index(class: Priority) -> usize {
    match class {
        Priority::Background => 0,
        Priority::Normal => 1,
        Priority::Vip => 2,
    }
}

/// Number of cells for the last second.
const CELLS: usize = 10;
const CELL_NANOS: u64 = 100_000_000;

/// Throughput of the last second, for conditions on a rule's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Requests in flight now.
    pub in_flight: usize,
    /// Requests queued now.
    pub waiting: usize,
    /// Requests that arrived per second, including refused ones.
    pub arrivals: f64,
    /// Requests refused per second.
    pub refusals: f64,
    /// Requests completed per second.
    pub responses: f64,
    /// Average response time in seconds. `None` if no request completed.
    pub average: Option<f64>,
    /// Median response time in seconds.
    pub p50: Option<f64>,
    /// 90th percentile of the response time in seconds.
    pub p90: Option<f64>,
    /// 99th percentile of the response time in seconds.
    pub p99: Option<f64>,
}

/// Measurements of one interval of the control loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Length of the interval.
    pub duration: Duration,
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests completed successfully.
    pub completed: u64,
    /// Requests that failed: aborted, timed out, or a server error.
    pub failed: u64,
    /// Median response time of the completed requests in seconds. `None` if no request completed.
    pub p50: Option<f64>,
    /// 99th percentile of the response time in seconds.
    pub p99: Option<f64>,
    /// Average response time in seconds.
    pub average: Option<f64>,
    /// Time-weighted average of requests in flight.
    pub in_flight: f64,
    /// Maximum number of requests in flight.
    pub peak_in_flight: usize,
    /// Fraction of the time in which every slot was occupied.
    pub full_ratio: f64,
}

#[derive(Default)]
struct MeterCell {
    /// Number of the cell, counted from the epoch.
    index: u64,
    arrived: u64,
    refused: u64,
    completed: u64,
    nanos: u64,
    times: Histogram,
}

/// Collects the measurements of a gate. Events must be recorded in order of time.
pub(super) struct GateMeter {
    cells: [MeterCell; CELLS],
    started: Timestamp,
    interval: IntervalCounters,
}

#[derive(Default)]
struct IntervalCounters {
    since: Timestamp,
    /// Time up to which `in_flight_nanos` and `full_nanos` are summed.
    until: Timestamp,
    arrived: u64,
    refused: u64,
    completed: u64,
    failed: u64,
    nanos: u64,
    times: Histogram,
    in_flight_nanos: f64,
    full_nanos: u64,
    peak_in_flight: usize,
}

impl GateMeter {
    pub(super) fn new(now: Timestamp) -> Self {
        let interval = IntervalCounters { since: now, until: now, ..IntervalCounters::default() };
        Self { cells: Default::default(), started: now, interval }
    }

    fn cell(&mut self, now: Timestamp) -> &mut MeterCell {
        let index = now.as_nanos() / CELL_NANOS;
        let cell = &mut self.cells[(index % CELLS as u64) as usize];
        if cell.index != index {
            cell.times.clear();
            let times = std::mem::take(&mut cell.times);
            *cell = MeterCell { index, times, ..MeterCell::default() };
        }
        cell
    }

    pub(super) fn record_arrival(&mut self, now: Timestamp) {
        self.cell(now).arrived += 1;
        self.interval.arrived += 1;
    }

    pub(super) fn record_refusal(&mut self, now: Timestamp) {
        self.cell(now).refused += 1;
        self.interval.refused += 1;
    }

    /// Records that a request completed or failed after this time.
    pub(super) fn record_completion(&mut self, now: Timestamp, response_time: Duration, succeeded: bool) {
        if !succeeded {
            self.interval.failed += 1;
            return;
        }
        let nanos = u64::try_from(response_time.as_nanos()).unwrap_or(u64::MAX);
        let cell = self.cell(now);
        cell.completed += 1;
        cell.nanos = cell.nanos.saturating_add(nanos);
        cell.times.record(nanos);
        self.interval.completed += 1;
        self.interval.nanos = self.interval.nanos.saturating_add(nanos);
        self.interval.times.record(nanos);
    }

    /// Accounts the time up to now with this number in flight; `full`: every slot is occupied. Call it before
    /// either changes.
    pub(super) fn record_in_flight(&mut self, now: Timestamp, in_flight: usize, full: bool) {
        let interval = &mut self.interval;
        let nanos = now.saturating_since(interval.until).as_nanos() as u64;
        interval.until = interval.until.max(now);
        interval.in_flight_nanos += nanos as f64 * in_flight as f64;
        interval.full_nanos += if full { nanos } else { 0 };
        interval.peak_in_flight = interval.peak_in_flight.max(in_flight);
    }

    /// Throughput of the last second.
    pub(super) fn throughput(&self, now: Timestamp) -> Throughput {
        let newest = now.as_nanos() / CELL_NANOS;
        let oldest = newest.saturating_sub(CELLS as u64 - 1);
        let live = || self.cells.iter().filter(|cell| (oldest..=newest).contains(&cell.index));
        let since = Timestamp::from_nanos(oldest * CELL_NANOS).max(self.started);
        // Avoids a division by almost zero right after the start.
        let seconds = (now - since).as_secs_f64().max(0.1);
        let sum = |of: fn(&MeterCell) -> u64| live().map(of).sum::<u64>() as f64;
        let mut times = Histogram::default();
        live().for_each(|cell| times.add(&cell.times));
        let completed = sum(|cell| cell.completed);
        let quantile = |share| times.quantile(share).map(|nanos| nanos / 1e9);
        Throughput {
            in_flight: 0,
            waiting: 0,
            arrivals: sum(|cell| cell.arrived) / seconds,
            refusals: sum(|cell| cell.refused) / seconds,
            responses: completed / seconds,
            average: (completed > 0.0).then(|| sum(|cell| cell.nanos) / completed / 1e9),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
        }
    }

    /// Ends the current interval and starts the next.
    pub(super) fn take_interval(&mut self, now: Timestamp) -> Interval {
        let interval = self.peek_interval(now);
        let mut times = std::mem::take(&mut self.interval.times);
        times.clear();
        self.interval = IntervalCounters { since: now, until: now, times, ..IntervalCounters::default() };
        interval
    }

    /// Measurements of the current interval.
    pub(super) fn peek_interval(&self, now: Timestamp) -> Interval {
        let counters = &self.interval;
        let duration = now - counters.since;
        let nanos = (duration.as_nanos() as f64).max(1.0);
        let quantile = |share| counters.times.quantile(share).map(|nanos| nanos / 1e9);
        Interval {
            duration,
            arrived: counters.arrived,
            refused: counters.refused,
            completed: counters.completed,
            failed: counters.failed,
            p50: quantile(0.5),
            p99: quantile(0.99),
            average: (counters.completed > 0).then(|| counters.nanos as f64 / counters.completed as f64 / 1e9),
            in_flight: counters.in_flight_nanos / nanos,
            peak_in_flight: counters.peak_in_flight,
            full_ratio: counters.full_nanos as f64 / nanos,
        }
    }
}
