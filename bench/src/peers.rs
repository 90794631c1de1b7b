//! Peers, each called in the fastest way that its public API offers.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant, SystemTime};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter, clock, state};
use limitador::limit::{Context, Limit, Namespace};
use throttlecrab::PeriodicStore;

pub(crate) const GOVERNOR: &str = "governor 0.10";
pub(crate) const GOVERNOR_RAPIDHASH: &str = "governor 0.10, rapidhash";
pub(crate) const THROTTLECRAB: &str = "throttlecrab 0.4";
pub(crate) const LIMITADOR: &str = "limitador 0.14";
pub(crate) const LIMITADOR_PREPARED: &str = "limitador 0.14, without request binding";

const ONE: NonZeroU32 = NonZeroU32::MIN;
const MILLION: NonZeroU32 = NonZeroU32::new(1_000_000).unwrap();
const BILLION: NonZeroU32 = NonZeroU32::new(1_000_000_000).unwrap();

/// One token per nanosecond, burst of a billion: never empty.
pub(crate) fn governor_plentiful() -> DefaultDirectRateLimiter {
    RateLimiter::direct(Quota::per_second(BILLION))
}

/// One token per hour, burst of one.
pub(crate) fn governor_hourly() -> DefaultDirectRateLimiter {
    RateLimiter::direct(Quota::per_hour(ONE))
}

/// One token per minute and key, burst of a million: a used bucket does not become full again during the measurement.
fn keyed_quota() -> Quota {
    Quota::per_minute(ONE).allow_burst(MILLION)
}

pub(crate) fn governor_strings() -> DefaultKeyedRateLimiter<String> {
    RateLimiter::keyed(keyed_quota())
}

pub(crate) fn governor_integers() -> DefaultKeyedRateLimiter<u64> {
    RateLimiter::keyed(keyed_quota())
}

type RapidHash = rapidhash::fast::RandomState;

/// governor with a faster hash function than its default, to show the share of hashing in the difference.
pub(crate) fn governor_strings_rapidhash()
-> RateLimiter<String, state::keyed::DashMapStateStore<String, RapidHash>, clock::DefaultClock> {
    RateLimiter::dashmap_with_hasher(keyed_quota(), RapidHash::new())
}

/// throttlecrab on one thread (its limiter takes `&mut self`), with capacity for all keys and no cleanup during the
/// measurement.
pub(crate) struct Throttlecrab(throttlecrab::RateLimiter<PeriodicStore>);

impl Throttlecrab {
    pub(crate) fn new(capacity: u32) -> Self {
        let store = PeriodicStore::builder()
            .capacity(capacity as usize)
            .cleanup_interval(Duration::from_secs(24 * 3600))
            .build();
        Self(throttlecrab::RateLimiter::new(store))
    }

    #[inline]
    pub(crate) fn admits(&mut self, key: &str) -> bool {
        let (burst, tokens, seconds, cost) = (1_000_000, 1, 60, 1);
        self.0.rate_limit(key, burst, tokens, seconds, cost, SystemTime::now()).is_ok_and(|(admitted, _)| admitted)
    }
}

/// limitador in memory with one limit. It takes a request as a CEL context, and creating one takes tens of
/// microseconds. The contexts are therefore created once, and the request is bound to one of them: outside the timed
/// part in the keyed cases, inside it in the rule cases.
pub(crate) struct Limitador {
    limiter: limitador::RateLimiter,
    namespace: Namespace,
    contexts: Vec<Context<'static>>,
}

/// Number of reusable contexts for keyed requests.
const PREPARED: usize = 64;

impl Limitador {
    /// One limit per value of the first descriptor, as in its server.
    pub(crate) fn keyed(capacity: u32) -> Self {
        let contexts = (0..PREPARED).map(|_| Context::default()).collect();
        Self::new("descriptors[0].key", u64::from(capacity), contexts)
    }

    /// One limit per account, with a permanent context for each of `accounts`.
    pub(crate) fn one_limit(accounts: &[String]) -> Self {
        let context = |account: &String| Context::from(HashMap::from([("account".to_owned(), account.clone())]));
        Self::new("account", 10_000, accounts.iter().map(context).collect())
    }

    fn new(variable: &str, capacity: u64, contexts: Vec<Context<'static>>) -> Self {
        // Twice the capacity: its cache must not evict during the measurement.
        let limiter = limitador::RateLimiter::new(2 * capacity);
        let variable = variable.to_owned().try_into().expect("valid CEL expression");
        limiter.add_limit(Limit::new("bench", 10_000_000, 24 * 3600, [], [variable]));
        Self { limiter, namespace: Namespace::from("bench"), contexts }
    }

    /// Decides with the prepared context number `index`, modulo their number.
    #[inline]
    pub(crate) fn admits_prepared(&self, index: u32) -> bool {
        let context = &self.contexts[index as usize % self.contexts.len()];
        self.limiter.check_rate_limited_and_update(&self.namespace, context, 1).is_ok_and(|result| !result.limited)
    }

    fn prepare(&mut self, slot: usize, key: &str) {
        let descriptor = HashMap::from([("key".to_owned(), key.to_owned())]);
        self.contexts[slot].list_binding("descriptors".to_owned(), vec![descriptor]);
    }

    /// Binds the key and decides.
    pub(crate) fn admits(&mut self, key: &str) -> bool {
        self.prepare(0, key);
        self.admits_prepared(0)
    }

    /// Nanoseconds per decision without the binding: small batches are bound and then timed, so that the bound requests
    /// are still in the CPU cache.
    pub(crate) fn nanos_each<'k>(&mut self, decisions: u32, key: impl Fn(u32) -> &'k String) -> f64 {
        let batches = decisions / PREPARED as u32;
        let mut elapsed = Duration::ZERO;
        let mut admitted = 0;
        for batch in 0..batches {
            for slot in 0..PREPARED {
                self.prepare(slot, key(batch * PREPARED as u32 + slot as u32));
            }
            let started = Instant::now();
            admitted += (0..PREPARED as u32).map(|index| u32::from(self.admits_prepared(index))).sum::<u32>();
            elapsed += started.elapsed();
        }
        let decided = batches * PREPARED as u32;
        assert_eq!(admitted, decided, "expected all requests to be admitted");
        elapsed.as_nanos() as f64 / f64::from(decided)
    }
}
