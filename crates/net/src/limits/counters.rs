//! Counters of a listener.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Rejected connections by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RejectedConnections {
    /// No permit was free, and the queue was full.
    pub full: u64,
    /// The queue timeout expired.
    pub queue_timeout: u64,
    /// The client reached its connection limit.
    pub per_client: u64,
    /// The listener was shutting down.
    pub closing: u64,
}

impl RejectedConnections {
    /// Sum over all reasons.
    pub const fn total(&self) -> u64 {
        self.full + self.queue_timeout + self.per_client + self.closing
    }
}

/// Reason for rejecting a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectReason {
    Full,
    QueueTimeout,
    PerClient,
    Closing,
}

/// Counters updated as events happen. The other numbers are read from their owners.
#[derive(Debug, Default)]
pub(crate) struct ListenerCounters {
    pub(crate) open: AtomicUsize,
    pub(crate) parked: AtomicUsize,
    pub(crate) accepted: AtomicU64,
    pub(crate) admitted: AtomicU64,
    pub(crate) header_timeouts: AtomicU64,
    pub(crate) idle_timeouts: AtomicU64,
    pub(crate) write_timeouts: AtomicU64,
    pub(crate) accept_errors: AtomicU64,
    full: AtomicU64,
    queue_timeout: AtomicU64,
    per_client: AtomicU64,
    closing: AtomicU64,
}

impl ListenerCounters {
    pub(crate) fn record_rejected(&self, reason: RejectReason) {
        let counter = match reason {
            RejectReason::Full => &self.full,
            RejectReason::QueueTimeout => &self.queue_timeout,
            RejectReason::PerClient => &self.per_client,
            RejectReason::Closing => &self.closing,
        };
        increment(counter);
    }

    pub(super) fn rejected(&self) -> RejectedConnections {
        RejectedConnections {
            full: self.full.load(Ordering::Relaxed),
            queue_timeout: self.queue_timeout.load(Ordering::Relaxed),
            per_client: self.per_client.load(Ordering::Relaxed),
            closing: self.closing.load(Ordering::Relaxed),
        }
    }
}

pub(crate) fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
