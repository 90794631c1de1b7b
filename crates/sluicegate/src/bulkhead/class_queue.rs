//! Wait queue of one class, with its limits.

use std::collections::VecDeque;
use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::status::ClassCounts;
use crate::{Limiter, Permit, Timestamp};

/// A granted permit, with the permit of the limits of the class.
#[must_use]
pub(super) struct Granted(pub(super) Option<Permit>);

/// Position of a caller. Increases in order of arrival, over all classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(pub(super) u64);

/// Wait queue of one class.
pub(super) struct ClassQueue {
    pub(super) importance: u8,
    pub(super) max_waiting: usize,
    limiter: Option<Limiter>,
    pub(super) waiters: VecDeque<Waiter>,
    /// Set if the limits refused the last check: the time at which they would admit, if known.
    pub(super) blocked_until: Option<Option<Timestamp>>,
    pub(super) counts: ClassCounts,
}

/// A queued caller.
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) deadline: Timestamp,
    pub(super) waker: Option<Waker>,
    /// Value of `blocked_until` for which the waiter has set its timer.
    pub(super) timer_until: Option<Option<Timestamp>>,
}

impl ClassQueue {
    pub(super) fn new(importance: u8, max_waiting: usize, limiter: Option<Limiter>) -> Self {
        let (waiters, counts) = (VecDeque::new(), ClassCounts::default());
        Self { importance, max_waiting, limiter, waiters, blocked_until: None, counts }
    }

    /// Checks the limits, if there are any. They are checked only here, so their own queues stay empty.
    pub(super) fn try_admit(&mut self, now: Timestamp) -> Option<Granted> {
        self.blocked_until = None;
        let Some(limiter) = &self.limiter else { return Some(Granted(None)) };
        let mut acquire = pin!(limiter.acquire().within(Duration::ZERO).into_future());
        match acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(permit)) => Some(Granted(Some(permit))),
            Poll::Ready(Err(refused)) => {
                self.blocked_until = Some(refused.retry_after().map(|wait| now + wait));
                None
            }
            Poll::Pending => {
                self.blocked_until = Some(None);
                None
            }
        }
    }

    pub(super) fn position(&self, ticket: Ticket) -> Option<usize> {
        self.waiters.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }

    pub(super) fn record_wait(&mut self, waited: Duration) {
        self.counts.max_wait = self.counts.max_wait.max(waited);
    }
}
