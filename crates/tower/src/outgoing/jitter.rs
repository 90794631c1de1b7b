//! A little longer than asked, so that a fleet does not return in one instant.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

/// The most that is added by chance.
const MOST: Duration = Duration::from_secs(10);

/// How much longer than asked a hold lasts.
#[derive(Clone)]
pub(super) struct Jitter(Arc<dyn Fn(Duration) -> Duration + Send + Sync>);

impl Jitter {
    pub(super) fn by(more: impl Fn(Duration) -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(more))
    }

    /// Up to a tenth of the hold by chance, and never more than ten seconds.
    pub(super) fn by_chance() -> Self {
        Self::by(|hold| {
            let most = (hold / 10).min(MOST).as_nanos() as u64;
            // Every hasher state of the process differs from the one before, by the system's chance.
            Duration::from_nanos(RandomState::new().hash_one(most) % (most + 1))
        })
    }

    pub(super) fn of(&self, hold: Duration) -> Duration {
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
    fn chance_adds_a_little_and_never_takes_away() {
        let jitter = Jitter::by_chance();
        let some: Vec<Duration> = (0..100).map(|_| jitter.of(Duration::from_secs(10))).collect();
        assert!(some.iter().all(|more| *more <= Duration::from_secs(1)));
        assert!(some.iter().any(|more| *more != some[0]), "a hundred times the same is no chance");
        assert!(jitter.of(Duration::MAX) <= MOST);
        assert_eq!(jitter.of(Duration::ZERO), Duration::ZERO);
    }
}
