//! Our side of every case. PROVISIONAL: stand-ins that decide rightly and are to be replaced by the
//! engine's own types; the names and signatures here are all the cases know.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Instant;

use crate::rules::{Call, Rule, TokenBucket};

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// An unkeyed token bucket shared by threads.
pub(crate) struct Bucket {
    full_at: AtomicU64,
    interval: u64,
    tolerance: u64,
}

impl Bucket {
    fn new(interval: u64, burst: u64) -> Self {
        Self { full_at: AtomicU64::new(0), interval, tolerance: interval * burst }
    }

    /// A token per nanosecond, a billion in the bucket.
    pub(crate) fn plentiful() -> Self {
        Self::new(1, 1_000_000_000)
    }

    /// A token an hour, one in the bucket.
    pub(crate) fn hourly() -> Self {
        Self::new(3_600_000_000_000, 1)
    }

    /// Takes one token if there is one. To be measured with whatever the full outcome carries.
    #[inline]
    pub(crate) fn admits(&self) -> bool {
        let now = START.elapsed().as_nanos() as u64;
        let take = |full_at: u64| {
            let next = full_at.max(now) + self.interval;
            (next <= now + self.tolerance).then_some(next)
        };
        self.full_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }
}

/// The same bucket handed out to threads in slices.
pub(crate) struct Sliced(Bucket);

/// One thread's slice.
pub(crate) struct Slice<'a>(&'a Bucket);

impl Sliced {
    /// A token per nanosecond, a billion in the bucket.
    pub(crate) fn plentiful() -> Self {
        Self(Bucket::plentiful())
    }

    /// Called once per thread, before the timed part.
    pub(crate) fn slice(&self) -> Slice<'_> {
        Slice(&self.0)
    }
}

impl Slice<'_> {
    /// Takes one token if there is one.
    #[inline]
    pub(crate) fn admits(&mut self) -> bool {
        self.0.admits()
    }
}

/// Buckets by key, at most `capacity` of them: a token a minute, a million in each bucket.
struct Table<K>(Mutex<HashMap<K, Bucket>>);

impl<K: Hash + Eq> Table<K> {
    fn new(capacity: u32) -> Self {
        Self(Mutex::new(HashMap::with_capacity(capacity as usize)))
    }

    fn admits<Q: Hash + Eq + ToOwned<Owned = K> + ?Sized>(&self, key: &Q) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        let mut table = self.0.lock().expect("no thread died deciding");
        if !table.contains_key(key) {
            table.insert(key.to_owned(), Bucket::new(60_000_000_000, 1_000_000));
        }
        table[key].admits()
    }
}

/// Keyed by string.
pub(crate) struct StringTable(Table<String>);

impl StringTable {
    /// Room for `capacity` keys: a token a minute, a million in each bucket.
    pub(crate) fn new(capacity: u32) -> Self {
        Self(Table::new(capacity))
    }

    /// Takes one of the key's tokens if there is one.
    #[inline]
    pub(crate) fn admits(&self, key: &str) -> bool {
        self.0.admits(key)
    }
}

/// Keyed by integer.
pub(crate) struct IntegerTable(Table<u64>);

impl IntegerTable {
    /// Room for `capacity` keys: a token a minute, a million in each bucket.
    pub(crate) fn new(capacity: u32) -> Self {
        Self(Table::new(capacity))
    }

    /// Takes one of the key's tokens if there is one.
    #[inline]
    pub(crate) fn admits(&self, key: u64) -> bool {
        self.0.admits(&key)
    }
}

/// A rule snapshot with its state.
pub(crate) struct Rules(HashMap<String, Matched>);

struct Matched {
    method: Option<&'static str>,
    per_account: bool,
    limits: Vec<TokenBucket>,
    state: Mutex<HashMap<String, Vec<Bucket>>>,
}

impl Rules {
    /// Builds the snapshot from what a rule file would say.
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let mut by_path = HashMap::new();
        for rule in rules {
            let Rule { method, per_account, .. } = *rule;
            let matched = Matched { method, per_account, limits: rule.limits.clone(), state: Mutex::default() };
            let taken = by_path.insert(rule.under.clone(), matched);
            assert!(taken.is_none(), "{}: another rule has its path", rule.name);
        }
        Self(by_path)
    }

    /// Matches, keys and decides a request. The engine's own must decide all limits or none.
    pub(crate) fn admits(&self, call: &Call<'_>) -> bool {
        let ends = call.path.match_indices('/').map(|(at, _)| at).skip(1).chain([call.path.len()]);
        let rules = ends.filter_map(|end| self.0.get(&call.path[..end]));
        rules.filter(|rule| rule.method.is_none_or(|method| method == call.method)).all(|rule| {
            let bucket = |limit: &TokenBucket| Bucket::new(limit.seconds * 1_000_000_000 / limit.tokens, limit.burst);
            let key = if rule.per_account { call.account } else { "" };
            let mut state = rule.state.lock().expect("no thread died deciding");
            let buckets = state.entry(key.to_owned()).or_insert_with(|| rule.limits.iter().map(bucket).collect());
            buckets.iter().all(Bucket::admits)
        })
    }
}
