//! Our side of every case, as a user of the engine would write it.

use std::hint::black_box;
use std::time::Duration;

use sluicegate_engine::algorithm;
use sluicegate_engine::rule::{self, Attribute, Attributes, Request, Target};
use sluicegate_engine::{KeyedLimiter, Limit, Limiter, Rate, SlicedLimiter, Sluice};

use crate::rules::{Call, Rule, TokenBucket};

/// A token per nanosecond, a billion in the bucket.
const PLENTIFUL: TokenBucket = TokenBucket { tokens: 1_000_000_000, seconds: 1, burst: 1_000_000_000 };
/// A token an hour, one in the bucket.
const HOURLY: TokenBucket = TokenBucket { tokens: 1, seconds: 3600, burst: 1 };
/// A token a minute, a million in the bucket.
const MINUTELY: TokenBucket = TokenBucket { tokens: 1, seconds: 60, burst: 1_000_000 };

/// Tokens in a slice: a small part of the burst.
const SLICE: u64 = 1_000;

impl TokenBucket {
    fn rate(self) -> Rate {
        Rate::new(self.tokens, Duration::from_secs(self.seconds)).expect("a rate")
    }

    fn limit(self) -> Limit {
        Limit::token_bucket(self.rate(), self.burst).expect("a limit")
    }
}

/// An unkeyed token bucket shared by threads.
pub(crate) struct Bucket(Limiter);

impl Bucket {
    pub(crate) fn plentiful() -> Self {
        Self(Limiter::new(PLENTIFUL.limit()))
    }

    pub(crate) fn hourly() -> Self {
        Self(Limiter::new(HOURLY.limit()))
    }

    /// Takes one token if there is one.
    #[inline]
    pub(crate) fn admits(&self) -> bool {
        black_box(self.0.check().is_admitted())
    }
}

/// The same bucket handed out to threads in slices.
pub(crate) struct Sliced(SlicedLimiter);

/// One thread's slice.
pub(crate) struct Slice(sluicegate_engine::Slice);

impl Sliced {
    pub(crate) fn plentiful() -> Self {
        let bucket = algorithm::TokenBucket::new(PLENTIFUL.rate(), PLENTIFUL.burst).expect("a bucket");
        Self(Limiter::builder().build_sliced(bucket, SLICE).expect("a sliced limiter"))
    }

    /// Called once per thread, before the timed part.
    pub(crate) fn slice(&self) -> Slice {
        Slice(self.0.slice())
    }
}

impl Slice {
    /// Takes one token if there is one.
    #[inline]
    pub(crate) fn admits(&mut self) -> bool {
        black_box(self.0.take(1).is_ok())
    }
}

/// Keyed by string.
pub(crate) struct StringTable(KeyedLimiter<str>);

impl StringTable {
    /// Room for `capacity` keys.
    pub(crate) fn new(capacity: u32) -> Self {
        let limiter = Limiter::builder().limit(MINUTELY.limit()).build_keyed(capacity as usize);
        Self(limiter.expect("a keyed limiter"))
    }

    /// Takes one of the key's tokens if there is one.
    #[inline]
    pub(crate) fn admits(&self, key: &str) -> bool {
        black_box(self.0.check(key).is_admitted())
    }
}

/// Keyed by integer.
pub(crate) struct IntegerTable(KeyedLimiter<u64>);

impl IntegerTable {
    /// Room for `capacity` keys.
    pub(crate) fn new(capacity: u32) -> Self {
        let limiter = Limiter::builder().limit(MINUTELY.limit()).build_keyed(capacity as usize);
        Self(limiter.expect("a keyed limiter"))
    }

    /// Takes one of the key's tokens if there is one.
    #[inline]
    pub(crate) fn admits(&self, key: u64) -> bool {
        black_box(self.0.check(&key).is_admitted())
    }
}

/// A rule snapshot with its state.
pub(crate) struct Rules(Sluice);

/// What an adapter knows of a call.
struct CallAttributes<'a>(&'a Call<'a>);

impl Attributes for CallAttributes<'_> {
    fn get(&self, attribute: &Attribute) -> Option<std::borrow::Cow<'_, str>> {
        matches!(attribute, Attribute::Custom(name) if name == "account").then_some(self.0.account.into())
    }
}

impl Rules {
    /// Builds the snapshot from what a rule file would say.
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let rules = rules.iter().map(|rule| {
            let limits: Vec<Limit> = rule.limits.iter().map(|bucket| bucket.limit()).collect();
            let mut made = rule::Rule::new(rule.name.clone(), limits);
            let method = rule.method.map(|method| format!("{method} ")).unwrap_or_default();
            made.target = Target::parse(&format!("{method}{}/**", rule.under)).expect("a target");
            if rule.per_account {
                made.key = vec![Attribute::Custom("account".to_owned()).into()];
            }
            made
        });
        Self(Sluice::builder().rules(rules).build().expect("rules"))
    }

    /// Matches, keys and decides a request, all limits or none.
    pub(crate) fn admits(&self, call: &Call<'_>) -> bool {
        let attributes = CallAttributes(call);
        let request = Request::new(call.method, call.path).with_attributes(&attributes);
        black_box(self.0.decide(&request)).is_admitted()
    }
}
