//! Endless seeded arrival streams.

use super::{Arrival, ArrivalScale};

/// SplitMix64 random number generator: seeded, portable, identical on every machine.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Generator for this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform number below `end`; 0 if `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.bits() as u128 * end as u128) >> 64) as u64
    }

    /// Approximately exponential waiting time with this mean, as between independent arrivals.
    ///
    /// Uses integers only, so every machine agrees. The leading zeros of random bits are geometric;
    /// interpolating uniformly between halvings comes within a few percent of the exponential.
    pub const fn gap(&mut self, mean: u64) -> u64 {
        let halvings = self.bits().leading_zeros() as u64;
        // ln 2 = 0.693: each halving of the survival probability takes this share of the mean.
        let half_life = mean as u128 * 693 / 1_000;
        let within = self.below(1_000) as u128;
        let gap = half_life * (halvings as u128 * 1_000 + within) / 1_000;
        if gap > u64::MAX as u128 { u64::MAX } else { gap as u64 }
    }
}

/// Distribution of arrival times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Equal gaps.
    Steady,
    /// Independent arrivals (Poisson process).
    Poisson,
    /// Bursts just before and just after every window edge: the weak spot of the fixed window.
    Edges,
    /// Bursts at single instants with long pauses in between.
    Bursts,
    /// Random, on a clock that stalls, jumps ahead by whole windows and steps back.
    UnsteadyClock,
}

impl Pattern {
    /// All patterns.
    pub const ALL: [Self; 5] = [Self::Steady, Self::Poisson, Self::Edges, Self::Bursts, Self::UnsteadyClock];
}

/// Endless arrival iterator. See the [module documentation](super).
#[derive(Clone, Debug)]
pub struct ArrivalStream {
    random: SplitMix64,
    pattern: Pattern,
    scale: ArrivalScale,
    now: u64,
}

impl ArrivalStream {
    /// Arrivals for this seed.
    pub const fn new(seed: u64, pattern: Pattern, scale: ArrivalScale) -> Self {
        Self { random: SplitMix64::new(seed), pattern, scale, now: scale.start }
    }

    fn next_time(&mut self) -> u64 {
        let (now, gap, window) = (self.now, self.scale.gap(), self.scale.window);
        match self.pattern {
            Pattern::Steady => now.saturating_add(gap),
            Pattern::Poisson => now.saturating_add(self.random.gap(gap)),
            Pattern::Edges => match self.random.below(self.scale.per_window.max(2)) {
                0 => self.scale.edge_after(now).saturating_sub(1),
                1 => self.scale.edge_after(now),
                _ => now.saturating_add(self.random.below(2)),
            },
            Pattern::Bursts => match self.random.below(2 * self.scale.per_window.max(1)) {
                0 => now.saturating_add(self.random.gap(window)),
                _ => now,
            },
            Pattern::UnsteadyClock => match self.random.below(16) {
                0..=3 => now,
                4 => now.saturating_add(self.random.below(window.saturating_mul(4))),
                5 => now.saturating_sub(self.random.below(gap.saturating_mul(4))),
                6 => now.saturating_sub(self.random.below(window.saturating_mul(2))),
                7 => self.scale.edge_after(now).saturating_sub(self.random.below(3)),
                _ => now.saturating_add(self.random.gap(gap)),
            },
        }
    }

    fn next_cost(&mut self) -> u64 {
        let cost = self.scale.max_cost.max(1);
        match self.random.below(32) {
            0 => 0,
            1 => cost.saturating_mul(2).saturating_add(1),
            2..=15 => 1,
            _ => 1 + self.random.below(cost),
        }
    }
}

impl Iterator for ArrivalStream {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        self.now = self.next_time();
        Some(Arrival { at: self.now, cost: self.next_cost() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_arrivals() {
        for pattern in Pattern::ALL {
            let scale = ArrivalScale::window(1_000_000).with_max_cost(5);
            let first: Vec<_> = ArrivalStream::new(42, pattern, scale).take(1_000).collect();
            let again: Vec<_> = ArrivalStream::new(42, pattern, scale).take(1_000).collect();
            let other: Vec<_> = ArrivalStream::new(43, pattern, scale).take(1_000).collect();
            assert_eq!(first, again);
            assert_ne!(first, other);
        }
    }

    #[test]
    fn random_gaps_have_the_requested_mean() {
        let mut random = SplitMix64::new(1);
        let total: u64 = (0..100_000).map(|_| random.gap(1_000)).sum();
        assert!((900..1_100).contains(&(total / 100_000)), "{}", total / 100_000);
    }

    #[test]
    fn only_the_unsteady_clock_steps_back() {
        for pattern in Pattern::ALL {
            let times: Vec<_> =
                ArrivalStream::new(3, pattern, ArrivalScale::window(1_000_000)).map(|a| a.at).take(2_000).collect();
            assert_eq!(times.is_sorted(), pattern != Pattern::UnsteadyClock, "{pattern:?}");
        }
    }
}
