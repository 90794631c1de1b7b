//! Rate limit that may change at any time, with a reserve for higher priority classes.
//!
//! **Bound.** Any span of one window admits no more than the rate at its end, over all classes. Within the
//! window requests are spaced out except for a small burst: under overload they must not arrive in bursts. The
//! highest class is not spaced.
//!
//! **Classes.** The demand of the higher classes in the last window is reserved for them, so that the lowest
//! class is shed first and the highest last.

use std::time::Duration;

use super::meter::{CLASSES, class_index};
use crate::rule::Priority;
use crate::time::Timestamp;

/// Number of cells per window. Admitted requests count for up to one cell longer than the window.
const CELLS: u64 = 50;
/// Maximum burst as a fraction of the window.
const MAX_BURST_RATIO: f64 = 0.1;

/// Rate limit: a number of requests per window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VariableRate {
    /// Number of requests; the fractional part only affects the spacing.
    pub count: f64,
    /// Length of the window.
    pub window: Duration,
}

#[derive(Clone, Copy, Default)]
struct RateCell {
    index: u64,
    requested: [u32; CLASSES],
    admitted: [u32; CLASSES],
}

/// Requests and admissions of the last window, by class.
pub(super) struct RateWindow {
    cell: u64,
    cells: Box<[RateCell]>,
    /// Earliest time of the next request without a burst, in nanoseconds.
    due: f64,
}

impl RateWindow {
    pub(super) fn new(window: Duration) -> Self {
        let nanos = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let cells = vec![RateCell::default(); CELLS as usize + 1].into_boxed_slice();
        Self { cell: nanos.div_ceil(CELLS).max(1), cells, due: 0.0 }
    }

    /// True if the cells fit windows of this length.
    pub(super) fn has_window(&self, window: Duration) -> bool {
        u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).div_ceil(CELLS).max(1) == self.cell
    }

    /// Admits a request, or returns the time until there may be room.
    pub(super) fn enter(&mut self, now: Timestamp, class: Priority, rate: VariableRate) -> Result<(), Duration> {
        let result = self.peek(now, class, rate);
        let class = class_index(class);
        let cell = self.cell_at(now.as_nanos() / self.cell);
        cell.requested[class] = cell.requested[class].saturating_add(1);
        if result.is_ok() {
            cell.admitted[class] = cell.admitted[class].saturating_add(1);
            self.due = self.due.max(now.as_nanos() as f64) + self.spacing(rate);
        }
        result
    }

    /// `Ok` if a request would be admitted.
    pub(super) fn peek(&self, now: Timestamp, class: Priority, rate: VariableRate) -> Result<(), Duration> {
        let index = now.as_nanos() / self.cell;
        let class = class_index(class);
        let mut requested_above = 0u64;
        let (mut admitted, mut admitted_up_to_class) = (0u64, 0u64);
        let mut oldest = index;
        for cell in self.cells.iter().filter(|cell| cell.index + CELLS >= index) {
            requested_above += cell.requested[class + 1..].iter().map(|count| u64::from(*count)).sum::<u64>();
            admitted_up_to_class += cell.admitted[..=class].iter().map(|count| u64::from(*count)).sum::<u64>();
            admitted += cell.admitted.iter().map(|count| u64::from(*count)).sum::<u64>();
            if cell.admitted.iter().chain(&cell.requested[class + 1..]).any(|count| *count > 0) {
                oldest = oldest.min(cell.index);
            }
        }
        let max = rate.count.max(0.0) as u64;
        // Arrivals are uneven: the reserve includes one standard deviation.
        let reserved = requested_above + (requested_above as f64).sqrt().ceil() as u64;
        let is_full = admitted >= max || admitted_up_to_class >= max.saturating_sub(reserved);
        // If the window is full, there is no room until the oldest relevant cell expires.
        let out = (oldest + CELLS + 1).saturating_mul(self.cell).saturating_sub(now.as_nanos()).max(1);
        let wait = if is_full { out } else { 0 }.max(self.spacing_wait(now, class, rate));
        if wait == 0 { Ok(()) } else { Err(Duration::from_nanos(wait)) }
    }

    /// Time in nanoseconds by which the spacing delays the next request of this class.
    fn spacing_wait(&self, now: Timestamp, class: usize, rate: VariableRate) -> u64 {
        if class + 1 == CLASSES {
            return 0;
        }
        let spacing = self.spacing(rate);
        // A lower class leaves part of the burst to the classes above it.
        let class_part = (class + 1) as f64 / CLASSES as f64;
        let burst = (rate.window.as_nanos() as f64 * MAX_BURST_RATIO * class_part).max(spacing);
        (self.due - now.as_nanos() as f64 - burst + spacing).ceil() as u64
    }

    /// Interval of evenly spaced requests, in nanoseconds.
    fn spacing(&self, rate: VariableRate) -> f64 {
        self.cell as f64 * CELLS as f64 / rate.count.max(f64::MIN_POSITIVE)
    }

    fn cell_at(&mut self, index: u64) -> &mut RateCell {
        let cells = self.cells.len() as u64;
        let cell = &mut self.cells[(index % cells) as usize];
        if cell.index != index {
            *cell = RateCell { index, ..RateCell::default() };
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Simulates arrivals of each class at a fixed interval in microseconds; returns the admission times by class.
    fn run(arrivals: &[(Priority, u64)], seconds: u64, rate: impl Fn(u64) -> f64) -> [Vec<u64>; CLASSES] {
        let mut window = RateWindow::new(SECOND);
        let mut times: Vec<(u64, Priority)> = Vec::new();
        for (class, every) in arrivals {
            times.extend((0..seconds * 1_000_000 / every).map(|index| (10_000_000 + index * every, *class)));
        }
        times.sort_unstable();
        let mut admitted = [const { Vec::new() }; CLASSES];
        for (micros, class) in times {
            let now = Timestamp::from_nanos(micros * 1_000);
            let rate = VariableRate { count: rate(micros), window: SECOND };
            if window.enter(now, class, rate).is_ok() {
                admitted[class_index(class)].push(micros);
            }
        }
        admitted
    }

    fn max_in_any_second(mut times: Vec<u64>) -> usize {
        times.sort_unstable();
        let mut first = 0;
        let spans = times.iter().enumerate().map(|(last, at)| {
            while at - times[first] >= 1_000_000 {
                first += 1;
            }
            last + 1 - first
        });
        spans.max().unwrap_or(0)
    }

    #[test]
    fn rate_is_never_exceeded_in_any_second_and_nearly_used_up() {
        let [_, normal, _] = run(&[(Priority::Normal, 777)], 20, |_| 100.0);
        assert!(max_in_any_second(normal.clone()) <= 100);
        assert!(normal.len() > 1_900, "{}", normal.len());
        // No tenth of a second admits more than the burst and the regular rate.
        let too_close = normal.windows(21).filter(|span| span[20] - span[0] < 100_000).count();
        assert_eq!(too_close, 0);
    }

    #[test]
    fn lowered_rate_applies_immediately() {
        let [_, normal, _] = run(&[(Priority::Normal, 500)], 10, |at| if at < 15_000_000 { 400.0 } else { 100.0 });
        let later: Vec<u64> = normal.into_iter().filter(|at| *at >= 15_000_000).collect();
        assert!(max_in_any_second(later.clone()) <= 100);
        // Earlier admissions count too: nothing is admitted for most of a second.
        assert!(later.iter().filter(|at| **at < 15_500_000).count() == 0);
    }

    #[test]
    fn lowest_class_is_shed_first() {
        use Priority::{Background, Normal, Vip};
        let classes = [(Vip, 20_000), (Normal, 20_000), (Background, 10_000)];
        // Demand is 50/s, 50/s and 100/s; the limit is 120/s.
        let [background, normal, vip] = run(&classes, 20, |_| 120.0);
        // The demand of the highest class is not known at first.
        assert_eq!(vip.iter().filter(|at| **at >= 12_000_000).count(), 900);
        assert!(normal.len() > 970, "{}", normal.len());
        assert!((100..=400).contains(&background.len()), "{}", background.len());
        // The limit is 60/s: the highest class gets its full demand.
        let [background, normal, vip] = run(&classes, 20, |_| 60.0);
        assert!(vip.len() > 995, "{}", vip.len());
        assert!((20..=200).contains(&normal.len()), "{}", normal.len());
        assert!(background.len() <= 10, "{}", background.len());
    }

    /// A retry time of 20 ms would make the client retry fifty times.
    #[test]
    fn retry_after_is_exact() {
        let rate = VariableRate { count: 3.0, window: SECOND };
        let at = |millis: u64| Timestamp::from_nanos(millis * 1_000_000);
        // The first case is limited by the window, the second by the spacing.
        for (last, expected) in [(5_680, 6_020), (5_700, 6_034)] {
            let mut window = RateWindow::new(SECOND);
            for millis in [5_000, 5_340, last] {
                assert_eq!(window.enter(at(millis), Priority::Normal, rate), Ok(()));
            }
            let wait = window.enter(at(5_710), Priority::Normal, rate).unwrap_err();
            assert_eq!(wait.as_nanos().div_ceil(1_000_000), expected - 5_710);
            let then = at(5_710) + wait;
            assert!(window.peek(Timestamp::from_nanos(then.as_nanos() - 1), Priority::Normal, rate).is_err());
            assert_eq!(window.peek(then, Priority::Normal, rate), Ok(()));
        }
    }

    #[test]
    fn waits_are_never_zero_and_a_zero_rate_admits_nothing() {
        let mut window = RateWindow::new(SECOND);
        let closed = VariableRate { count: 0.0, window: SECOND };
        for nanos in [0, 1, 999_999_999, u64::MAX / 2] {
            let refused = window.enter(Timestamp::from_nanos(nanos), Priority::Vip, closed);
            assert!(refused.is_err_and(|wait| wait > Duration::ZERO));
        }
    }
}
