//! Random jitter for intervals, so that many processes do not act in step.

use std::time::Duration;

use fastrand::Rng;

/// Seeded pseudo-random numbers.
#[derive(Clone, Debug)]
pub(super) struct Jitter(Rng);

impl Jitter {
    pub(super) const fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// Returns the interval times a random factor from 0.75 to 1.25.
    pub(super) fn around(&mut self, interval: Duration) -> Duration {
        interval.mul_f64(0.75 + self.0.f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_stay_within_a_quarter_and_differ() {
        let mut jitter = Jitter::new(fastrand::u64(..));
        let intervals: Vec<f64> = (0..100).map(|_| jitter.around(Duration::from_secs(4)).as_secs_f64()).collect();
        assert!(intervals.iter().all(|it| (3.0..=5.0).contains(it)));
        assert!(intervals.iter().any(|it| *it < 3.5) && intervals.iter().any(|it| *it > 4.5));
    }
}
