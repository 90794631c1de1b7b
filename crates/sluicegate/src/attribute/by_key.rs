//! Limits that count the calls of a function apart, by a key made from its arguments.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::OnceLock;
use std::time::Duration;

use rapidhash::quality::RapidHasher;
use sluicegate_engine::{Decision, KeyedLimiter, LimitError, Pass};

use super::Limited;
use super::line::Line;
use super::place::{Limits, NO_LIMITER, Place, builder};

/// What a function with a key counts with. Made at its first call.
pub struct ByKey {
    place: Place,
    limits: fn() -> Limits,
    max_waiting: Option<usize>,
    max_keys: usize,
    keys: OnceLock<Option<Keys>>,
}

/// The states of the keys.
///
/// The key's type may hang on the function's type parameters, which a static cannot name. So keys are
/// hashed before the limiter sees them.
struct Keys {
    seed: u64,
    limiter: KeyedLimiter<u64>,
}

impl ByKey {
    /// The limits of the function at `place`.
    pub const fn new(place: Place, limits: fn() -> Limits, max_waiting: Option<usize>, max_keys: usize) -> Self {
        Self { place, limits, max_waiting, max_keys, keys: OnceLock::new() }
    }

    #[inline]
    fn keys(&self) -> Option<&Keys> {
        self.keys.get_or_init(|| self.made().ok()).as_ref()
    }

    fn made(&self) -> Result<Keys, LimitError> {
        let builder = builder(self.limits, self.max_waiting)?;
        let mut room = self.max_keys;
        let limiter = loop {
            match builder.clone().build_keyed(room) {
                // Strict with fewer keys is better than refusing all of them.
                Err(LimitError::Memory { .. }) if room > 1 => room /= 2,
                made => break made?,
            }
        };
        Ok(Keys { seed: RandomState::new().hash_one(self.max_keys), limiter })
    }

    /// Decides about a call that neither waits nor holds anything.
    #[inline]
    pub fn check(&self, key: &(impl Hash + ?Sized), cost: u64) -> Result<(), Limited> {
        let decision = self.keys().map_or(NO_LIMITER, |keys| keys.limiter.check_cost(&keys.hash(key), cost));
        if decision.is_allowed() { Ok(()) } else { Err(self.limited(&decision)) }
    }

    /// Decides about a call that holds permits and does not wait.
    #[inline]
    pub fn enter(&self, key: &(impl Hash + ?Sized), cost: u64) -> Result<Pass, Limited> {
        let Some(keys) = self.keys() else { return Err(self.limited(&NO_LIMITER)) };
        keys.limiter.enter(&keys.hash(key), cost).map_err(|refused| self.limited(&refused.decision))
    }

    /// A call that may wait.
    pub fn ask(&self, key: &(impl Hash + ?Sized), cost: u64, within: Duration) -> Line<KeyedLimiter<u64>> {
        self.keys().map_or(Line::closed(self.place), |keys| {
            self.place.ask_by_key(&keys.limiter, &keys.hash(key), cost, within)
        })
    }

    #[cold]
    fn limited(&self, decision: &Decision) -> Limited {
        self.place.limited(self.keys().map(|keys| &keys.limiter), decision)
    }
}

impl Keys {
    #[inline]
    fn hash(&self, key: &(impl Hash + ?Sized)) -> u64 {
        let mut hasher = RapidHasher::new(self.seed);
        key.hash(&mut hasher);
        hasher.finish()
    }
}
