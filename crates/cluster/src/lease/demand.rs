//! Demand estimate of a node for one key, and the slice size it calls for.

use std::time::Duration;

use sluicegate_engine::Timestamp;

/// Minimum interval for a rate measurement.
const MIN_INTERVAL_NANOS: u64 = 2_000_000;
/// Half-life of the estimate while demand is falling.
const HALF_LIFE_NANOS: u64 = 50_000_000;

/// Demand of callers, admitted or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    since: Timestamp,
    requested: u64,
    /// Target duration of a slice, and the demand in that time.
    slice_duration: Duration,
    slice: u64,
}

impl Demand {
    pub(super) const fn new(now: Timestamp, slice_duration: Duration) -> Self {
        Self { since: now, requested: 0, slice_duration, slice: 0 }
    }

    #[inline]
    pub(super) const fn record(&mut self, cost: u64) {
        self.requested = self.requested.saturating_add(cost);
    }

    /// The slice size for the demand until `now`. Less than two is not worth a lease.
    pub(super) fn slice(&mut self, now: Timestamp) -> u64 {
        let elapsed = now.as_nanos().saturating_sub(self.since.as_nanos());
        if elapsed >= MIN_INTERVAL_NANOS {
            let scaled = u128::from(self.requested) * self.slice_duration.as_nanos() / u128::from(elapsed);
            let recent = u64::try_from(scaled).unwrap_or(u64::MAX);
            self.slice = if recent >= self.slice {
                // Rising demand is followed fast: callers would wait otherwise.
                self.slice + (recent - self.slice).div_ceil(2)
            } else {
                let (old, new) =
                    (u128::from(HALF_LIFE_NANOS) * u128::from(self.slice), u128::from(elapsed) * u128::from(recent));
                u64::try_from((old + new) / u128::from(HALF_LIFE_NANOS + elapsed)).unwrap_or(u64::MAX)
            };
            (self.since, self.requested) = (now, 0);
        }
        if self.slice < 2 { 0 } else { self.slice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_demand_up_fast_and_down_slowly() {
        let mut now = Timestamp::from_nanos(1_000_000_000_000);
        let mut demand = Demand::new(now, Duration::from_millis(50));
        let mut step = |per_ten_ms: u64| {
            demand.record(per_ten_ms);
            now = now + Duration::from_millis(10);
            demand.slice(now)
        };
        // 10,000 per second are 500 in 50 ms.
        let up: Vec<u64> = (0..10).map(|_| step(100)).collect();
        assert_eq!(up[0], 250);
        assert!(up[9] >= 498, "{up:?}");
        let down: Vec<u64> = (0..40).map(|_| step(0)).collect();
        assert!((350..450).contains(&down[0]), "{down:?}");
        assert_eq!(down[39], 0);
    }

    #[test]
    fn a_rarely_used_key_is_not_leased() {
        let mut now = Timestamp::ZERO;
        let mut demand = Demand::new(now, Duration::from_millis(50));
        for _ in 0..100 {
            demand.record(1);
            now = now + Duration::from_millis(100);
            assert_eq!(demand.slice(now), 0);
        }
    }
}
