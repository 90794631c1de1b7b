//! Histogram of durations with exponential bucket widths.

/// Buckets per doubling: a duration is accurate to a sixteenth of itself.
const BUCKETS_PER_OCTAVE: u32 = 16;
/// Durations are counted in units of 2^13 ns (8.2 us); shorter ones are not distinguished.
const UNIT_BITS: u32 = 13;
/// Doublings above the unit: up to more than an hour.
const OCTAVES: u32 = 26;
const BUCKETS: usize = (BUCKETS_PER_OCTAVE * OCTAVES) as usize;

/// Number of requests per duration bucket.
#[derive(Clone)]
pub(super) struct Histogram {
    counts: Box<[u32; BUCKETS]>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), total: 0 }
    }
}

impl Histogram {
    pub(super) fn record(&mut self, nanos: u64) {
        let bucket = &mut self.counts[bucket_of(nanos)];
        *bucket = bucket.saturating_add(1);
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

    /// Quantile in nanoseconds, interpolated within its bucket. `None` if the histogram is empty.
    pub(super) fn quantile(&self, fraction: f64) -> Option<f64> {
        let rank = fraction.clamp(0.0, 1.0) * self.total as f64;
        let mut below = 0.0;
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
            if below + count >= rank {
                let (low, high) = (lower_bound(bucket), lower_bound(bucket + 1));
                return Some(low + (high - low) * ((rank - below) / count).clamp(0.0, 1.0));
            }
            below += count;
        }
        None
    }
}

/// Bucket of a duration. The first `BUCKETS_PER_OCTAVE` buckets are one unit wide; every doubling after that
/// has as many buckets.
fn bucket_of(nanos: u64) -> usize {
    let units = nanos >> UNIT_BITS;
    let octave = (units / u64::from(BUCKETS_PER_OCTAVE)).checked_ilog2().map_or(0, |octave| octave + 1);
    let bucket = match octave {
        0 => units,
        _ => u64::from(octave * BUCKETS_PER_OCTAVE) + (units >> (octave - 1)) - u64::from(BUCKETS_PER_OCTAVE),
    };
    usize::try_from(bucket).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

fn lower_bound(bucket: usize) -> f64 {
    let (octave, step) = (bucket as u32 / BUCKETS_PER_OCTAVE, bucket as u64 % u64::from(BUCKETS_PER_OCTAVE));
    let units = match octave {
        0 => step,
        _ => (u64::from(BUCKETS_PER_OCTAVE) + step) << (octave - 1),
    };
    (units << UNIT_BITS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_within_its_bucket() {
        let mut nanos = 1u64;
        while nanos < 4_300_000_000_000 {
            let bucket = bucket_of(nanos);
            let (low, high) = (lower_bound(bucket), lower_bound(bucket + 1));
            assert!(low <= nanos as f64 && (nanos as f64) < high, "{nanos} in {low}..{high}");
            nanos += nanos / 7 + 1;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_accurate_to_a_sixteenth() {
        let mut times = Histogram::default();
        assert_eq!(times.quantile(0.5), None);
        (1..=1_000u64).for_each(|millis| times.record(millis * 1_000_000));
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
