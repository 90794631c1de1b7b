//! Which limits can be leased, and their numbers as the store counts them.

use std::time::Duration;

use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::algorithm::gcra::TICKS_PER_NANO;
use sluicegate_engine::fleet::is_leasable;
use smallvec::SmallVec;

/// Ticks that pass in a microsecond, the store's unit of time.
pub(crate) const TICKS_PER_MICRO: u64 = 1_000 * TICKS_PER_NANO;

/// Numbers stay below it, so that a few of them can be added in the store without rounding.
pub(super) const EXACT: u64 = 1 << 52;

/// The longest a node leaves the store in peace that had nothing to give.
const LONGEST_REST: Duration = Duration::from_millis(8);

/// How long a slice should last.
const SLICE_LASTS: Duration = Duration::from_millis(50);

/// Tokens that come this far apart or farther are waited for one by one.
const SLOW: u64 = 5_000 * TICKS_PER_MICRO;

/// One limit of a leased rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A token bucket: ticks per token, and tokens in a full one.
    Bucket { interval: u64, burst: u64 },
    /// A count in the current cell and the `cells` before it; a fixed window is its only cell. The cell's
    /// length is in microseconds.
    Window { limit: u64, cell: u64, cells: u64 },
}

impl Bound {
    fn of(limit: &Limit) -> Option<Self> {
        match limit {
            Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket) => {
                let bucket = bucket.gcra();
                let bound = Self::Bucket { interval: bucket.interval(), burst: bucket.burst() };
                (bucket.tolerance() < EXACT).then_some(bound)
            }
            Limit::SlidingWindow(window) => {
                let cells = u64::from(window.cells());
                let cell = whole_micros(window.window()).div_ceil(cells);
                (window.limit() < EXACT).then_some(Self::Window { limit: window.limit(), cell, cells })
            }
            Limit::FixedWindow(window) if window.alignment() == Alignment::Epoch => {
                let cell = whole_micros(window.window());
                (window.limit() < EXACT).then_some(Self::Window { limit: window.limit(), cell, cells: 0 })
            }
            _ => None,
        }
    }

    /// The most that can be had at once.
    pub(crate) const fn capacity(&self) -> u64 {
        match self {
            Self::Bucket { burst, .. } => *burst,
            Self::Window { limit, .. } => *limit,
        }
    }

    /// How long a cell is, if there are any.
    const fn cell(&self) -> Option<Duration> {
        match self {
            Self::Bucket { .. } => None,
            Self::Window { cell, .. } => Some(Duration::from_micros(*cell)),
        }
    }

    /// Nanoseconds from empty to full.
    const fn fill(&self) -> u64 {
        match self {
            Self::Bucket { interval, burst } => interval.saturating_mul(*burst) / TICKS_PER_NANO,
            Self::Window { cell, cells, .. } => cell.saturating_mul(*cells + 1).saturating_mul(1_000),
        }
    }
}

fn whole_micros(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// The limits of a rule that can be leased. See the [module's head](super).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leasable {
    bounds: SmallVec<[Bound; 2]>,
    capacity: u64,
    rest: Duration,
    hold: Duration,
    slice_lasts: Duration,
}

impl Leasable {
    /// The limits as leases know them; `None` if one of them cannot be leased and the rule has to run exact.
    ///
    /// Leased are token buckets that fill within three days, strict sliding windows, and fixed windows
    /// that begin where the calendar has them.
    pub(crate) fn of(limits: &[Limit]) -> Option<Self> {
        if !limits.iter().all(is_leasable) {
            return None;
        }
        let bounds: SmallVec<[Bound; 2]> = limits.iter().map(Bound::of).collect::<Option<_>>()?;
        let capacity = bounds.iter().map(Bound::capacity).min()?;
        let fill = bounds.iter().map(Bound::fill).min()?;
        let rest = Duration::from_nanos(fill / 16).min(LONGEST_REST);
        let trickles = bounds.iter().any(|bound| matches!(bound, Bound::Bucket { interval, .. } if *interval < SLOW));
        let hold = if trickles { rest } else { Duration::ZERO };
        let slice_lasts = bounds.iter().filter_map(Bound::cell).map(|cell| cell / 8).fold(SLICE_LASTS, Duration::min);
        Some(Self { bounds, capacity, rest, hold, slice_lasts })
    }

    /// The limits, in the order given.
    pub(crate) fn bounds(&self) -> &[Bound] {
        &self.bounds
    }

    /// The most that all limits together can give at once: whoever wants more never gets it.
    pub(crate) const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// For how long a node does not fetch ahead once it found nothing: so short that no limit fills up
    /// meanwhile.
    pub(crate) const fn rest(&self) -> Duration {
        self.rest
    }

    /// For how long callers are refused on the node that the store has refused, given how long it says that
    /// nothing will come. Where tokens trickle in faster than a request travels, asking for each would
    /// keep the store busy with refusals.
    pub(crate) fn hold(&self, wait: Duration) -> Duration {
        wait.min(LONGEST_REST).max(self.hold)
    }

    /// How long a slice should last: long enough to spare the store, and short against the cells of a
    /// window, for what is spent counts from when it is reported.
    pub(crate) const fn slice_lasts(&self) -> Duration {
        self.slice_lasts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_engine::Rate;

    #[test]
    fn what_can_be_leased() {
        let second = Duration::from_secs(1);
        let bucket = Limit::token_bucket(Rate::per_second(10).unwrap(), 20).unwrap();
        let sliding: Limit = "300/1m".parse().unwrap();
        let fixed = Limit::fixed_window(7, second, Alignment::Epoch).unwrap();
        let leased = Leasable::of(&[bucket, sliding, fixed]).unwrap();
        let bounds = [
            Bound::Bucket { interval: 1_600_000_000, burst: 20 },
            Bound::Window { limit: 300, cell: 6_000_000, cells: 10 },
            Bound::Window { limit: 7, cell: 1_000_000, cells: 0 },
        ];
        assert_eq!(leased.bounds(), bounds);
        assert_eq!(leased.capacity(), 7);
        assert_eq!(leased.rest(), Duration::from_millis(8));
        assert_eq!(leased.hold(Duration::from_millis(3)), Duration::from_millis(3));
    }

    #[test]
    fn what_runs_exact() {
        let second = Duration::from_secs(1);
        let bucket = Limit::token_bucket(Rate::per_second(10).unwrap(), 20).unwrap();
        let slow = Limit::token_bucket(Rate::new(1, Duration::from_secs(86_400)).unwrap(), 4).unwrap();
        let others = [
            Limit::sliding_log(5, second),
            Limit::interpolated_window(5, second),
            Limit::leaky_bucket(Rate::per_second(1).unwrap(), 5),
            Limit::warm_up(Rate::per_second(100).unwrap(), second, 3),
            Limit::concurrency(5),
            Limit::fixed_window(5, second, Alignment::FirstUse),
            Ok(slow),
        ];
        for other in others {
            assert_eq!(Leasable::of(&[bucket, other.unwrap()]), None);
        }
        assert_eq!(Leasable::of(&[]), None);
    }
}
