//! How much work a request is.

use super::chance::Chance;

/// Seconds of work that a request is, alone on an idle server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Mostly little, sometimes much.
    Exponential {
        /// On average.
        mean: f64,
    },
    /// Either little or much.
    Bimodal {
        /// The little.
        short: f64,
        /// The much.
        long: f64,
        /// How many are much.
        share: f64,
    },
    /// Always the same.
    Fixed(f64),
}

impl Work {
    /// On average.
    pub const fn mean(&self) -> f64 {
        match *self {
            Self::Exponential { mean } | Self::Fixed(mean) => mean,
            Self::Bimodal { short, long, share } => short * (1.0 - share) + long * share,
        }
    }

    pub(super) fn draw(&self, chance: &mut Chance) -> f64 {
        match *self {
            Self::Exponential { mean } => mean * chance.exponential(),
            Self::Bimodal { short, long, share } => {
                if chance.share() <= share {
                    long
                } else {
                    short
                }
            }
            Self::Fixed(mean) => mean,
        }
    }
}

/// By how much longer everything takes than usual, from which second on.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace(Vec<(f64, f64)>);

impl Pace {
    /// As usual.
    pub const fn usual() -> Self {
        Self(Vec::new())
    }

    /// So many times longer from this second on.
    pub fn slower_from(at: f64, times: f64) -> Self {
        Self(vec![(at, times)])
    }

    /// So many times longer until this second.
    pub fn slower_until(at: f64, times: f64) -> Self {
        Self(vec![(0.0, times), (at, 1.0)])
    }

    /// So many times longer in between.
    pub fn slower_between(from: f64, to: f64, times: f64) -> Self {
        Self(vec![(from, times), (to, 1.0)])
    }

    /// How many times longer at this moment.
    pub fn at(&self, seconds: f64) -> f64 {
        let after = self.0.partition_point(|it| it.0 <= seconds);
        self.0.get(after.wrapping_sub(1)).map_or(1.0, |it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_has_its_mean() {
        for work in [
            Work::Exponential { mean: 0.02 },
            Work::Bimodal { short: 0.005, long: 0.1, share: 0.05 },
            Work::Fixed(0.01),
        ] {
            let mut chance = Chance::new(5, 9);
            let mean = (0..200_000).map(|_| work.draw(&mut chance)).sum::<f64>() / 2e5;
            assert!((mean / work.mean() - 1.0).abs() < 0.02, "{work:?}: {mean}");
        }
    }

    #[test]
    fn a_pace_changes_when_it_says() {
        let pace = Pace::slower_between(10.0, 20.0, 3.0);
        assert_eq!([0.0, 10.0, 19.9, 20.0].map(|at| pace.at(at)), [1.0, 3.0, 3.0, 1.0]);
        assert_eq!(Pace::usual().at(5.0), 1.0);
    }
}
