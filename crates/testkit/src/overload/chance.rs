//! Random numbers with the shapes that queues are made of, the same on every machine.

use crate::arrivals::Random;

/// Draws from one seeded sequence.
#[derive(Clone, Debug)]
pub(super) struct Chance(Random);

impl Chance {
    /// The sequence of this seed for one purpose: purposes do not disturb each other.
    pub(super) const fn new(seed: u64, purpose: u64) -> Self {
        let mut random =
            Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.bits();
        Self(random)
    }

    /// More than 0, at most 1.
    pub(super) const fn share(&mut self) -> f64 {
        ((self.0.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -ln(self.share())
    }
}

/// The natural logarithm of a positive number, from additions and divisions only: what a machine's own library gives
/// may differ in the last digit, and a simulation that differs in the last digit differs.
fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let (mut exponent, mut m) = ((bits >> 52) as i32 - 1023, f64::from_bits(bits & MANTISSA | 1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        (exponent, m) = (exponent + 1, m / 2.0);
    }
    let t = (m - 1.0) / (m + 1.0);
    let mut sum = 0.0;
    for nth in (0..11).rev() {
        sum = sum * t * t + 1.0 / f64::from(2 * nth + 1);
    }
    2.0 * t * sum + f64::from(exponent) * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_the_logarithm() {
        for x in [1e-16, 1e-3, 0.1, 0.5, 0.7, 0.999, 1.0] {
            assert!((ln(x) - x.ln()).abs() <= 1e-14 * x.ln().abs().max(1.0), "{x}");
        }
    }

    #[test]
    fn the_exponential_has_its_mean_and_its_spread() {
        let mut chance = Chance::new(7, 1);
        let drawn: Vec<f64> = (0..100_000).map(|_| chance.exponential()).collect();
        let mean = drawn.iter().sum::<f64>() / 1e5;
        let spread = drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.02 && (spread - 1.0).abs() < 0.05, "{mean} {spread}");
    }
}
