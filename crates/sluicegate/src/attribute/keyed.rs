//! Limiter of a function with a key built from its arguments.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::OnceLock;
use std::time::Duration;

use rapidhash::quality::RapidHasher;
use sluicegate_engine::{Decision, KeyedLimiter, LimitError, Permit};

use super::Limited;
use super::call_site::{CallSite, InlineLimits, NO_LIMITER, builder};
use super::wait::PendingAcquire;

/// Keyed limiter of a function, built on the first call.
pub struct KeyedByValue {
    call_site: CallSite,
    limits: fn() -> InlineLimits,
    max_waiting: Option<usize>,
    max_keys: usize,
    keys: OnceLock<Option<KeyTable>>,
}

/// Table with the state of each key.
///
/// The type of the key may depend on type parameters of the function, which a static cannot name. Keys are
/// therefore hashed before they reach the limiter.
struct KeyTable {
    seed: u64,
    limiter: KeyedLimiter<u64>,
}

impl KeyedByValue {
    /// Creates the limiter of the function at `call_site`.
    pub const fn new(
        call_site: CallSite,
        limits: fn() -> InlineLimits,
        max_waiting: Option<usize>,
        max_keys: usize,
    ) -> Self {
        Self { call_site, limits, max_waiting, max_keys, keys: OnceLock::new() }
    }

    #[inline]
    fn keys(&self) -> Option<&KeyTable> {
        self.keys.get_or_init(|| self.build().ok()).as_ref()
    }

    fn build(&self) -> Result<KeyTable, LimitError> {
        let builder = builder(self.limits, self.max_waiting)?;
        let mut capacity = self.max_keys;
        let limiter = loop {
            match builder.clone().build_keyed(capacity) {
                // Fewer keys are better than refusing every call.
                Err(LimitError::Memory { .. }) if capacity > 1 => capacity /= 2,
                built => break built?,
            }
        };
        Ok(KeyTable { seed: RandomState::new().hash_one(self.max_keys), limiter })
    }

    /// Decides a call that neither waits nor holds a permit.
    #[inline]
    pub fn check(&self, key: &(impl Hash + ?Sized), cost: u64) -> Result<(), Limited> {
        let decision = self.keys().map_or(NO_LIMITER, |keys| keys.limiter.check_cost(&keys.hash(key), cost));
        if decision.is_allowed() { Ok(()) } else { Err(self.limited(&decision)) }
    }

    /// Decides a call that holds a permit and does not wait.
    #[inline]
    pub fn acquire(&self, key: &(impl Hash + ?Sized), cost: u64) -> Result<Permit, Limited> {
        let Some(keys) = self.keys() else { return Err(self.limited(&NO_LIMITER)) };
        keys.limiter.enter(&keys.hash(key), cost).map_err(|refused| self.limited(&refused.decision))
    }

    /// A call that may wait.
    pub fn wait(&self, key: &(impl Hash + ?Sized), cost: u64, within: Duration) -> PendingAcquire<KeyedLimiter<u64>> {
        self.keys().map_or(PendingAcquire::closed(self.call_site), |keys| {
            self.call_site.wait_keyed(&keys.limiter, &keys.hash(key), cost, within)
        })
    }

    #[cold]
    fn limited(&self, decision: &Decision) -> Limited {
        self.call_site.limited(self.keys().map(|keys| &keys.limiter), decision)
    }
}

impl KeyTable {
    #[inline]
    fn hash(&self, key: &(impl Hash + ?Sized)) -> u64 {
        let mut hasher = RapidHasher::new(self.seed);
        key.hash(&mut hasher);
        hasher.finish()
    }
}
