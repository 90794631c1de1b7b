//! Seeded random distributions for the simulator, identical on every machine.

use crate::random::SplitMix64;

/// Random number generator of the simulator.
#[derive(Clone, Debug)]
pub(super) struct SimRng(SplitMix64);

impl SimRng {
    /// Generator for a seed and a purpose. Different purposes give independent sequences.
    pub(super) const fn new(seed: u64, purpose: u64) -> Self {
        let mut random =
            SplitMix64::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.bits();
        Self(random)
    }

    /// Uniform number in (0, 1].
    pub(super) const fn uniform(&mut self) -> f64 {
        ((self.0.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Exponential number with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -ln(self.uniform())
    }
}

/// Natural logarithm of a positive number, computed with additions and divisions only. The platform's `ln`
/// may differ in the last digit, and that would change the simulation.
fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let (mut exponent, mut m) = ((bits >> 52) as i32 - 1023, f64::from_bits(bits & MANTISSA | 1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        (exponent, m) = (exponent + 1, m / 2.0);
    }
    let t = (m - 1.0) / (m + 1.0);
    let mut sum = 0.0;
    for term in (0..11).rev() {
        sum = sum * t * t + 1.0 / f64::from(2 * term + 1);
    }
    2.0 * t * sum + f64::from(exponent) * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ln_matches_std() {
        for x in [1e-16, 1e-3, 0.1, 0.5, 0.7, 0.999, 1.0] {
            assert!((ln(x) - x.ln()).abs() <= 1e-14 * x.ln().abs().max(1.0), "{x}");
        }
    }

    #[test]
    fn exponential_has_mean_and_variance_one() {
        let mut rng = SimRng::new(7, 1);
        let drawn: Vec<f64> = (0..100_000).map(|_| rng.exponential()).collect();
        let mean = drawn.iter().sum::<f64>() / 1e5;
        let variance = drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
