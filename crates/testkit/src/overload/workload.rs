//! Workload models: service time per request and server slowdown.

use super::rng::SimRng;

/// Service time of a request in seconds, alone on an idle server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Exponential distribution.
    Exponential {
        /// Mean in seconds.
        mean: f64,
    },
    /// Two fixed values.
    Bimodal {
        /// Service time of a short request.
        short: f64,
        /// Service time of a long request.
        long: f64,
        /// Share of long requests.
        share: f64,
    },
    /// Constant value.
    Fixed(f64),
}

impl Workload {
    /// Mean service time in seconds.
    pub const fn mean(&self) -> f64 {
        match *self {
            Self::Exponential { mean } | Self::Fixed(mean) => mean,
            Self::Bimodal { short, long, share } => short * (1.0 - share) + long * share,
        }
    }

    pub(super) fn sample(&self, rng: &mut SimRng) -> f64 {
        match *self {
            Self::Exponential { mean } => mean * rng.exponential(),
            Self::Bimodal { short, long, share } => {
                if rng.uniform() <= share {
                    long
                } else {
                    short
                }
            }
            Self::Fixed(mean) => mean,
        }
    }
}

/// Slowdown factor of the server over time, as `(from second, factor)` steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowdown(Vec<(f64, f64)>);

impl Slowdown {
    /// No slowdown.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Slower by `factor` from second `at` on.
    pub fn slower_from(at: f64, factor: f64) -> Self {
        Self(vec![(at, factor)])
    }

    /// Slower by `factor` until second `at`.
    pub fn slower_until(at: f64, factor: f64) -> Self {
        Self(vec![(0.0, factor), (at, 1.0)])
    }

    /// Slower by `factor` between two times, in seconds.
    pub fn slower_between(from: f64, to: f64, factor: f64) -> Self {
        Self(vec![(from, factor), (to, 1.0)])
    }

    /// Slowdown factor at a given second.
    pub fn at(&self, seconds: f64) -> f64 {
        let after = self.0.partition_point(|it| it.0 <= seconds);
        self.0.get(after.wrapping_sub(1)).map_or(1.0, |it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampled_work_has_the_configured_mean() {
        for workload in [
            Workload::Exponential { mean: 0.02 },
            Workload::Bimodal { short: 0.005, long: 0.1, share: 0.05 },
            Workload::Fixed(0.01),
        ] {
            let mut rng = SimRng::new(5, 9);
            let mean = (0..200_000).map(|_| workload.sample(&mut rng)).sum::<f64>() / 2e5;
            assert!((mean / workload.mean() - 1.0).abs() < 0.02, "{workload:?}: {mean}");
        }
    }

    #[test]
    fn a_slowdown_applies_only_within_its_span() {
        let slowdown = Slowdown::slower_between(10.0, 20.0, 3.0);
        assert_eq!([0.0, 10.0, 19.9, 20.0].map(|at| slowdown.at(at)), [1.0, 3.0, 3.0, 1.0]);
        assert_eq!(Slowdown::none().at(5.0), 1.0);
    }
}
