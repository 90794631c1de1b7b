//! Was the promise kept? Exact answers from nothing but what was admitted.
//!
//! Every checker takes admissions, each with the time *as the limiter's clock showed it*, and says which
//! span broke the promise. Fractions are compared by multiplying out
//! in 128 bits: there is no rounding and no tolerance. All run in O(n log n) or better.
//!
//! A clock that steps back needs a word. Where a mode promises to stay in the window it was in, its
//! history is to be read in [`effective`] time: a step back counts as a clock that stood still.
//! The token bucket and the sliding log keep their promise even in the raw times.

use std::fmt;

/// One admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// When, in nanoseconds.
    pub at: u64,
    /// How much.
    pub cost: u64,
}

/// A rate as an exact fraction: so many per so many nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    count: u64,
    nanos: u64,
}

impl Pace {
    /// `count` per `nanos`; a pace of zero time is taken as one of a nanosecond.
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
    pub const fn whole_in(&self, span: u64) -> u128 {
        span as u128 * self.count as u128 / self.nanos as u128
    }

    pub(crate) const fn count(&self) -> i128 {
        self.count as i128
    }

    pub(crate) const fn nanos(&self) -> i128 {
        self.nanos as i128
    }
}

/// A broken promise: the span it was broken in, and by how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// First admission of the span, in nanoseconds.
    pub from: u64,
    /// Last admission of the span.
    pub to: u64,
    /// What was admitted in it (or, for departures, how early the last one was).
    pub admitted: u128,
    /// What may be.
    pub allowed: u128,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, admitted, allowed } = self;
        let span = to.saturating_sub(*from);
        write!(f, "{admitted} admitted where {allowed} may be: from {from} ns to {to} ns (a span of {span} ns)")
    }
}

impl std::error::Error for Violation {}

/// The history as a limiter reads it that takes a step back for a stall.
pub fn effective(history: &[Admitted]) -> Vec<Admitted> {
    let mut latest = 0;
    let stand = |entry: &Admitted| {
        latest = entry.at.max(latest);
        Admitted { at: latest, ..*entry }
    };
    history.iter().map(stand).collect()
}

fn by_time(history: &[Admitted]) -> Vec<Admitted> {
    let mut sorted = history.to_vec();
    sorted.sort_by_key(|entry| entry.at);
    sorted
}

/// Token bucket: in any span of time at most `burst + floor(rate × span)`, both ends included.
///
/// Pairs need not be tried one by one: multiplied out, the promise is that `total × nanos - count × at`
/// never rises more than `burst × nanos` above its lowest point so far.
pub fn token_bucket(history: &[Admitted], pace: Pace, burst: u64) -> Result<(), Violation> {
    let history = by_time(history);
    let Some(first) = history.first() else { return Ok(()) };
    let origin = i128::from(first.at);
    let (mut total, mut lowest, mut lowest_at, mut total_there) = (0i128, i128::MAX, first.at, 0i128);
    for entry in &history {
        let since = (i128::from(entry.at) - origin) * pace.count();
        let before = total * pace.nanos() - since;
        if before < lowest {
            (lowest, lowest_at, total_there) = (before, entry.at, total);
        }
        total += i128::from(entry.cost);
        if total * pace.nanos() - since - lowest > i128::from(burst) * pace.nanos() {
            let refilled = pace.whole_in(entry.at.saturating_sub(lowest_at));
            return Err(Violation {
                from: lowest_at,
                to: entry.at,
                admitted: (total - total_there).unsigned_abs(),
                allowed: u128::from(burst) + refilled,
            });
        }
    }
    Ok(())
}

/// Sliding log and sliding window: at most `limit` in any half-open span of one window.
pub fn any_window(history: &[Admitted], limit: u64, window: u64) -> Result<(), Violation> {
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

/// Fixed window: at most `limit` in each window that begins at a whole multiple of `window` when
/// `phase` is added to the clock.
pub fn aligned_window(history: &[Admitted], limit: u64, window: u64, phase: u64) -> Result<(), Violation> {
    let number = |at: u64| (u128::from(at) + u128::from(phase)) / u128::from(window);
    let sorted = by_time(history);
    for one in sorted.chunk_by(|a, b| number(a.at) == number(b.at)) {
        let admitted = one.iter().map(|entry| u128::from(entry.cost)).sum();
        if admitted > u128::from(limit) {
            let (from, to) = (one[0].at, one[one.len() - 1].at);
            return Err(Violation { from, to, admitted, allowed: u128::from(limit) });
        }
    }
    Ok(())
}

/// Leaky bucket and warm-up: in the order given, and each departure at least `cost / rate` after the one before
/// it, `cost` being that of the earlier one. `at` is the departure.
///
/// A departure is known to the nanosecond and 1/rate may end between two: every run of departures may
/// be short by less than one nanosecond in all, not one each.
pub fn departures(history: &[Admitted], pace: Pace) -> Result<(), Violation> {
    let Some(first) = history.first() else { return Ok(()) };
    let (origin, mut owed) = (i128::from(first.at), 0i128);
    let (mut lowest, mut from) = (i128::MAX, first.at);
    for entry in history {
        // The time those ahead take, less the time that has passed: too early where it rises.
        let early = owed - (i128::from(entry.at) - origin) * pace.count();
        if early < lowest {
            (lowest, from) = (early, entry.at);
        }
        if early - lowest >= pace.count() {
            let nanos = (early - lowest) / pace.count();
            return Err(Violation { from, to: entry.at, admitted: nanos.unsigned_abs(), allowed: 0 });
        }
        owed += i128::from(entry.cost) * pace.nanos();
    }
    Ok(())
}

/// Something held from one moment until another, the end not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Taken at.
    pub from: u64,
    /// Given back at.
    pub until: u64,
    /// How much.
    pub cost: u64,
}

/// Concurrency: never more than `limit` held at once.
pub fn concurrency(holds: &[Held], limit: u64) -> Result<(), Violation> {
    let mut changes: Vec<(u64, bool, u64)> = Vec::with_capacity(holds.len() * 2);
    for hold in holds.iter().filter(|hold| hold.from < hold.until) {
        changes.push((hold.from, true, hold.cost));
        changes.push((hold.until, false, hold.cost));
    }
    // At one moment what is given back comes before what is taken: `false` sorts first.
    changes.sort_unstable();
    let mut out = 0u128;
    for (at, taken, cost) in changes {
        if taken {
            out += u128::from(cost);
        } else {
            out -= u128::from(cost);
        }
        if out > u128::from(limit) {
            return Err(Violation { from: at, to: at, admitted: out, allowed: u128::from(limit) });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arrivals::{Scale, strategy};

    fn history() -> impl Strategy<Value = Vec<Admitted>> {
        strategy::arrivals(Scale::window(1_000).costing(4), 0..=40)
            .prop_map(|all| all.iter().map(|one| Admitted { at: one.at, cost: one.cost }).collect())
    }

    /// Every pair, as the promise is written.
    fn every_pair(history: &[Admitted], fits: impl Fn(&Admitted, &Admitted, i128) -> bool) -> bool {
        (0..history.len()).all(|first| {
            (first..history.len()).all(|last| {
                let sum = history[first..=last].iter().map(|entry| i128::from(entry.cost)).sum();
                fits(&history[first], &history[last], sum)
            })
        })
    }

    proptest! {
        #[test]
        fn the_bucket_checker_agrees_with_trying_every_pair(history in history(), count in 1u64..50, burst in 1u64..40) {
            let naive = every_pair(&by_time(&history), |first, last, sum| {
                let span = i128::from(last.at) - i128::from(first.at);
                (sum - i128::from(burst)) * 1_000 <= i128::from(count) * span
            });
            prop_assert_eq!(token_bucket(&history, Pace::new(count, 1_000), burst).is_ok(), naive);
        }

        #[test]
        fn the_window_checker_agrees_with_trying_every_start(history in history(), limit in 1u64..60) {
            let naive = history.iter().all(|start| {
                let inside = history.iter().filter(|entry| entry.at >= start.at && entry.at - start.at < 1_000);
                inside.map(|entry| entry.cost).sum::<u64>() <= limit
            });
            prop_assert_eq!(any_window(&history, limit, 1_000).is_ok(), naive);
        }

        #[test]
        fn the_departure_checker_agrees_with_trying_every_pair(history in history(), count in 1u64..3_000) {
            let naive = every_pair(&history, |first, last, sum| {
                let ahead = sum - i128::from(last.cost);
                let span = i128::from(last.at) - i128::from(first.at);
                (span + 1) * i128::from(count) > ahead * 1_000 || std::ptr::eq(first, last)
            });
            prop_assert_eq!(departures(&history, Pace::new(count, 1_000)).is_ok(), naive);
        }
    }

    #[test]
    fn a_violation_names_its_span() {
        let burst: Vec<_> = (0..12).map(|i| Admitted { at: 1_000 + i, cost: 1 }).collect();
        let violation = token_bucket(&burst, Pace::per_second(10), 10).unwrap_err();
        assert_eq!(violation, Violation { from: 1_000, to: 1_010, admitted: 11, allowed: 10 });
        assert!(violation.to_string().contains("11 admitted where 10 may be"));
    }

    #[test]
    fn two_full_windows_may_meet_but_one_may_not_overflow() {
        let seam = [Admitted { at: 999, cost: 5 }, Admitted { at: 1_000, cost: 5 }];
        assert!(aligned_window(&seam, 5, 1_000, 0).is_ok());
        assert!(aligned_window(&seam, 5, 1_000, 1).is_err());
        assert!(any_window(&seam, 9, 1_000).is_err());
    }

    #[test]
    fn what_is_given_back_at_a_moment_can_be_taken_at_it() {
        let hold = |from, until| Held { from, until, cost: 2 };
        assert!(concurrency(&[hold(0, 10), hold(10, 20), hold(5, 12)], 4).is_ok());
        assert!(concurrency(&[hold(0, 11), hold(10, 20), hold(5, 12)], 4).is_err());
    }
}
