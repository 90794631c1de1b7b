//! Timeouts of a client connection, by phase.

use std::task::{Context, Poll};

use sluicegate_engine::Timestamp;
use sluicegate_net::{TimeoutKind, Timeouts};

use crate::timer::LazyTimer;

/// Phase of a client connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Reading a request head that has started.
    Head,
    /// Idle: waiting for the next request.
    Idle,
}

/// Timeouts of a client connection. One timer serves all of them; it is rearmed only if a deadline moves
/// closer, so ordinary requests do not touch it.
#[derive(Debug)]
pub(super) struct PhaseTimeouts {
    pub(super) timeouts: Timeouts,
    timer: LazyTimer,
    phase: Phase,
    /// Start of the phase.
    phase_since: Timestamp,
    /// Start of the current write stall, if any.
    write_stalled_since: Option<Timestamp>,
    /// Start of the shutdown, if it has started.
    closing_since: Option<Timestamp>,
}

impl PhaseTimeouts {
    /// Timeouts of a connection accepted at `since`; its first head is expected.
    pub(super) const fn new(timeouts: Timeouts, timer: LazyTimer, since: Timestamp) -> Self {
        Self { timeouts, timer, phase: Phase::Head, phase_since: since, write_stalled_since: None, closing_since: None }
    }

    /// Enters a phase now.
    pub(super) fn enter(&mut self, phase: Phase) {
        (self.phase, self.phase_since) = (phase, self.timer.now());
    }

    /// Enters a phase that began at `since`.
    pub(super) const fn enter_at(&mut self, phase: Phase, since: Timestamp) {
        (self.phase, self.phase_since) = (phase, since);
    }

    /// Start of the current phase.
    pub(super) const fn phase_since(&self) -> Timestamp {
        self.phase_since
    }

    /// Bytes of a head may have arrived: leaves the idle phase.
    pub(super) fn begin_head(&mut self) {
        if self.phase == Phase::Idle {
            self.enter(Phase::Head);
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
        let Timeouts { head, idle, drain_grace, .. } = self.timeouts;
        let (deadline, kind) = match (self.phase, self.closing_since) {
            (Phase::Head, _) => (self.phase_since + head, TimeoutKind::Header),
            (Phase::Idle, None) => (self.phase_since + idle, TimeoutKind::Idle),
            (Phase::Idle, Some(closing)) => (self.phase_since.max(closing) + drain_grace, TimeoutKind::Idle),
        };
        self.timer.poll_due(deadline, context).map(|()| kind)
    }

    /// Ready once the connection has been idle for `after` and may be parked.
    pub(super) fn poll_idle(&mut self, after: std::time::Duration, context: &mut Context<'_>) -> Poll<()> {
        match (self.phase, self.closing_since) {
            (Phase::Idle, None) if after < self.timeouts.idle => self.timer.poll_due(self.phase_since + after, context),
            _ => Poll::Pending,
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
