//! Sluicegate side of the in-process cases, written as a user of the engine would write it.

use std::hint::black_box;
use std::time::Duration;

use sluicegate_engine::algorithm;
use sluicegate_engine::rule::{self, Attribute, Attributes, Request, Target};
use sluicegate_engine::{KeyedLimiter, Limit, Limiter, Rate, ShardedLimiter, Sluice};

use crate::spec::{BenchRequest, BenchRule, BucketSpec};

/// One token per nanosecond, burst of a billion: never empty.
const PLENTIFUL: BucketSpec = BucketSpec { tokens: 1_000_000_000, seconds: 1, burst: 1_000_000_000 };
/// One token per hour, burst of one.
const HOURLY: BucketSpec = BucketSpec { tokens: 1, seconds: 3600, burst: 1 };
/// One token per minute, burst of a million.
const MINUTELY: BucketSpec = BucketSpec { tokens: 1, seconds: 60, burst: 1_000_000 };

/// Tokens that one thread prefetches: a small part of the burst.
const LOCAL_TOKENS: u64 = 1_000;

impl BucketSpec {
    fn rate(self) -> Rate {
        Rate::new(self.tokens, Duration::from_secs(self.seconds)).expect("valid rate")
    }

    fn limit(self) -> Limit {
        Limit::token_bucket(self.rate(), self.burst).expect("valid limit")
    }
}

/// Unkeyed token bucket shared by threads.
pub(crate) struct SharedBucket(Limiter);

impl SharedBucket {
    pub(crate) fn plentiful() -> Self {
        Self(Limiter::new(PLENTIFUL.limit()))
    }

    pub(crate) fn hourly() -> Self {
        Self(Limiter::new(HOURLY.limit()))
    }

    /// Takes one token if available.
    #[inline]
    pub(crate) fn admits(&self) -> bool {
        black_box(self.0.check().is_admitted())
    }
}

/// The same bucket with prefetched tokens per thread.
pub(crate) struct ShardedBucket(ShardedLimiter);

/// Tokens of one thread.
pub(crate) struct ThreadTokens(sluicegate_engine::LocalTokens);

impl ShardedBucket {
    pub(crate) fn plentiful() -> Self {
        let bucket = algorithm::TokenBucket::new(PLENTIFUL.rate(), PLENTIFUL.burst).expect("valid bucket");
        Self(Limiter::builder().build_sharded(bucket, LOCAL_TOKENS).expect("valid sharded limiter"))
    }

    /// Creates the tokens of one thread; called before the timed part.
    pub(crate) fn local_tokens(&self) -> ThreadTokens {
        ThreadTokens(self.0.local_tokens())
    }
}

impl ThreadTokens {
    /// Takes one token if available.
    #[inline]
    pub(crate) fn admits(&mut self) -> bool {
        black_box(self.0.take(1).is_ok())
    }
}

/// Limiter keyed by string.
pub(crate) struct StringTable(KeyedLimiter<str>);

impl StringTable {
    /// Creates a table for `capacity` keys.
    pub(crate) fn new(capacity: u32) -> Self {
        let limiter = Limiter::builder().limit(MINUTELY.limit()).build_keyed(capacity as usize);
        Self(limiter.expect("valid keyed limiter"))
    }

    /// Takes one token of the key if available.
    #[inline]
    pub(crate) fn admits(&self, key: &str) -> bool {
        black_box(self.0.check(key).is_admitted())
    }
}

/// Limiter keyed by integer.
pub(crate) struct IntegerTable(KeyedLimiter<u64>);

impl IntegerTable {
    /// Creates a table for `capacity` keys.
    pub(crate) fn new(capacity: u32) -> Self {
        let limiter = Limiter::builder().limit(MINUTELY.limit()).build_keyed(capacity as usize);
        Self(limiter.expect("valid keyed limiter"))
    }

    /// Takes one token of the key if available.
    #[inline]
    pub(crate) fn admits(&self, key: u64) -> bool {
        black_box(self.0.check(&key).is_admitted())
    }
}

impl IntegerTable {
    /// Takes one token of each key and returns the number of admitted keys.
    pub(crate) fn count_admitted(&self, keys: &[u64]) -> u32 {
        let mut admitted = 0;
        self.0.check_each(keys, |decision| admitted += u32::from(black_box(decision.is_admitted())));
        admitted
    }
}

/// Rule set with its state.
pub(crate) struct Rules(Sluice);

/// Attributes of a call, as an adapter provides them.
struct CallAttributes<'a>(&'a BenchRequest<'a>);

impl Attributes for CallAttributes<'_> {
    fn get(&self, attribute: &Attribute) -> Option<std::borrow::Cow<'_, str>> {
        matches!(attribute, Attribute::Custom(name) if name == "account").then_some(self.0.account.into())
    }
}

impl Rules {
    /// Builds the rule set.
    pub(crate) fn new(rules: &[BenchRule]) -> Self {
        let rules = rules.iter().map(|rule| {
            let limits: Vec<Limit> = rule.limits.iter().map(|bucket| bucket.limit()).collect();
            let mut engine_rule = rule::Rule::new(rule.name.clone(), limits);
            let method = rule.method.map(|method| format!("{method} ")).unwrap_or_default();
            engine_rule.target = Target::parse(&format!("{method}{}/**", rule.path_prefix)).expect("valid target");
            if rule.per_account {
                engine_rule.key = vec![Attribute::Custom("account".to_owned()).into()];
            }
            engine_rule
        });
        Self(Sluice::builder().rules(rules).build().expect("valid rules"))
    }

    /// Matches the rules, builds the keys and decides the request, all limits or none.
    pub(crate) fn admits(&self, call: &BenchRequest<'_>) -> bool {
        let attributes = CallAttributes(call);
        let request = Request::new(call.method, call.path).with_attributes(&attributes);
        black_box(self.0.decide(&request)).is_admitted()
    }
}
