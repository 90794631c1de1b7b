//! What became of the calls.

use std::sync::atomic::{AtomicU64, Ordering};

/// What became of the calls so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutgoingCounts {
    /// Calls that were made.
    pub sent: u64,
    /// Calls that waited because a rule paces or queues them.
    pub queued: u64,
    /// Calls that waited because of what a server said.
    pub held: u64,
    /// Calls that a rule, a ban or the deny list refused.
    pub refused_by_rules: u64,
    /// Calls that were refused because of what a server said.
    pub refused_by_advice: u64,
    /// Answers that asked not to be called for a while.
    pub holds: u64,
    /// Destinations that were forgotten while what they said still held; more than a few:
    /// `max_destinations` is too small.
    pub forgotten_early: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) sent: AtomicU64,
    pub(super) queued: AtomicU64,
    pub(super) held: AtomicU64,
    pub(super) refused_by_rules: AtomicU64,
    pub(super) refused_by_advice: AtomicU64,
    pub(super) holds: AtomicU64,
}

/// One more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn read(&self, forgotten_early: u64) -> OutgoingCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OutgoingCounts {
            sent: of(&self.sent),
            queued: of(&self.queued),
            held: of(&self.held),
            refused_by_rules: of(&self.refused_by_rules),
            refused_by_advice: of(&self.refused_by_advice),
            holds: of(&self.holds),
            forgotten_early,
        }
    }
}

/// What became of the calls that a throttle was asked about so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThrottleCounts {
    /// Calls that were made, as far as the throttle knows: not those that a layer beneath held back.
    pub made: u64,
    /// Of those, calls that the backend turned away while somebody waited for the answer.
    pub turned_away: u64,
    /// Calls that were not made, as the backend turns most of them away.
    pub not_made: u64,
}

#[derive(Debug, Default)]
pub(super) struct ThrottleCounters {
    pub(super) made: AtomicU64,
    pub(super) turned_away: AtomicU64,
    pub(super) not_made: AtomicU64,
}

impl ThrottleCounters {
    pub(super) fn read(&self) -> ThrottleCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ThrottleCounts { made: of(&self.made), turned_away: of(&self.turned_away), not_made: of(&self.not_made) }
    }
}
