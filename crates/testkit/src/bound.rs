//! Exact limit checkers: verify a sequential history of admissions against the limit's guarantee.
//!
//! Every checker takes admissions, each with the time *as the limiter's clock showed it*, and reports the
//! span that violates the guarantee. Fractions are compared by cross-multiplication in 128 bits: there is
//! no rounding and no tolerance. All checkers run in O(n log n) or better.
//!
//! Clocks that step back: an algorithm that stays in its current window when the clock steps back has to be
//! checked in [`effective`] time, in which a step back counts as a stall. The token bucket and the sliding
//! log keep their guarantee even in raw times.

use std::fmt;

/// One admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionEvent {
    /// Admission time, in nanoseconds.
    pub at: u64,
    /// Admitted cost.
    pub cost: u64,
}

/// Rate as an exact fraction: `count` units per `nanos` nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExactRate {
    count: u64,
    nanos: u64,
}

impl ExactRate {
    /// `count` per `nanos`; zero `nanos` count as one nanosecond.
    pub const fn new(count: u64, nanos: u64) -> Self {
        let nanos = if nanos == 0 { 1 } else { nanos };
        let (mut a, mut b) = (nanos, count);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self { count: count / a, nanos: nanos / a }
    }

    /// `count` per second.
    pub const fn per_second(count: u64) -> Self {
        Self::new(count, 1_000_000_000)
    }

    /// `floor(rate × span)`.
    pub const fn whole_units_in(&self, span: u64) -> u128 {
        span as u128 * self.count as u128 / self.nanos as u128
    }

    pub(crate) const fn count(&self) -> i128 {
        self.count as i128
    }

    pub(crate) const fn nanos(&self) -> i128 {
        self.nanos as i128
    }
}

/// Violated guarantee: the span and the excess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// First admission of the span, in nanoseconds.
    pub from: u64,
    /// Last admission of the span.
    pub to: u64,
    /// Cost admitted in the span (for departures: nanoseconds by which the last one was early).
    pub admitted: u128,
    /// Cost allowed in the span.
    pub allowed: u128,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, admitted, allowed } = self;
        let span = to.saturating_sub(*from);
        write!(f, "{admitted} admitted, {allowed} allowed: from {from} ns to {to} ns (a span of {span} ns)")
    }
}

impl std::error::Error for Violation {}

/// History in effective time: a backward clock step is replaced by a stall.
pub fn effective(history: &[AdmissionEvent]) -> Vec<AdmissionEvent> {
    let mut latest = 0;
    let clamp = |entry: &AdmissionEvent| {
        latest = entry.at.max(latest);
        AdmissionEvent { at: latest, ..*entry }
    };
    history.iter().map(clamp).collect()
}

fn by_time(history: &[AdmissionEvent]) -> Vec<AdmissionEvent> {
    let mut sorted = history.to_vec();
    sorted.sort_by_key(|entry| entry.at);
    sorted
}

/// Token bucket: at most `burst + floor(rate × span)` in any span of time, both ends included.
///
/// Checking all pairs is not necessary: multiplied out, the guarantee says that `total × nanos - count × at`
/// never rises more than `burst × nanos` above its lowest value so far.
pub fn token_bucket(history: &[AdmissionEvent], rate: ExactRate, burst: u64) -> Result<(), Violation> {
    let history = by_time(history);
    let Some(first) = history.first() else { return Ok(()) };
    let origin = i128::from(first.at);
    let (mut total, mut lowest, mut lowest_at, mut lowest_total) = (0i128, i128::MAX, first.at, 0i128);
    for entry in &history {
        let since = (i128::from(entry.at) - origin) * rate.count();
        let before = total * rate.nanos() - since;
        if before < lowest {
            (lowest, lowest_at, lowest_total) = (before, entry.at, total);
        }
        total += i128::from(entry.cost);
        if total * rate.nanos() - since - lowest > i128::from(burst) * rate.nanos() {
            let refilled = rate.whole_units_in(entry.at.saturating_sub(lowest_at));
            return Err(Violation {
                from: lowest_at,
                to: entry.at,
                admitted: (total - lowest_total).unsigned_abs(),
                allowed: u128::from(burst) + refilled,
            });
        }
    }
    Ok(())
}

/// Sliding log and sliding window: at most `limit` in any half-open span of one window.
pub fn any_window(history: &[AdmissionEvent], limit: u64, window: u64) -> Result<(), Violation> {
    let sorted = by_time(history);
    let (mut oldest, mut inside) = (0, 0u128);
    for newest in &sorted {
        inside += u128::from(newest.cost);
        while newest.at - sorted[oldest].at >= window {
            inside -= u128::from(sorted[oldest].cost);
            oldest += 1;
        }
        if inside > u128::from(limit) {
            let (from, to) = (sorted[oldest].at, newest.at);
            return Err(Violation { from, to, admitted: inside, allowed: u128::from(limit) });
        }
    }
    Ok(())
}

/// Fixed window: at most `limit` in each window. Windows begin at multiples of `window` after
/// `phase` is added to the clock.
pub fn aligned_window(history: &[AdmissionEvent], limit: u64, window: u64, phase: u64) -> Result<(), Violation> {
    let window_index = |at: u64| (u128::from(at) + u128::from(phase)) / u128::from(window);
    let sorted = by_time(history);
    for events in sorted.chunk_by(|a, b| window_index(a.at) == window_index(b.at)) {
        let admitted = events.iter().map(|entry| u128::from(entry.cost)).sum();
        if admitted > u128::from(limit) {
            let (from, to) = (events[0].at, events[events.len() - 1].at);
            return Err(Violation { from, to, admitted, allowed: u128::from(limit) });
        }
    }
    Ok(())
}

/// Leaky bucket and warm-up: departures are in the given order, and each is at least `cost / rate` after the
/// previous one, with the cost of the previous one. `at` is the departure time.
///
/// Departure times are whole nanoseconds and 1/rate may not be: each run of departures may be early by less
/// than one nanosecond in total, not one per departure.
pub fn departures(history: &[AdmissionEvent], rate: ExactRate) -> Result<(), Violation> {
    let Some(first) = history.first() else { return Ok(()) };
    let (origin, mut owed) = (i128::from(first.at), 0i128);
    let (mut lowest, mut from) = (i128::MAX, first.at);
    for entry in history {
        // Service time of all earlier departures minus elapsed time: a departure is early if this rises.
        let early = owed - (i128::from(entry.at) - origin) * rate.count();
        if early < lowest {
            (lowest, from) = (early, entry.at);
        }
        if early - lowest >= rate.count() {
            let nanos = (early - lowest) / rate.count();
            return Err(Violation { from, to: entry.at, admitted: nanos.unsigned_abs(), allowed: 0 });
        }
        owed += i128::from(entry.cost) * rate.nanos();
    }
    Ok(())
}

/// Time span during which a permit is held, end excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldInterval {
    /// Time of acquisition.
    pub from: u64,
    /// Time of release.
    pub until: u64,
    /// Number of permits.
    pub cost: u64,
}

/// Concurrency: never more than `limit` held at once.
pub fn concurrency(holds: &[HoldInterval], limit: u64) -> Result<(), Violation> {
    let mut changes: Vec<(u64, bool, u64)> = Vec::with_capacity(holds.len() * 2);
    for hold in holds.iter().filter(|hold| hold.from < hold.until) {
        changes.push((hold.from, true, hold.cost));
        changes.push((hold.until, false, hold.cost));
    }
    // At equal times a release comes before an acquisition: `false` sorts first.
    changes.sort_unstable();
    let mut in_use = 0u128;
    for (at, acquired, cost) in changes {
        if acquired {
            in_use += u128::from(cost);
        } else {
            in_use -= u128::from(cost);
        }
        if in_use > u128::from(limit) {
            return Err(Violation { from: at, to: at, admitted: in_use, allowed: u128::from(limit) });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arrivals::{ArrivalScale, strategy};

    fn history() -> impl Strategy<Value = Vec<AdmissionEvent>> {
        strategy::arrivals(ArrivalScale::window(1_000).with_max_cost(4), 0..=40)
            .prop_map(|arrivals| arrivals.iter().map(|it| AdmissionEvent { at: it.at, cost: it.cost }).collect())
    }

    /// Brute force over every pair, as the guarantee is defined.
    fn every_pair(history: &[AdmissionEvent], fits: impl Fn(&AdmissionEvent, &AdmissionEvent, i128) -> bool) -> bool {
        (0..history.len()).all(|first| {
            (first..history.len()).all(|last| {
                let sum = history[first..=last].iter().map(|entry| i128::from(entry.cost)).sum();
                fits(&history[first], &history[last], sum)
            })
        })
    }

    proptest! {
        #[test]
        fn bucket_checker_agrees_with_brute_force_over_pairs(history in history(), count in 1u64..50, burst in 1u64..40) {
            let naive = every_pair(&by_time(&history), |first, last, sum| {
                let span = i128::from(last.at) - i128::from(first.at);
                (sum - i128::from(burst)) * 1_000 <= i128::from(count) * span
            });
            prop_assert_eq!(token_bucket(&history, ExactRate::new(count, 1_000), burst).is_ok(), naive);
        }

        #[test]
        fn window_checker_agrees_with_brute_force_over_starts(history in history(), limit in 1u64..60) {
            let naive = history.iter().all(|start| {
                let inside = history.iter().filter(|entry| entry.at >= start.at && entry.at - start.at < 1_000);
                inside.map(|entry| entry.cost).sum::<u64>() <= limit
            });
            prop_assert_eq!(any_window(&history, limit, 1_000).is_ok(), naive);
        }

        #[test]
        fn departure_checker_agrees_with_brute_force_over_pairs(history in history(), count in 1u64..3_000) {
            let naive = every_pair(&history, |first, last, sum| {
                let ahead = sum - i128::from(last.cost);
                let span = i128::from(last.at) - i128::from(first.at);
                (span + 1) * i128::from(count) > ahead * 1_000 || std::ptr::eq(first, last)
            });
            prop_assert_eq!(departures(&history, ExactRate::new(count, 1_000)).is_ok(), naive);
        }
    }

    #[test]
    fn a_violation_reports_its_span() {
        let burst: Vec<_> = (0..12).map(|i| AdmissionEvent { at: 1_000 + i, cost: 1 }).collect();
        let violation = token_bucket(&burst, ExactRate::per_second(10), 10).unwrap_err();
        assert_eq!(violation, Violation { from: 1_000, to: 1_010, admitted: 11, allowed: 10 });
        assert!(violation.to_string().contains("11 admitted, 10 allowed"));
    }

    #[test]
    fn adjacent_full_windows_pass_but_an_overfull_window_fails() {
        let events = [AdmissionEvent { at: 999, cost: 5 }, AdmissionEvent { at: 1_000, cost: 5 }];
        assert!(aligned_window(&events, 5, 1_000, 0).is_ok());
        assert!(aligned_window(&events, 5, 1_000, 1).is_err());
        assert!(any_window(&events, 9, 1_000).is_err());
    }

    #[test]
    fn a_permit_released_at_an_instant_can_be_reacquired_at_it() {
        let hold = |from, until| HoldInterval { from, until, cost: 2 };
        assert!(concurrency(&[hold(0, 10), hold(10, 20), hold(5, 12)], 4).is_ok());
        assert!(concurrency(&[hold(0, 11), hold(10, 20), hold(5, 12)], 4).is_err());
    }
}
