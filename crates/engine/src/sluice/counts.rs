//! Decision counters of rules and lists.
//!
//! Counting is one relaxed addition per counter: cheap enough for every request, and readable at any time.
//! Counters belong to a rule's name and continue after the rule is replaced by one that counts the same thing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::ClockHandle;
use crate::time::{Timestamp, saturating_nanos};

/// Inclusive upper bounds of the buckets of [`WaitTimes`]. The last bucket has none.
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

/// Histogram of wait times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitTimes {
    /// Number of waits per bucket: up to each of [`WAIT_BOUNDS`], and in the last bucket longer than all of them.
    /// Each request counts in one bucket only.
    pub buckets: [u64; WAIT_BOUNDS.len() + 1],
    /// Sum of all waits.
    pub sum: Duration,
}

impl WaitTimes {
    /// Number of waits.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// Counters of a rule since it became active under its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleCounts {
    /// The rule's name.
    pub rule: String,
    /// Requests admitted.
    pub admitted: u64,
    /// Requests refused; in shadow mode, requests that would have been refused.
    pub refused: u64,
    /// Requests refused because their key was banned.
    pub banned: u64,
    /// Admitted and refused requests decided without the store.
    pub degraded: u64,
    /// Bytes passed, if the rule paces bandwidth.
    pub bytes: u64,
    /// Keys evicted before they had recovered.
    pub early_evictions: u64,
    /// Queued requests and bodies.
    pub waiting: usize,
    /// Requests that were queued or delayed, with any result.
    pub waited: u64,
    /// Durations of those waits.
    pub waits: WaitTimes,
    /// Permits of concurrency limits held in this process; `None` if the rule has no such limit.
    pub permits: Option<u64>,
    /// Current utilization of the tightest limit, from 0 to 1. `None` for keyed rules and for rules counted in a
    /// store.
    pub used: Option<f64>,
}

/// Number of requests decided by the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListCounts {
    /// Requests admitted by the allow list.
    pub allowed: u64,
    /// Requests refused by the deny list.
    pub denied: u64,
}

/// Atomic counters of a rule.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct RuleCounters {
    pub(super) admitted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) banned: AtomicU64,
    pub(super) degraded: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) waits: WaitCounters,
}

/// Atomic histogram of wait times.
#[derive(Default)]
pub(super) struct WaitCounters {
    buckets: [AtomicU64; WAIT_BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl WaitCounters {
    fn record(&self, waited: Duration) {
        let class = WAIT_BOUNDS.iter().position(|bound| waited <= *bound).unwrap_or(WAIT_BOUNDS.len());
        self.buckets[class].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(saturating_nanos(waited), Ordering::Relaxed);
    }

    pub(super) fn times(&self) -> WaitTimes {
        let buckets = std::array::from_fn(|class| self.buckets[class].load(Ordering::Relaxed));
        WaitTimes { buckets, sum: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)) }
    }
}

/// Measures the wait of a request for a rule. Dropping it records the wait, with any result.
pub(super) struct WaitTimer {
    counters: Arc<RuleCounters>,
    clock: ClockHandle,
    since: Timestamp,
}

impl WaitTimer {
    pub(super) fn begin(counters: &Arc<RuleCounters>, clock: &ClockHandle, since: Timestamp) -> Self {
        Self { counters: Arc::clone(counters), clock: clock.clone(), since }
    }
}

impl Drop for WaitTimer {
    fn drop(&mut self) {
        self.counters.waits.record(self.clock.now() - self.since);
    }
}

/// Atomic counters of the lists.
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
