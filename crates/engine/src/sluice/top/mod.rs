//! Heavy hitters: the keys with the most requests and the most refusals.
//!
//! Tracked only if enabled ([`SluiceBuilder::track_keys`](super::SluiceBuilder::track_keys)), for every keyed
//! rule. Requests are counted, not their cost: each once, at its decision, including those of banned keys.
//!
//! **Memory.** All rules together use at most 64 MiB for counters with names of typical length, and each rule
//! at least 8 KiB, allocated as keys appear. Names have at most 200 characters. With more rules each has fewer
//! counters: 256 for each of up to 16 processors, down to 16.
//!
//! **Unnamed keys** are not listed. Once there are more keys than counters, a key is named at its second
//! request: a flood of random keys is counted, but uses neither names nor list entries.

mod sketch;
mod tracker;

use std::time::Duration;

pub(super) use tracker::{KeyTracker, TrackerSize};

/// Heaviest keys of a rule in the recent past.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopKeys {
    /// Time span that the counts cover.
    pub over: Duration,
    /// Keys with the most requests.
    pub requested: TopList,
    /// Keys with the most refusals, including bans.
    pub refused: TopList,
}

/// Keys with their request counts.
///
/// The true count of a key is at least `count` and at most `count + error`. Every key with more than `error`
/// requests is listed. `error` is zero if there are no more keys than counters. For any order of requests it is
/// a small part of `total` at most: two for each counter, and one for each merged sketch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopList {
    /// Requests of all keys, including those not listed.
    pub total: u64,
    /// Maximum undercount of a key.
    pub error: u64,
    /// The keys, heaviest first.
    pub keys: Vec<TopKey>,
}

/// Key with a lower bound of its request count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopKey {
    /// Readable key.
    pub key: String,
    /// Lower bound of the request count.
    pub count: u64,
}
