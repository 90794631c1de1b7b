//! Timeouts of a client connection, and the idle time before it is parked.

use std::time::Duration;

use sluicegate_engine::Timestamp;

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Timeouts {
    /// Time for a request head.
    pub head: Duration,
    /// Time between two requests.
    pub idle: Duration,
    /// Time for the client to continue reading a response.
    pub write: Duration,
    /// Time for one more request on shutdown.
    pub drain_grace: Duration,
}

/// Phase of a connection with no request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPhase {
    /// A request head began at this time.
    Head(Timestamp),
    /// No bytes have arrived since `since`.
    Idle {
        /// Start of the idle period.
        since: Timestamp,
        /// True if everything that was sent has certainly been read.
        settled: bool,
    },
}

impl Timeouts {
    /// Deadline of a connection with no request in flight. `closing_since` is the start of a shutdown: an idle
    /// connection then stays open for the drain grace, for a request on its way.
    pub fn read_deadline(&self, phase: ReadPhase, closing_since: Option<Timestamp>) -> (Timestamp, TimeoutKind) {
        match (phase, closing_since) {
            (ReadPhase::Head(since), _) => (since + self.head, TimeoutKind::Header),
            (ReadPhase::Idle { since, .. }, None) => (since + self.idle, TimeoutKind::Idle),
            (ReadPhase::Idle { since, .. }, Some(closing)) => {
                (since.max(closing) + self.drain_grace, TimeoutKind::Idle)
            }
        }
    }

    /// Time at which a connection has been idle for `after` and is parked. `None` if it is not idle, is closing, or
    /// exceeds its idle timeout before.
    pub fn parking_time(
        &self,
        phase: ReadPhase,
        closing_since: Option<Timestamp>,
        after: Duration,
    ) -> Option<Timestamp> {
        match (phase, closing_since) {
            (ReadPhase::Idle { since, settled: true }, None) if after < self.idle => Some(since + after),
            _ => None,
        }
    }
}

/// Idle time before a connection is parked.
const PARK_AFTER: Duration = Duration::from_secs(3);

/// Idle time before parking with many connections: rebuilding one costs less than the memory of all.
const PARK_AFTER_MANY: Duration = Duration::from_millis(50);

/// Number of connections above which idle ones are parked early.
pub(crate) const MANY_CONNECTIONS: usize = 100;

/// Idle time before parking, for this number of connections.
pub(crate) const fn park_after(connections: usize) -> Duration {
    if connections > MANY_CONNECTIONS { PARK_AFTER_MANY } else { PARK_AFTER }
}

/// Kind of an expired timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeoutKind {
    /// Header timeout.
    Header,
    /// Idle timeout: the connection is to be shut down gracefully.
    Idle,
    /// Timeout of a graceful shutdown.
    Shutdown,
    /// Write timeout: the client does not read a response.
    Write,
    /// No timeout: the connection has been idle for long enough to be parked.
    Park,
}
