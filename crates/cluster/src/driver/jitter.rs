//! Waits that differ between processes, so that a store that comes back is not met by all at once.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The longest that the first wait can be.
const FIRST: Duration = Duration::from_millis(100);
/// The longest that any wait can be.
const LAST: Duration = Duration::from_secs(1);

/// 64 random bits. Seeded by the system; not for secrets.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// The wait before attempt number `attempt`, counted from zero: anything up to a bound that doubles.
pub(super) fn wait(attempt: u32, random: u64) -> Duration {
    let bound = FIRST.saturating_mul(1 << attempt.min(10)).min(LAST);
    // The bound is at most a second, so its nanoseconds fit.
    let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(random % nanos.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_bound() {
        let longest = |attempt| (0..1000).map(|_| wait(attempt, random())).max().unwrap_or_default();
        for (attempt, bound) in [(0, 100), (1, 200), (2, 400), (3, 800), (4, 1000), (u32::MAX, 1000)] {
            let (longest, bound) = (longest(attempt), Duration::from_millis(bound));
            assert!(longest <= bound && longest > bound / 2, "{attempt}: {longest:?}");
        }
    }
}
