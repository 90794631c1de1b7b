//! Times, counted in classes whose width grows with them.

/// Classes per doubling: a time is known to within a sixteenth of itself.
const STEPS: u32 = 16;
/// Times are counted in units of 2^13 ns (8.2 us): what is shorter is all the same here.
const UNIT_BITS: u32 = 13;
/// Doublings above the units: up to more than an hour.
const OCTAVES: u32 = 26;
const CLASSES: usize = (STEPS * OCTAVES) as usize;

/// How many took how long.
#[derive(Clone)]
pub(super) struct Histogram {
    counts: Box<[u32; CLASSES]>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; CLASSES]), total: 0 }
    }
}

impl Histogram {
    pub(super) fn note(&mut self, nanos: u64) {
        let class = &mut self.counts[class_of(nanos)];
        *class = class.saturating_add(1);
        self.total += 1;
    }

    pub(super) fn clear(&mut self) {
        if self.total > 0 {
            self.counts.fill(0);
            self.total = 0;
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        if other.total > 0 {
            self.counts.iter_mut().zip(other.counts.iter()).for_each(|(into, from)| *into = into.saturating_add(*from));
            self.total += other.total;
        }
    }

    /// The time in nanoseconds that this share of them stays within, evened out within its class. `None`: nobody came.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let rank = share.clamp(0.0, 1.0) * self.total as f64;
        let mut below = 0.0;
        for (class, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
            if below + count >= rank {
                let (low, high) = (lower_bound(class), lower_bound(class + 1));
                return Some(low + (high - low) * ((rank - below) / count).clamp(0.0, 1.0));
            }
            below += count;
        }
        None
    }
}

/// Up to `STEPS` units the classes are a unit wide each; every doubling after that has `STEPS` of them.
fn class_of(nanos: u64) -> usize {
    let units = nanos >> UNIT_BITS;
    let octave = (units / u64::from(STEPS)).checked_ilog2().map_or(0, |octave| octave + 1);
    let class = match octave {
        0 => units,
        _ => u64::from(octave * STEPS) + (units >> (octave - 1)) - u64::from(STEPS),
    };
    usize::try_from(class).unwrap_or(CLASSES).min(CLASSES - 1)
}

fn lower_bound(class: usize) -> f64 {
    let (octave, step) = (class as u32 / STEPS, class as u64 % u64::from(STEPS));
    let units = match octave {
        0 => step,
        _ => (u64::from(STEPS) + step) << (octave - 1),
    };
    (units << UNIT_BITS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_in_the_bounds_of_its_class() {
        let mut nanos = 1u64;
        while nanos < 4_300_000_000_000 {
            let class = class_of(nanos);
            let (low, high) = (lower_bound(class), lower_bound(class + 1));
            assert!(low <= nanos as f64 && (nanos as f64) < high, "{nanos} in {low}..{high}");
            nanos += nanos / 7 + 1;
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn quantiles_are_known_to_a_sixteenth() {
        let mut times = Histogram::default();
        assert_eq!(times.quantile(0.5), None);
        (1..=1_000u64).for_each(|millis| times.note(millis * 1_000_000));
        for (share, millis) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0)] {
            let found = times.quantile(share).unwrap_or_default() / 1e6;
            assert!((found / millis - 1.0).abs() < 1.0 / 16.0, "{share}: {found}");
        }
        let mut both = Histogram::default();
        both.add(&times);
        assert_eq!(both.quantile(0.5), times.quantile(0.5));
        times.clear();
        assert_eq!(times.quantile(0.5), None);
    }
}
