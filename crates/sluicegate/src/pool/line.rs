//! The line of one class, and the limits it stands before.

use std::collections::VecDeque;
use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::status::Counts;
use crate::{Limiter, Pass, Timestamp};

/// A place that was given, with what the limits of the class have taken for it.
#[must_use]
pub(super) struct Granted(pub(super) Option<Pass>);

/// A place in line. Later callers have higher ones, over all classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(pub(super) u64);

/// The line of one class.
pub(super) struct Line {
    pub(super) importance: u8,
    pub(super) max_waiting: usize,
    limiter: Option<Limiter>,
    pub(super) waiters: VecDeque<Waiter>,
    /// What the limits said when they were asked last, if they refused: when they would admit.
    pub(super) held_up: Option<Option<Timestamp>>,
    pub(super) counts: Counts,
}

/// One caller in line.
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) deadline: Timestamp,
    pub(super) waker: Option<Waker>,
    /// Until when it knows it is held up, and has set its alarm.
    pub(super) told: Option<Option<Timestamp>>,
}

impl Line {
    pub(super) fn new(importance: u8, max_waiting: usize, limiter: Option<Limiter>) -> Self {
        let (waiters, counts) = (VecDeque::new(), Counts::default());
        Self { importance, max_waiting, limiter, waiters, held_up: None, counts }
    }

    /// Asks the limits, if there are any. They are asked in no other place, so nobody waits inside them.
    pub(super) fn ask(&mut self, now: Timestamp) -> Option<Granted> {
        self.held_up = None;
        let Some(limiter) = &self.limiter else { return Some(Granted(None)) };
        let mut asked = pin!(limiter.acquire().within(Duration::ZERO).into_future());
        match asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(pass)) => Some(Granted(Some(pass))),
            Poll::Ready(Err(refused)) => {
                self.held_up = Some(refused.retry_after().map(|wait| now + wait));
                None
            }
            Poll::Pending => {
                self.held_up = Some(None);
                None
            }
        }
    }

    pub(super) fn position(&self, ticket: Ticket) -> Option<usize> {
        self.waiters.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }

    pub(super) fn note_wait(&mut self, waited: Duration) {
        self.counts.longest_wait = self.counts.longest_wait.max(waited);
    }
}
