//! Counters and the handle that reads them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::limiter::ConnectionLimiter;

/// Counters and gauges of a listener.
///
/// Each number is exact. They are read one after the other, so under load they may belong to slightly different
/// times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ListenerCounts {
    /// Connections being served. Never above `max_connections`.
    pub open: usize,
    /// Served connections that are idle and parked to save memory.
    pub parked: usize,
    /// Connections waiting for a permit. Never above `queue`.
    pub queued: usize,
    /// Requests in flight. Counted if `in_flight` is set, and never above it.
    pub in_flight: usize,
    /// Requests waiting for an in-flight permit.
    pub requests_queued: usize,
    /// Connections accepted from the kernel so far.
    pub accepted: u64,
    /// Connections admitted so far, at once or after waiting.
    pub admitted: u64,
    /// Connections rejected so far, by reason.
    pub rejected: RejectedConnections,
    /// Requests that got a 503 so far because they waited too long or too many were waiting.
    pub requests_rejected: u64,
    /// Connections closed so far because a request head took too long.
    pub header_timeouts: u64,
    /// Connections closed so far because they were idle for too long.
    pub idle_timeouts: u64,
    /// Connections closed so far because the client did not read its responses.
    pub write_timeouts: u64,
    /// Failed accepts so far, for example because this process has too many files open.
    pub accept_errors: u64,
}

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

    fn rejected(&self) -> RejectedConnections {
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

/// Handle for reading the counters of a listener. Cheap to clone.
#[derive(Clone)]
pub struct ListenerHandle {
    limiter: Arc<ConnectionLimiter>,
}

impl ListenerHandle {
    pub(crate) fn new(limiter: Arc<ConnectionLimiter>) -> Self {
        Self { limiter }
    }

    /// Reads the counters.
    pub fn counts(&self) -> ListenerCounts {
        let counters = &self.limiter.counters;
        ListenerCounts {
            open: counters.open.load(Ordering::Relaxed),
            parked: counters.parked.load(Ordering::Relaxed),
            queued: self.limiter.queued(),
            in_flight: self.limiter.in_flight_limit.in_flight(),
            requests_queued: self.limiter.in_flight_limit.queued(),
            accepted: counters.accepted.load(Ordering::Relaxed),
            admitted: counters.admitted.load(Ordering::Relaxed),
            rejected: counters.rejected(),
            requests_rejected: self.limiter.in_flight_limit.rejected(),
            header_timeouts: counters.header_timeouts.load(Ordering::Relaxed),
            idle_timeouts: counters.idle_timeouts.load(Ordering::Relaxed),
            write_timeouts: counters.write_timeouts.load(Ordering::Relaxed),
            accept_errors: counters.accept_errors.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for ListenerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerHandle").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
