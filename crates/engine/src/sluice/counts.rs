//! What rules and lists have decided, in numbers.
//!
//! Counting is one relaxed addition per number: cheap enough for every request, and cheap to read at any
//! time. Numbers belong to a rule's name: they go on when the rule is replaced by one that counts the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::ClockHandle;
use crate::time::{Timestamp, saturating_nanos};

/// The upper bounds of the classes of [`WaitTimes`]; each belongs to its class. The last class has none.
pub const WAIT_BOUNDS: [Duration; 12] = [
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// How long requests waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTimes {
    /// How many waited so long: at most [`WAIT_BOUNDS`], and in the last place longer than any of them. Each
    /// request counts in one place only.
    pub buckets: [u64; WAIT_BOUNDS.len() + 1],
    /// All waits together.
    pub sum: Duration,
}

impl WaitTimes {
    /// How many waited.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// What a rule has decided since it came into force under its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleCounts {
    /// The rule's name.
    pub rule: String,
    /// Requests it let through.
    pub admitted: u64,
    /// Requests it refused; in shadow mode, would have refused.
    pub refused: u64,
    /// Requests refused because their key was banned.
    pub banned: u64,
    /// Of the admitted and refused, those it decided without its store.
    pub degraded: u64,
    /// Bytes it let pass, if it paces them.
    pub bytes: u64,
    /// Keys it forgot before they had recovered.
    pub forgotten_early: u64,
    /// Callers waiting for their turn, and bodies for theirs.
    pub waiting: usize,
    /// Requests it made stand in line or sit out a pause, however that ended.
    pub waited: u64,
    /// How long those waited.
    pub waits: WaitTimes,
    /// Permits of its concurrency limits that are out in this process; `None`: it has no such limit.
    pub permits: Option<u64>,
    /// How much of its tightest limit is used now, from 0 to 1. `None` for rules with a key, and for those a
    /// store counts.
    pub used: Option<f64>,
}

/// How many requests the lists have decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListCounts {
    /// Let through by the allow list.
    pub allowed: u64,
    /// Refused by the deny list.
    pub denied: u64,
}

/// What a rule has decided.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Counters {
    pub(super) admitted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) banned: AtomicU64,
    pub(super) degraded: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) waits: WaitCounters,
}

/// How long requests waited.
#[derive(Default)]
pub(super) struct WaitCounters {
    buckets: [AtomicU64; WAIT_BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl WaitCounters {
    fn count(&self, waited: Duration) {
        let class = WAIT_BOUNDS.iter().position(|bound| waited <= *bound).unwrap_or(WAIT_BOUNDS.len());
        self.buckets[class].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(saturating_nanos(waited), Ordering::Relaxed);
    }

    pub(super) fn times(&self) -> WaitTimes {
        let buckets = std::array::from_fn(|class| self.buckets[class].load(Ordering::Relaxed));
        WaitTimes { buckets, sum: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)) }
    }
}

/// Somebody who waits for a rule; counted when that ends, however it does.
pub(super) struct CountedWait {
    counters: Arc<Counters>,
    clock: ClockHandle,
    since: Timestamp,
}

impl CountedWait {
    pub(super) fn begin(counters: &Arc<Counters>, clock: &ClockHandle, since: Timestamp) -> Self {
        Self { counters: Arc::clone(counters), clock: clock.clone(), since }
    }
}

impl Drop for CountedWait {
    fn drop(&mut self) {
        self.counters.waits.count(self.clock.now() - self.since);
    }
}

/// What the lists have decided.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct ListCounters {
    pub(super) allowed: AtomicU64,
    pub(super) denied: AtomicU64,
}

impl ListCounters {
    pub(super) fn counts(&self) -> ListCounts {
        ListCounts { allowed: self.allowed.load(Ordering::Relaxed), denied: self.denied.load(Ordering::Relaxed) }
    }
}
