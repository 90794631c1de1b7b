//! Counters of outgoing calls.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of outgoing calls so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientLimitCounts {
    /// Calls sent.
    pub sent: u64,
    /// Calls queued or paced by a rule.
    pub queued: u64,
    /// Calls delayed by a server hint.
    pub delayed: u64,
    /// Calls refused by a rule, a ban or the deny list.
    pub refused_by_rules: u64,
    /// Calls refused because of a server hint.
    pub refused_by_server: u64,
    /// Responses with `Retry-After` or an equivalent.
    pub hold_responses: u64,
    /// Destinations evicted while their hints were still valid; if more than a few,
    /// `max_destinations` is too small.
    pub evicted_early: u64,
}

#[derive(Debug, Default)]
pub(super) struct ClientLimitCounters {
    pub(super) sent: AtomicU64,
    pub(super) queued: AtomicU64,
    pub(super) delayed: AtomicU64,
    pub(super) refused_by_rules: AtomicU64,
    pub(super) refused_by_server: AtomicU64,
    pub(super) hold_responses: AtomicU64,
}

/// Increments a counter.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl ClientLimitCounters {
    pub(super) fn read(&self, evicted_early: u64) -> ClientLimitCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ClientLimitCounts {
            sent: of(&self.sent),
            queued: of(&self.queued),
            delayed: of(&self.delayed),
            refused_by_rules: of(&self.refused_by_rules),
            refused_by_server: of(&self.refused_by_server),
            hold_responses: of(&self.hold_responses),
            evicted_early,
        }
    }
}

/// Counts of calls checked by a throttle so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThrottleCounts {
    /// Calls made, as known to the throttle: not those refused by an inner layer.
    pub made: u64,
    /// Of those, calls rejected by the backend while the caller waited for the response.
    pub rejected: u64,
    /// Calls not made, because the backend rejects most of them.
    pub throttled: u64,
}

#[derive(Debug, Default)]
pub(super) struct ThrottleCounters {
    pub(super) made: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) throttled: AtomicU64,
}

impl ThrottleCounters {
    pub(super) fn read(&self) -> ThrottleCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ThrottleCounts { made: of(&self.made), rejected: of(&self.rejected), throttled: of(&self.throttled) }
    }
}
