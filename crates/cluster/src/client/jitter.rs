//! Jittered backoff: processes do not reconnect to a recovered store all at once.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Upper bound of the first wait.
const MAX_FIRST_WAIT: Duration = Duration::from_millis(100);
/// Upper bound of any wait.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// 64 random bits. Not for secrets. Seeded by the system, so that nodes differ, which `fastrand` does not promise.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// The wait before attempt `attempt`, counted from zero: uniform up to a bound that doubles.
pub(super) fn backoff(attempt: u32) -> Duration {
    let bound = MAX_FIRST_WAIT.saturating_mul(1 << attempt.min(10)).min(MAX_WAIT);
    // The bound is at most a second, so its nanoseconds fit.
    let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(fastrand::u64(..=nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_bound() {
        let max = |attempt| (0..1000).map(|_| backoff(attempt)).max().unwrap_or_default();
        for (attempt, bound) in [(0, 100), (1, 200), (2, 400), (3, 800), (4, 1000), (u32::MAX, 1000)] {
            let (max, bound) = (max(attempt), Duration::from_millis(bound));
            assert!(max <= bound && max > bound / 2, "{attempt}: {max:?}");
        }
    }
}
