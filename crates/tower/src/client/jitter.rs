//! Jitter for holds: clients of one server do not return at the same instant.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Maximum random extra time.
const MAX_JITTER: Duration = Duration::from_secs(10);

/// Extra time added to a hold.
#[derive(Clone)]
pub(super) struct Jitter(Arc<dyn Fn(Duration) -> Duration + Send + Sync>);

impl Jitter {
    pub(super) fn new(more: impl Fn(Duration) -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(more))
    }

    /// Random, up to a tenth of the hold and at most ten seconds.
    pub(super) fn random() -> Self {
        Self::new(|hold| {
            let max = (hold / 10).min(MAX_JITTER).as_nanos() as u64;
            Duration::from_nanos(fastrand::u64(..=max))
        })
    }

    pub(super) fn extra(&self, hold: Duration) -> Duration {
        (self.0)(hold)
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jitter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_jitter_is_bounded_and_never_negative() {
        let jitter = Jitter::random();
        let some: Vec<Duration> = (0..100).map(|_| jitter.extra(Duration::from_secs(10))).collect();
        assert!(some.iter().all(|more| *more <= Duration::from_secs(1)));
        assert!(some.iter().any(|more| *more != some[0]), "a hundred equal values are not random");
        assert!(jitter.extra(Duration::MAX) <= MAX_JITTER);
        assert_eq!(jitter.extra(Duration::ZERO), Duration::ZERO);
    }
}
