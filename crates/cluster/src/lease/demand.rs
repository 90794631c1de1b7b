//! How much a node's callers ask of a key, and how large a slice that calls for.

use std::time::Duration;

use sluicegate_engine::Timestamp;

/// The pace is not measured over less.
const SHORTEST: u64 = 2_000_000;
/// What lies so far back counts half, where demand is falling.
const MEMORY: u64 = 50_000_000;

/// What callers ask for, whether they get it or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    since: Timestamp,
    asked: u64,
    /// How long a slice should last, and what is asked in that time.
    lasts: Duration,
    slice: u64,
}

impl Demand {
    pub(super) const fn new(now: Timestamp, lasts: Duration) -> Self {
        Self { since: now, asked: 0, lasts, slice: 0 }
    }

    #[inline]
    pub(super) const fn ask(&mut self, cost: u64) {
        self.asked = self.asked.saturating_add(cost);
    }

    /// How large a slice should be, given what was asked until `now`. Less than two is not worth a lease.
    pub(super) fn slice(&mut self, now: Timestamp) -> u64 {
        let elapsed = now.as_nanos().saturating_sub(self.since.as_nanos());
        if elapsed >= SHORTEST {
            let asked = u128::from(self.asked) * self.lasts.as_nanos() / u128::from(elapsed);
            let recent = u64::try_from(asked).unwrap_or(u64::MAX);
            self.slice = if recent >= self.slice {
                // Rising demand is followed fast: callers would wait otherwise.
                self.slice + (recent - self.slice).div_ceil(2)
            } else {
                let (old, new) =
                    (u128::from(MEMORY) * u128::from(self.slice), u128::from(elapsed) * u128::from(recent));
                u64::try_from((old + new) / u128::from(MEMORY + elapsed)).unwrap_or(u64::MAX)
            };
            (self.since, self.asked) = (now, 0);
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
        let mut go = |per_ten_ms: u64| {
            demand.ask(per_ten_ms);
            now = now + Duration::from_millis(10);
            demand.slice(now)
        };
        // 10,000 a second make 500 in 50 ms.
        let up: Vec<u64> = (0..10).map(|_| go(100)).collect();
        assert_eq!(up[0], 250);
        assert!(up[9] >= 498, "{up:?}");
        let down: Vec<u64> = (0..40).map(|_| go(0)).collect();
        assert!((350..450).contains(&down[0]), "{down:?}");
        assert_eq!(down[39], 0);
    }

    #[test]
    fn a_key_used_now_and_then_is_not_leased() {
        let mut now = Timestamp::ZERO;
        let mut demand = Demand::new(now, Duration::from_millis(50));
        for _ in 0..100 {
            demand.ask(1);
            now = now + Duration::from_millis(100);
            assert_eq!(demand.slice(now), 0);
        }
    }
}
