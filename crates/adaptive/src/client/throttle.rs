//! State machine of the client-side throttle: a pure function of time, random numbers and call results.

use std::time::Duration;

use sluicegate_engine::Timestamp;

/// Number of cells in the window.
const WINDOW_CELLS: usize = 60;
/// Number of cells that count as recent.
const RECENT_CELLS: u64 = 5;
/// Number of failed calls before any is rejected locally: a few failures prove nothing.
const PADDING: f64 = 5.0;
/// Consecutive rejections, and time without an accepted call, that count as an outage.
const OUTAGE_MIN_REJECTIONS: u64 = 10;
const OUTAGE_AFTER: Duration = Duration::from_secs(2);
/// Interval of probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Parameters of the throttle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ThrottleParams {
    /// Length of the window.
    pub(super) window: Duration,
    /// K while at least half of the calls are accepted.
    pub(super) max_calls_per_accepted: f64,
    /// K if no call is accepted.
    pub(super) min_calls_per_accepted: f64,
}

/// Counts of one cell.
#[derive(Clone, Copy, Debug, Default)]
struct WindowCell {
    index: u64,
    /// Calls requested, including those rejected locally.
    requested: u64,
    accepted: u64,
    rejected: u64,
}

/// Counts of one second.
#[derive(Clone, Copy, Debug, Default)]
struct SecondCounts {
    index: u64,
    made: u64,
    accepted: u64,
}

/// Throttle state of one backend.
#[derive(Clone, Debug)]
pub(super) struct Throttle {
    params: ThrottleParams,
    cell_nanos: u64,
    cells: [WindowCell; WINDOW_CELLS],
    second: SecondCounts,
    previous_second: SecondCounts,
    last_made: Option<Timestamp>,
    last_accepted: Option<Timestamp>,
    consecutive_rejections: u64,
}

/// A call is rejected locally.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CallRejected {
    /// Share of calls currently rejected locally.
    pub(super) rejection_ratio: f64,
    /// Time until the next probe.
    pub(super) wait: Duration,
}

/// Totals over a range of cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowTotals {
    pub(super) requested: u64,
    pub(super) accepted: u64,
    pub(super) rejected: u64,
}

impl Throttle {
    pub(super) fn new(params: ThrottleParams) -> Self {
        let window = u64::try_from(params.window.as_nanos()).unwrap_or(u64::MAX);
        Self {
            params,
            cell_nanos: (window / WINDOW_CELLS as u64).max(1),
            cells: [WindowCell::default(); WINDOW_CELLS],
            second: SecondCounts::default(),
            previous_second: SecondCounts::default(),
            last_made: None,
            last_accepted: None,
            consecutive_rejections: 0,
        }
    }

    /// Requests a call; `chance` is a random number in `0.0..1.0`.
    pub(super) fn request(&mut self, now: Timestamp, chance: f64) -> Result<(), CallRejected> {
        let rejection_ratio = self.rejection_ratio(now);
        let is_made = chance >= rejection_ratio || self.may_ramp_up(now) || self.probe_due(now);
        self.cell_at(now).requested += 1;
        if is_made {
            self.second_at(now).made += 1;
            self.last_made = Some(now);
            return Ok(());
        }
        let since = self.last_made.map_or(PROBE_INTERVAL, |made| now - made);
        Err(CallRejected { rejection_ratio, wait: PROBE_INTERVAL.saturating_sub(since) })
    }

    /// Records a call that the backend accepted.
    pub(super) fn accepted(&mut self, now: Timestamp) {
        self.cell_at(now).accepted += 1;
        self.second_at(now).accepted += 1;
        self.last_accepted = Some(now);
        self.consecutive_rejections = 0;
    }

    /// Records a call that was rejected or got no response.
    pub(super) fn rejected(&mut self, now: Timestamp) {
        self.cell_at(now).rejected += 1;
        self.consecutive_rejections += 1;
        let accepted_long_ago = self.last_accepted.is_some_and(|accepted| now - accepted >= OUTAGE_AFTER);
        if accepted_long_ago && self.consecutive_rejections >= OUTAGE_MIN_REJECTIONS {
            self.last_accepted = None;
            // Calls accepted before an outage do not describe the present.
            self.cells.iter_mut().for_each(|cell| cell.accepted = 0);
        }
    }

    /// Removes a call that was requested at this time: it does not count.
    pub(super) fn cancel(&mut self, requested_at: Timestamp) {
        let index = requested_at.as_nanos() / self.cell_nanos;
        let cell = &mut self.cells[(index % WINDOW_CELLS as u64) as usize];
        if cell.index == index {
            cell.requested = cell.requested.saturating_sub(1);
        }
    }

    /// Share of calls to reject locally: those requested beyond K times the accepted ones.
    pub(super) fn rejection_ratio(&self, now: Timestamp) -> f64 {
        let all = self.totals(now);
        let requested = all.requested as f64;
        let ratio = (requested - self.calls_per_accepted(now) * all.accepted as f64 - PADDING) / (requested + 1.0);
        ratio.clamp(0.0, 1.0)
    }

    pub(super) fn calls_per_accepted(&self, now: Timestamp) -> f64 {
        let ThrottleParams { max_calls_per_accepted: max, min_calls_per_accepted: min, .. } = self.params;
        let recent = self.recent_totals(now);
        let completed = recent.accepted + recent.rejected;
        let accepted_ratio = if completed == 0 { 1.0 } else { recent.accepted as f64 / completed as f64 };
        min + (max - min) * (2.0 * accepted_ratio).min(1.0)
    }

    pub(super) fn totals(&self, now: Timestamp) -> WindowTotals {
        self.totals_of(now, WINDOW_CELLS as u64)
    }

    fn recent_totals(&self, now: Timestamp) -> WindowTotals {
        self.totals_of(now, RECENT_CELLS)
    }

    /// True if fewer calls were made in this second than the previous second's accepted calls allow. The bound
    /// is the same as over the window, but a recovered backend is found within seconds by doubling, and
    /// not only after the window has expired.
    fn may_ramp_up(&self, now: Timestamp) -> bool {
        let index = second_index(now);
        let second_at =
            |index: u64| [self.second, self.previous_second].into_iter().find(|second| second.index == index);
        let made = second_at(index).map_or(0, |second| second.made);
        let accepted = index.checked_sub(1).and_then(second_at).map_or(0, |second| second.accepted);
        // The first call of a second need not wait.
        let elapsed = (now.as_nanos() % NANOS_PER_SECOND) as f64 / NANOS_PER_SECOND as f64;
        accepted > 0 && (made as f64) < (self.calls_per_accepted(now) * accepted as f64 * elapsed).max(1.0)
    }

    /// True if a probe is due.
    fn probe_due(&self, now: Timestamp) -> bool {
        self.last_made.is_none_or(|made| now < made || now - made >= PROBE_INTERVAL)
    }

    fn totals_of(&self, now: Timestamp, cells: u64) -> WindowTotals {
        let newest = now.as_nanos() / self.cell_nanos;
        let oldest = (newest + 1).saturating_sub(cells);
        let live = self.cells.iter().filter(|cell| (oldest..=newest).contains(&cell.index));
        live.fold(WindowTotals::default(), |sums, cell| WindowTotals {
            requested: sums.requested + cell.requested,
            accepted: sums.accepted + cell.accepted,
            rejected: sums.rejected + cell.rejected,
        })
    }

    fn cell_at(&mut self, now: Timestamp) -> &mut WindowCell {
        let index = now.as_nanos() / self.cell_nanos;
        let cell = &mut self.cells[(index % WINDOW_CELLS as u64) as usize];
        if cell.index != index {
            *cell = WindowCell { index, ..WindowCell::default() };
        }
        cell
    }

    fn second_at(&mut self, now: Timestamp) -> &mut SecondCounts {
        let index = second_index(now);
        if self.second.index != index {
            self.previous_second =
                std::mem::replace(&mut self.second, SecondCounts { index, ..SecondCounts::default() });
        }
        &mut self.second
    }
}

fn second_index(now: Timestamp) -> u64 {
    now.as_nanos() / NANOS_PER_SECOND
}
