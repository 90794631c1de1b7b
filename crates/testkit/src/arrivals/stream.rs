//! Endless seeded arrival streams.

use super::{Arrival, ArrivalScale};
use crate::random::SplitMix64;

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
    fn only_the_unsteady_clock_steps_back() {
        for pattern in Pattern::ALL {
            let times: Vec<_> =
                ArrivalStream::new(3, pattern, ArrivalScale::window(1_000_000)).map(|a| a.at).take(2_000).collect();
            assert_eq!(times.is_sorted(), pattern != Pattern::UnsteadyClock, "{pattern:?}");
        }
    }
}
