//! Wait queues of all classes, and the dispatch of free permits.
//!
//! All state is under one lock. After every change, free permits are granted to waiters immediately: a permit is never
//! free while a caller that may use it waits. A waiter receives its permit on its next poll; if it is dropped instead,
//! the permit goes to the next waiter. So no wake-up is lost with a cancelled waiter.
//!
//! Wakers are foreign code: they are collected in [`Wakeups`], and called or dropped after the lock is released.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::task::Waker;
use std::time::Duration;

use super::capacity::{Capacity, ClassCapacity};
use super::class_queue::{ClassQueue, Granted, Ticket, Waiter};
use super::refusal::BulkheadCause;
use super::status::ClassCounts;
use crate::Timestamp;

/// Wakers to call or drop after the lock is released.
#[derive(Default)]
pub(super) struct Wakeups {
    wake: Vec<Waker>,
    discard: Vec<Waker>,
}

impl Wakeups {
    /// Must be called without the lock.
    pub(super) fn run(self) {
        self.wake.into_iter().for_each(Waker::wake);
        drop(self.discard);
    }
}

/// State of a caller.
pub(super) enum QueueResult {
    /// Admitted.
    Admitted(Granted),
    /// In the queue; to be polled again at this time unless woken earlier.
    Queued(Ticket, Timestamp),
    /// Refused, with the state of the class.
    Refused(BulkheadCause, ClassCapacity),
}

/// Wait queues of a bulkhead.
pub(super) struct ClassQueues {
    capacity: Capacity,
    queues: Vec<ClassQueue>,
    /// Permits granted to waiters that have not been polled since.
    granted: HashMap<Ticket, Granted>,
    tickets: u64,
    waiting: usize,
}

impl ClassQueues {
    pub(super) fn new(capacity: Capacity, queues: Vec<ClassQueue>) -> Self {
        Self { capacity, queues, granted: HashMap::new(), tickets: 0, waiting: 0 }
    }

    /// Capacity, and permits in use.
    pub(super) fn total_and_used(&self) -> (usize, usize) {
        (self.capacity.total(), (0..self.queues.len()).map(|class| self.capacity.share(class).used).sum())
    }

    /// Capacity, queue length and counters of a class.
    pub(super) fn class(&self, class: usize) -> (ClassCapacity, usize, ClassCounts) {
        let queue = &self.queues[class];
        (self.capacity.share(class), queue.waiters.len(), queue.counts)
    }

    /// Adds a caller: it is admitted, queued, or refused.
    pub(super) fn join(
        &mut self,
        class: usize,
        now: Timestamp,
        deadline: Timestamp,
        after: &mut Wakeups,
    ) -> QueueResult {
        if self.waiting == 0
            && self.capacity.has_room(class)
            && let Some(granted) = self.queues[class].try_admit(now)
        {
            self.capacity.take(class);
            return self.admit(class, granted);
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let queue = &mut self.queues[class];
        queue.waiters.push_back(Waiter { ticket, deadline, waker: None, timer_until: None });
        self.waiting += 1;
        let result = self.enqueue(class, ticket, now, after);
        let queue = &self.queues[class];
        if let QueueResult::Queued(..) = result
            && queue.waiters.len() > queue.max_waiting
        {
            let waiting = queue.waiters.len() - 1;
            self.remove(class, ticket, after);
            return self.refuse(class, BulkheadCause::QueueFull { waiting });
        }
        result
    }

    /// Polls a queued caller. Replaces its waker.
    pub(super) fn poll(
        &mut self,
        class: usize,
        ticket: Ticket,
        now: Timestamp,
        waker: &Waker,
        after: &mut Wakeups,
    ) -> QueueResult {
        let result = self.enqueue(class, ticket, now, after);
        let queue = &mut self.queues[class];
        if let QueueResult::Queued(..) = result
            && let Some(position) = queue.position(ticket)
        {
            match &mut queue.waiters[position].waker {
                Some(known) if known.will_wake(waker) => {}
                known => after.discard.extend(known.replace(waker.clone())),
            }
        }
        result
    }

    fn enqueue(&mut self, class: usize, ticket: Ticket, now: Timestamp, after: &mut Wakeups) -> QueueResult {
        self.dispatch(now, after);
        if let Some(granted) = self.granted.remove(&ticket) {
            return self.admit(class, granted);
        }
        let has_room = self.capacity.has_room(class);
        let queue = &mut self.queues[class];
        let cause = match queue.blocked_until {
            Some(until) if has_room => BulkheadCause::Limit { retry_after: until.map(|until| until - now) },
            _ => BulkheadCause::NoPermit,
        };
        // A waiter that is not in the queue any more was removed at its deadline.
        let Some(position) = queue.position(ticket) else { return self.refuse(class, cause) };
        let waiter = &mut queue.waiters[position];
        waiter.timer_until = queue.blocked_until.filter(|_| position == 0 && has_room);
        let mut again = waiter.deadline;
        let mut too_late = now >= again;
        if let Some(Some(until)) = waiter.timer_until {
            // The first in the queue knows whether the limit admits it in time.
            too_late |= until > again;
            again = again.min(until);
        }
        if too_late {
            self.remove(class, ticket, after);
            self.dispatch(now, after);
            return self.refuse(class, cause);
        }
        QueueResult::Queued(ticket, again)
    }

    /// Removes a cancelled caller, queued or with a granted permit that it has not received.
    pub(super) fn leave(&mut self, class: usize, ticket: Ticket, now: Timestamp, after: &mut Wakeups) {
        if let Some(Granted(permit)) = self.granted.remove(&ticket) {
            self.capacity.release(class);
            if let Some(permit) = permit {
                permit.give_back();
            }
        } else {
            self.remove(class, ticket, after);
        }
        self.queues[class].counts.cancelled += 1;
        self.dispatch(now, after);
    }

    /// Releases a permit.
    pub(super) fn release(&mut self, class: usize, now: Timestamp, after: &mut Wakeups) {
        self.capacity.release(class);
        self.dispatch(now, after);
    }

    /// Records the queue time of a caller.
    pub(super) fn record_wait(&mut self, class: usize, waited: Duration) {
        self.queues[class].record_wait(waited);
    }

    /// Grants free permits to waiters.
    fn dispatch(&mut self, now: Timestamp, after: &mut Wakeups) {
        if self.waiting == 0 {
            return;
        }
        self.queues.iter_mut().for_each(|queue| queue.blocked_until = None);
        while let Some(class) = self.next(now, after) {
            let queue = &mut self.queues[class];
            match queue.try_admit(now) {
                Some(granted) => {
                    let Some(waiter) = queue.waiters.pop_front() else { return };
                    self.waiting -= 1;
                    self.capacity.take(class);
                    self.granted.insert(waiter.ticket, granted);
                    after.wake.extend(waiter.waker);
                }
                None => {
                    let blocked_until = queue.blocked_until;
                    // The first waiter depends on the clock now: wake it to set its timer.
                    if let Some(first) = queue.waiters.front_mut()
                        && first.timer_until != blocked_until
                    {
                        first.timer_until = blocked_until;
                        after.wake.extend(first.waker.clone());
                    }
                }
            }
        }
    }

    /// The class whose first waiter is admitted next, if any may be.
    fn next(&mut self, now: Timestamp, after: &mut Wakeups) -> Option<usize> {
        let mut next = None;
        for (class, queue) in self.queues.iter_mut().enumerate() {
            while let Some(expired) = queue.waiters.pop_front_if(|first| first.deadline < now) {
                self.waiting -= 1;
                after.wake.extend(expired.waker);
            }
            if let Some(first) = queue.waiters.front()
                && queue.blocked_until.is_none()
                && self.capacity.has_room(class)
            {
                next = next.max(Some((queue.importance, Reverse(first.ticket), class)));
            }
        }
        next.map(|(_, _, class)| class)
    }

    fn remove(&mut self, class: usize, ticket: Ticket, after: &mut Wakeups) {
        let queue = &mut self.queues[class];
        if let Some(removed) = queue.position(ticket).and_then(|position| queue.waiters.remove(position)) {
            self.waiting -= 1;
            after.discard.extend(removed.waker);
        }
    }

    fn admit(&mut self, class: usize, granted: Granted) -> QueueResult {
        self.queues[class].counts.admitted += 1;
        QueueResult::Admitted(granted)
    }

    fn refuse(&mut self, class: usize, cause: BulkheadCause) -> QueueResult {
        let counts = &mut self.queues[class].counts;
        match cause {
            BulkheadCause::NoPermit => counts.no_permit += 1,
            BulkheadCause::QueueFull { .. } => counts.queue_full += 1,
            BulkheadCause::Limit { .. } => counts.over_limit += 1,
        }
        QueueResult::Refused(cause, self.capacity.share(class))
    }
}
