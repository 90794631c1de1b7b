//! Random jitter for intervals, so that many processes do not act in step.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Seeded pseudo-random numbers (xorshift).
#[derive(Clone, Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a seed that differs between processes.
    pub(super) fn random_seed() -> u64 {
        RandomState::new().hash_one(0)
    }

    /// Returns the interval times a random factor from 0.75 to 1.25.
    pub(super) fn around(&mut self, interval: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let share = (self.0 >> 11) as f64 / (1u64 << 53) as f64;
        interval.mul_f64(0.75 + share / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_stay_within_a_quarter_and_differ() {
        let mut jitter = Jitter::new(Jitter::random_seed());
        let intervals: Vec<f64> = (0..100).map(|_| jitter.around(Duration::from_secs(4)).as_secs_f64()).collect();
        assert!(intervals.iter().all(|it| (3.0..=5.0).contains(it)));
        assert!(intervals.iter().any(|it| *it < 3.5) && intervals.iter().any(|it| *it > 4.5));
    }
}
