//! By when an answer must have begun.
//!
//! The server's time begins when it has all of the request. As long as the client sends, it is the client's patience that
//! counts, or rather ours with it: an upload may take as long as its parts come in time. So a deadline that is reached is
//! put off if parts have come meanwhile, or if the next one is awaited.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluicegate_engine::Timestamp;

use crate::alarm::LazyAlarm;
use crate::body::BodyFate;

/// A deadline for the head of an answer.
pub(crate) struct Due {
    at: Timestamp,
    patience: Duration,
    /// What becomes of the request's body, if it has one.
    fate: Option<Arc<BodyFate>>,
    /// How much of it had gone when it was last looked at.
    gone: u64,
}

impl Due {
    /// So long from now, or from when the request's body has come.
    pub(crate) fn new(now: Timestamp, patience: Duration, fate: Option<Arc<BodyFate>>) -> Self {
        Self { at: now + patience, patience, fate, gone: 0 }
    }

    /// When it is, as far as is known.
    pub(crate) const fn at(&self) -> Timestamp {
        self.at
    }

    /// Whether it was the client that failed.
    pub(crate) fn is_clients_fault(&self) -> bool {
        self.fate.as_ref().is_some_and(|fate| fate.is_clients_fault())
    }

    /// Ready when it is too late.
    pub(crate) fn poll_late(&mut self, alarm: &mut LazyAlarm, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(alarm.poll_due(self.at, context));
            let Some(fate) = &self.fate else { return Poll::Ready(()) };
            let before = std::mem::replace(&mut self.gone, fate.bytes());
            if self.gone == before && !fate.is_awaited() {
                return Poll::Ready(());
            }
            self.at = alarm.now() + self.patience;
        }
    }
}
