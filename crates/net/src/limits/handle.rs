//! Handle that reads the counters and gauges of a listener.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::counters::RejectedConnections;
use super::limiter::ConnectionLimiter;

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
