//! Lease parameters: the limits that can be leased, in the store's units.

use std::time::Duration;

use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::LeaseForm;
use sluicegate_engine::algorithm::gcra::TICKS_PER_NANO;
use sluicegate_engine::algorithm::store_form::ceil_micros;
use sluicegate_engine::store::is_leasable;
use smallvec::SmallVec;

/// Ticks per microsecond, the store's unit of time.
pub(crate) const TICKS_PER_MICRO: u64 = 1_000 * TICKS_PER_NANO;

/// Upper bound of numbers, so that a few of them can be added in the store without rounding.
pub(super) const MAX_EXACT: u64 = 1 << 52;

/// Maximum pause of requests to a store that had nothing to grant.
const MAX_PREFETCH_PAUSE: Duration = Duration::from_millis(8);

/// Target duration of a slice.
const SLICE_DURATION: Duration = Duration::from_millis(50);

/// Tokens at this interval or slower are waited for one by one.
const SLOW_INTERVAL_TICKS: u64 = 5_000 * TICKS_PER_MICRO;

/// One limit of a leased rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseLimit {
    /// A token bucket: ticks per token, and the burst in tokens.
    Bucket { interval: u64, burst: u64 },
    /// A count in the current cell and the `cells` before it; a fixed window has a single cell. The cell
    /// length is in microseconds.
    Window { limit: u64, cell: u64, cells: u64 },
}

impl LeaseLimit {
    fn from_limit(limit: &Limit) -> Option<Self> {
        let (bound, size) = match limit.lease_form()? {
            LeaseForm::Bucket(bucket) => {
                (Self::Bucket { interval: bucket.interval(), burst: bucket.burst() }, bucket.tolerance())
            }
            LeaseForm::Window { limit, window, cells } => {
                let cells = u64::from(cells);
                let cell = ceil_micros(window).div_ceil(cells.max(1));
                (Self::Window { limit, cell, cells }, limit)
            }
        };
        (size < MAX_EXACT).then_some(bound)
    }

    /// The largest cost that can fit.
    pub(crate) const fn capacity(&self) -> u64 {
        match self {
            Self::Bucket { burst, .. } => *burst,
            Self::Window { limit, .. } => *limit,
        }
    }

    /// The cell length, for windows.
    const fn cell(&self) -> Option<Duration> {
        match self {
            Self::Bucket { .. } => None,
            Self::Window { cell, .. } => Some(Duration::from_micros(*cell)),
        }
    }

    /// Nanoseconds from empty to full.
    const fn fill_nanos(&self) -> u64 {
        match self {
            Self::Bucket { interval, burst } => interval.saturating_mul(*burst) / TICKS_PER_NANO,
            Self::Window { cell, cells, .. } => cell.saturating_mul(*cells + 1).saturating_mul(1_000),
        }
    }
}

/// Parameters of a rule's leasable limits. See the [module documentation](super).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseParams {
    limits: SmallVec<[LeaseLimit; 2]>,
    capacity: u64,
    prefetch_pause: Duration,
    min_refusal_time: Duration,
    slice_duration: Duration,
}

impl LeaseParams {
    /// Lease parameters of these limits; `None` if one of them cannot be leased and the rule has to run exact.
    ///
    /// Leasable are token buckets that fill within three days, strict sliding windows, and fixed windows
    /// aligned to the epoch.
    pub(crate) fn from_limits(limits: &[Limit]) -> Option<Self> {
        if !limits.iter().all(is_leasable) {
            return None;
        }
        let bounds: SmallVec<[LeaseLimit; 2]> = limits.iter().map(LeaseLimit::from_limit).collect::<Option<_>>()?;
        let capacity = bounds.iter().map(LeaseLimit::capacity).min()?;
        let fill = bounds.iter().map(LeaseLimit::fill_nanos).min()?;
        let pause = Duration::from_nanos(fill / 16).min(MAX_PREFETCH_PAUSE);
        let trickles = bounds
            .iter()
            .any(|bound| matches!(bound, LeaseLimit::Bucket { interval, .. } if *interval < SLOW_INTERVAL_TICKS));
        let hold = if trickles { pause } else { Duration::ZERO };
        let slice_duration =
            bounds.iter().filter_map(LeaseLimit::cell).map(|cell| cell / 8).fold(SLICE_DURATION, Duration::min);
        Some(Self { limits: bounds, capacity, prefetch_pause: pause, min_refusal_time: hold, slice_duration })
    }

    /// The limits, in the given order.
    pub(crate) fn limits(&self) -> &[LeaseLimit] {
        &self.limits
    }

    /// The largest cost that all limits together can admit; a higher cost never fits.
    pub(crate) const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Time without prefetch after an empty grant: short enough that no limit fills up
    /// meanwhile.
    pub(crate) const fn prefetch_pause(&self) -> Duration {
        self.prefetch_pause
    }

    /// Time for which a refusal is cached on the node, given the wait reported by the store. If tokens arrive
    /// faster than a request travels, asking for each of them would keep the store busy with refusals.
    pub(crate) fn refusal_cache_time(&self, wait: Duration) -> Duration {
        wait.min(MAX_PREFETCH_PAUSE).max(self.min_refusal_time)
    }

    /// Target duration of a slice: long enough to spare the store, and short relative to the cells of a
    /// window, because spending counts from its report.
    pub(crate) const fn slice_duration(&self) -> Duration {
        self.slice_duration
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_engine::Rate;
    use sluicegate_engine::algorithm::Alignment;

    #[test]
    fn leasable_limits_are_accepted() {
        let second = Duration::from_secs(1);
        let bucket = Limit::token_bucket(Rate::per_second(10).unwrap(), 20).unwrap();
        let sliding: Limit = "300/1m".parse().unwrap();
        let fixed = Limit::fixed_window(7, second, Alignment::Epoch).unwrap();
        let leased = LeaseParams::from_limits(&[bucket, sliding, fixed]).unwrap();
        let bounds = [
            LeaseLimit::Bucket { interval: 1_600_000_000, burst: 20 },
            LeaseLimit::Window { limit: 300, cell: 6_000_000, cells: 10 },
            LeaseLimit::Window { limit: 7, cell: 1_000_000, cells: 0 },
        ];
        assert_eq!(leased.limits(), bounds);
        assert_eq!(leased.capacity(), 7);
        assert_eq!(leased.prefetch_pause(), Duration::from_millis(8));
        assert_eq!(leased.refusal_cache_time(Duration::from_millis(3)), Duration::from_millis(3));
    }

    #[test]
    fn other_limits_run_exact() {
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
            assert_eq!(LeaseParams::from_limits(&[bucket, other.unwrap()]), None);
        }
        assert_eq!(LeaseParams::from_limits(&[]), None);
    }
}
