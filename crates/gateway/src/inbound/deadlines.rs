//! How long a client may take over what it is doing.

use std::task::{Context, Poll};

use sluicegate_door::{Late, Patience};
use sluicegate_engine::Timestamp;

use crate::alarm::LazyAlarm;

/// What is awaited of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// The rest of a head that has begun.
    Head,
    /// Another request.
    Request,
}

/// A client's deadlines. One alarm serves them all: it is set anew only where a deadline has come nearer, so that
/// requests which come and go do not touch it.
#[derive(Debug)]
pub(super) struct Deadlines {
    pub(super) patience: Patience,
    alarm: LazyAlarm,
    awaited: Awaited,
    /// Since when that is awaited.
    since: Timestamp,
    /// Since when the client has not read on, if it does not.
    unread: Option<Timestamp>,
    /// When the gateway began to stop, if it has.
    closing: Option<Timestamp>,
}

impl Deadlines {
    /// Of a client that connected then: its first head is awaited.
    pub(super) const fn new(patience: Patience, alarm: LazyAlarm, since: Timestamp) -> Self {
        Self { patience, alarm, awaited: Awaited::Head, since, unread: None, closing: None }
    }

    /// From now on this is awaited.
    pub(super) fn await_now(&mut self, awaited: Awaited) {
        (self.awaited, self.since) = (awaited, self.alarm.now());
    }

    /// This has been awaited since then.
    pub(super) const fn await_since(&mut self, awaited: Awaited, since: Timestamp) {
        (self.awaited, self.since) = (awaited, since);
    }

    /// Since when what is awaited is awaited.
    pub(super) const fn since(&self) -> Timestamp {
        self.since
    }

    /// The first byte of a head may have come.
    pub(super) fn head_begins(&mut self) {
        if self.awaited == Awaited::Request {
            self.await_now(Awaited::Head);
        }
    }

    /// The gateway begins to stop.
    pub(super) fn close(&mut self) {
        self.closing.get_or_insert(self.alarm.now());
    }

    pub(super) const fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// What has been awaited for too long, once it has.
    pub(super) fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Late> {
        let Patience { head, idle, parting, .. } = self.patience;
        let (deadline, late) = match (self.awaited, self.closing) {
            (Awaited::Head, _) => (self.since + head, Late::Head),
            (Awaited::Request, None) => (self.since + idle, Late::Idle),
            (Awaited::Request, Some(closing)) => (self.since.max(closing) + parting, Late::Idle),
        };
        self.alarm.poll_due(deadline, context).map(|()| late)
    }

    /// Whether nothing has come for so long that the connection should rest.
    pub(super) fn poll_rest(&mut self, after: std::time::Duration, context: &mut Context<'_>) -> Poll<()> {
        match (self.awaited, self.closing) {
            (Awaited::Request, None) if after < self.patience.idle => self.alarm.poll_due(self.since + after, context),
            _ => Poll::Pending,
        }
    }

    /// The client reads on, or there is nothing for it to read.
    pub(super) const fn reads(&mut self) {
        self.unread = None;
    }

    /// What the client should read cannot be sent. Ready once that has been so for too long.
    pub(super) fn poll_unread(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let since = *self.unread.get_or_insert_with(|| self.alarm.now());
        self.alarm.poll_due(since + self.patience.send, context)
    }

    /// Ready so long after `since`.
    pub(super) fn poll_after(
        &mut self,
        since: Timestamp,
        patience: std::time::Duration,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        self.alarm.poll_due(since + patience, context)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.alarm.now()
    }
}
