//! What a door counts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::gate::Gate;

/// What has happened at a door, and what is there now.
///
/// Each number is exact; they are read one after the other, so under load they may be of slightly different
/// moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Connections being served now. Never above `max_connections`.
    pub open: usize,
    /// Of those served, the ones that have been idle for a while and are kept in as little memory as they need.
    pub resting: usize,
    /// Connections that wait for a place now. Never above `queue`.
    pub queued: usize,
    /// Requests being worked on now; counted if `in_flight` is set, and never above it.
    pub in_flight: usize,
    /// Requests that wait to be worked on now.
    pub requests_waiting: usize,
    /// Connections taken from the kernel so far.
    pub accepted: u64,
    /// Connections that were given a place so far, at once or after waiting.
    pub entered: u64,
    /// Connections refused so far, by reason.
    pub refused: Refusals,
    /// Requests answered 503 so far because they waited too long to be worked on, or too many waited.
    pub requests_refused: u64,
    /// Connections closed so far because a request's head took too long.
    pub header_timeouts: u64,
    /// Connections closed so far because they were idle for too long between requests.
    pub idle_closed: u64,
    /// Connections closed so far because their client did not read its answers.
    pub unread_closed: u64,
    /// How often the system could not hand over a connection, for example because this process has too many
    /// files open.
    pub accept_errors: u64,
}

/// Connections refused, by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Refusals {
    /// No place was free, and none in the queue.
    pub full: u64,
    /// It waited in the queue as long as it may.
    pub queue_wait: u64,
    /// Its client has as many connections as it may.
    pub per_client: u64,
    /// The door was closing.
    pub closing: u64,
}

impl Refusals {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.full + self.queue_wait + self.per_client + self.closing
    }
}

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Full,
    QueueWait,
    PerClient,
    Closing,
}

/// What is counted as it happens. The rest is known to those who hold it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) open: AtomicUsize,
    pub(crate) resting: AtomicUsize,
    pub(crate) accepted: AtomicU64,
    pub(crate) entered: AtomicU64,
    pub(crate) header_timeouts: AtomicU64,
    pub(crate) idle_closed: AtomicU64,
    pub(crate) unread_closed: AtomicU64,
    pub(crate) accept_errors: AtomicU64,
    full: AtomicU64,
    queue_wait: AtomicU64,
    per_client: AtomicU64,
    closing: AtomicU64,
}

impl Counters {
    pub(crate) fn refused(&self, why: Why) {
        let counter = match why {
            Why::Full => &self.full,
            Why::QueueWait => &self.queue_wait,
            Why::PerClient => &self.per_client,
            Why::Closing => &self.closing,
        };
        add_one(counter);
    }

    fn refusals(&self) -> Refusals {
        Refusals {
            full: self.full.load(Ordering::Relaxed),
            queue_wait: self.queue_wait.load(Ordering::Relaxed),
            per_client: self.per_client.load(Ordering::Relaxed),
            closing: self.closing.load(Ordering::Relaxed),
        }
    }
}

pub(crate) fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A door seen from elsewhere, while it serves. Cheap to clone.
#[derive(Clone)]
pub struct DoorHandle {
    gate: Arc<Gate>,
}

impl DoorHandle {
    pub(crate) fn new(gate: Arc<Gate>) -> Self {
        Self { gate }
    }

    /// What has happened so far, and what is there now.
    pub fn counts(&self) -> Counts {
        let counters = &self.gate.counters;
        Counts {
            open: counters.open.load(Ordering::Relaxed),
            resting: counters.resting.load(Ordering::Relaxed),
            queued: self.gate.queued(),
            in_flight: self.gate.workers.in_flight(),
            requests_waiting: self.gate.workers.waiting(),
            accepted: counters.accepted.load(Ordering::Relaxed),
            entered: counters.entered.load(Ordering::Relaxed),
            refused: counters.refusals(),
            requests_refused: self.gate.workers.refused(),
            header_timeouts: counters.header_timeouts.load(Ordering::Relaxed),
            idle_closed: counters.idle_closed.load(Ordering::Relaxed),
            unread_closed: counters.unread_closed.load(Ordering::Relaxed),
            accept_errors: counters.accept_errors.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for DoorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorHandle").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
