//! The keys that ask most, and those that are refused most.
//!
//! Kept only where asked for ([`SluiceBuilder::watch_keys`](super::SluiceBuilder::watch_keys)), for every rule with a
//! key. Requests are counted, not what they cost: each once, when it is decided; those of banned keys too.
//!
//! **Room.** All rules together take 64 MiB at most for counters with names of usual length, and a rule never less
//! than 8 KiB; a rule takes it as keys come. Names have at most 200 characters. The more rules there are, the fewer
//! counters each has: 256 for each of up to 16 processors, down to 16.
//!
//! **Who is not named** is not listed. Once there are more keys than counters, a key has to come twice to be named:
//! so a flood of random keys is counted, but costs neither names nor a place in the list.

mod sketch;
mod watch;

use std::time::Duration;

pub(super) use watch::{Detail, Watch};

/// The heaviest keys of a rule, lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopKeys {
    /// How far back the counts reach.
    pub over: Duration,
    /// Who asked most.
    pub asked: TopList,
    /// Who was refused most, bans included.
    pub refused: TopList,
}

/// Keys and how often each came.
///
/// A key's true count is at least its `count` and at most `count + error`. Every key that came more than `error`
/// times is in the list. As long as there are no more keys than counters, `error` is zero; in whatever order keys
/// come, it is at most a small part of `total`: two for each counter, and one for each sketch that was added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopList {
    /// How often all keys came together, those not listed included.
    pub total: u64,
    /// How far counts may fall short of the truth.
    pub error: u64,
    /// The keys, heaviest first.
    pub keys: Vec<TopKey>,
}

/// A key and how often it came, at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopKey {
    /// The key, readable.
    pub key: String,
    /// How often it came, at least.
    pub count: u64,
}
