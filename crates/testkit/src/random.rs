//! Seeded random numbers for tests and simulations.
//!
//! Own code, because recorded figures depend on the sequence: `docs/adaptive-bench.md` and the gates of the control
//! laws come from these numbers. A generator of a library may change with any release. The product uses `fastrand`.

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

    /// True with this probability, in thousandths.
    pub const fn happens(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1_000) < per_mille
    }

    /// Uniform number in [0, 1).
    pub const fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential number with mean 1, like gaps between independent arrivals.
    ///
    /// The platform's logarithm may differ in the last digit: see [`gap`](Self::gap) for integers.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_gaps_have_the_requested_mean() {
        let mut random = SplitMix64::new(1);
        let total: u64 = (0..100_000).map(|_| random.gap(1_000)).sum();
        assert!((900..1_100).contains(&(total / 100_000)), "{}", total / 100_000);
    }
}
