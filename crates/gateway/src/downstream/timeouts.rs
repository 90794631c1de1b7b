//! Timeouts of a client connection, by phase.

use std::task::{Context, Poll};

use sluicegate_engine::Timestamp;
use sluicegate_net::{LazyTimer, ReadPhase, TimeoutKind, Timeouts};

/// Timeouts of a client connection. One timer serves all of them; it is rearmed only if a deadline moves
/// closer, so ordinary requests do not touch it.
///
/// The deadlines are those of [`Timeouts`], as for connections that hyper serves. There, the phase has to be observed
/// from outside, by reads and writes of a shared state; this connection knows its phase, so the state stays apart.
#[derive(Debug)]
pub(super) struct PhaseTimeouts {
    pub(super) timeouts: Timeouts,
    timer: LazyTimer,
    phase: ReadPhase,
    /// Start of the current write stall, if any.
    write_stalled_since: Option<Timestamp>,
    /// Start of the shutdown, if it has started.
    closing_since: Option<Timestamp>,
}

impl PhaseTimeouts {
    /// Timeouts of a connection accepted at `since`; its first head is expected.
    pub(super) const fn new(timeouts: Timeouts, timer: LazyTimer, since: Timestamp) -> Self {
        Self { timeouts, timer, phase: ReadPhase::Head(since), write_stalled_since: None, closing_since: None }
    }

    /// Enters the idle phase.
    pub(super) fn enter_idle(&mut self) {
        self.enter_idle_at(self.timer.now());
    }

    /// Enters an idle phase that began at `since`.
    pub(super) const fn enter_idle_at(&mut self, since: Timestamp) {
        // Unsent output is checked when the connection is parked.
        self.phase = ReadPhase::Idle { since, settled: true };
    }

    /// Start of the current phase.
    pub(super) const fn phase_since(&self) -> Timestamp {
        let (ReadPhase::Head(since) | ReadPhase::Idle { since, .. }) = self.phase;
        since
    }

    /// Bytes of a head may have arrived: leaves the idle phase.
    pub(super) fn begin_head(&mut self) {
        if matches!(self.phase, ReadPhase::Idle { .. }) {
            self.phase = ReadPhase::Head(self.timer.now());
        }
    }

    /// Starts the shutdown.
    pub(super) fn begin_shutdown(&mut self) {
        self.closing_since.get_or_insert(self.timer.now());
    }

    pub(super) const fn is_closing(&self) -> bool {
        self.closing_since.is_some()
    }

    /// Ready with the kind of timeout that has expired.
    pub(super) fn poll_timeout(&mut self, context: &mut Context<'_>) -> Poll<TimeoutKind> {
        let (deadline, kind) = self.timeouts.read_deadline(self.phase, self.closing_since);
        self.timer.poll_due(deadline, context).map(|()| kind)
    }

    /// Ready once the connection has been idle for `after` and may be parked.
    pub(super) fn poll_idle(&mut self, after: std::time::Duration, context: &mut Context<'_>) -> Poll<()> {
        match self.timeouts.parking_time(self.phase, self.closing_since, after) {
            Some(at) => self.timer.poll_due(at, context),
            None => Poll::Pending,
        }
    }

    /// The client has read data, or nothing is pending.
    pub(super) const fn write_progressed(&mut self) {
        self.write_stalled_since = None;
    }

    /// The client does not read pending data. Ready once the write timeout has expired.
    pub(super) fn poll_write_stalled(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let since = *self.write_stalled_since.get_or_insert_with(|| self.timer.now());
        self.timer.poll_due(since + self.timeouts.write, context)
    }

    /// Ready `timeout` after `since`.
    pub(super) fn poll_after(
        &mut self,
        since: Timestamp,
        timeout: std::time::Duration,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        self.timer.poll_due(since + timeout, context)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.timer.now()
    }
}
