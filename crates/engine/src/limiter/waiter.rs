//! Future of a caller in a wait queue, from joining to leaving.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{LimiterCore, RefusalReason};
use crate::clock::TimerId;
use crate::decision::{Decision, Verdict};
use crate::table::KeyHash;
use crate::time::Timestamp;
use crate::wait::{JoinError, JoinRequest, Ticket};

/// Acquisition that may have to wait in a queue.
pub(crate) trait QueuedAcquire: Unpin {
    /// Value returned on admission.
    type Permit;
    /// Value returned on refusal.
    type Refusal;

    /// Limiter that owns the queue.
    fn limiter(&self) -> &Arc<LimiterCore>;
    /// Key of the queue.
    fn key(&self) -> KeyHash;
    /// Cost charged to that limiter.
    fn cost(&self) -> u64;
    /// Tries to acquire now. If another limiter has to release permits first, `waker` is registered there.
    fn try_acquire(&mut self, now: Timestamp, waker: &Waker) -> AcquireResult<Self::Permit>;
    /// Maximum wait by the last refusal, counted from the arrival.
    fn max_wait(&self) -> Option<Duration> {
        None
    }
    /// True if it may join a full queue.
    fn ignores_capacity(&self) -> bool {
        false
    }
    /// Called after joining the queue.
    fn on_joined(&mut self, _now: Timestamp) {}
    /// Called on refusal.
    fn refuse(&mut self, decision: Decision, reason: RefusalReason) -> Self::Refusal;
}

/// Result of an attempt to acquire.
pub(crate) enum AcquireResult<P> {
    /// Acquired.
    Admitted(P),
    /// Not yet; wait as the decision says.
    NotYet(Decision),
    /// Refused; waiting is pointless.
    Refused(Decision),
}

/// Caller in a wait queue, or about to join it. Dropping it leaves the queue.
pub(crate) struct QueueWaiter<T: QueuedAcquire> {
    acquire: T,
    timeout: Option<Duration>,
    arrived: Option<Timestamp>,
    ticket: Option<Ticket>,
    timer: Option<TimerId>,
}

/// Maximum timestamp, used for callers without a deadline.
const NO_DEADLINE: Timestamp = Timestamp::from_nanos(u64::MAX);

impl<T: QueuedAcquire> QueueWaiter<T> {
    pub(crate) const fn new(acquire: T, timeout: Option<Duration>) -> Self {
        Self { acquire, timeout, arrived: None, ticket: None, timer: None }
    }

    /// The acquisition that waits.
    pub(crate) const fn acquire_mut(&mut self) -> &mut T {
        &mut self.acquire
    }

    /// Deadline of the wait. Sets the arrival time to `now` on the first call.
    fn deadline(&mut self, now: Timestamp) -> Timestamp {
        let arrived = *self.arrived.get_or_insert(now);
        let max_wait = self.timeout.into_iter().chain(self.acquire.max_wait()).min();
        max_wait.map_or(NO_DEADLINE, |max_wait| arrived + max_wait)
    }

    /// Acquires immediately or joins the queue. Returns the result unless it has joined.
    fn arrive(&mut self, now: Timestamp, deadline: Timestamp, waker: &Waker) -> Option<Result<T::Permit, T::Refusal>> {
        let (key, cost) = (self.acquire.key(), self.acquire.cost());
        let decision = if cost > 0 && self.acquire.limiter().has_waiters(key) {
            self.acquire.limiter().denial_behind_queue(key, now, cost)
        } else {
            match self.acquire.try_acquire(now, waker) {
                AcquireResult::Admitted(permit) => return Some(Ok(permit)),
                AcquireResult::Refused(decision) => {
                    return Some(Err(self.acquire.refuse(decision, RefusalReason::Limit)));
                }
                AcquireResult::NotYet(decision) => decision,
            }
        };
        if let Some(reason) = self.give_up_reason(&decision, now, deadline) {
            return Some(Err(self.acquire.refuse(decision, reason)));
        }
        let limiter = self.acquire.limiter();
        let (limit_set, state) = limiter.snapshot(key, now);
        let request = JoinRequest { cost, deadline, ignores_capacity: self.acquire.ignores_capacity() };
        match limiter.queue.join(key, &limit_set, state, now, request) {
            Ok(ticket) => {
                self.ticket = Some(ticket);
                self.acquire.on_joined(now);
                None
            }
            Err(JoinError::Full) => Some(Err(self.acquire.refuse(decision, RefusalReason::QueueFull))),
            Err(JoinError::TooLate(expected_at)) => {
                let verdict = Verdict::Denied { retry_after: Some(expected_at - now) };
                Some(Err(self.acquire.refuse(Decision { verdict, ..decision }, RefusalReason::Deadline)))
            }
        }
    }

    /// Polls a queued caller: acquires if it is first and the limits admit it, otherwise schedules a wakeup.
    fn wait(&mut self, now: Timestamp, deadline: Timestamp, waker: &Waker) -> Poll<Result<T::Permit, T::Refusal>> {
        let Some(ticket) = self.ticket else { return Poll::Pending };
        let (key, cost) = (self.acquire.key(), self.acquire.cost());
        if !self.acquire.limiter().queue.is_first(key, ticket, waker) {
            if now > deadline {
                self.leave(None);
                let decision = self.acquire.limiter().denial_behind_queue(key, now, cost);
                return Poll::Ready(Err(self.acquire.refuse(decision, RefusalReason::Deadline)));
            }
            // The caller ahead may still leave exactly at the deadline.
            self.wake_at(deadline + Duration::from_nanos(1), waker);
            return Poll::Pending;
        }
        let decision = match self.acquire.try_acquire(now, waker) {
            AcquireResult::Admitted(permit) => {
                self.leave(Some(now));
                return Poll::Ready(Ok(permit));
            }
            AcquireResult::Refused(decision) => return self.give_up(decision, RefusalReason::Limit),
            AcquireResult::NotYet(decision) => decision,
        };
        // Another rule may refuse now, with a shorter maximum wait.
        let deadline = deadline.min(self.deadline(now));
        if let Some(reason) = self.give_up_reason(&decision, now, deadline) {
            return self.give_up(decision, reason);
        }
        let wake_time = decision.wait().map_or(deadline, |wait| now + wait);
        self.wake_at(wake_time.min(deadline), waker);
        Poll::Pending
    }

    /// Reason to give up waiting, if it is pointless.
    fn give_up_reason(&self, decision: &Decision, now: Timestamp, deadline: Timestamp) -> Option<RefusalReason> {
        let min_wait = match decision.verdict {
            Verdict::Allowed | Verdict::Wait(_) => return None,
            Verdict::Never => return Some(RefusalReason::Limit),
            Verdict::Denied { retry_after: Some(wait) } => wait,
            Verdict::Denied { retry_after: None } if now >= deadline => return Some(RefusalReason::Deadline),
            Verdict::Denied { retry_after: None } => {
                self.acquire.limiter().min_wait(self.acquire.key(), now, self.acquire.cost())
            }
        };
        (now + min_wait > deadline).then_some(RefusalReason::Deadline)
    }

    fn give_up(&mut self, decision: Decision, reason: RefusalReason) -> Poll<Result<T::Permit, T::Refusal>> {
        self.leave(None);
        Poll::Ready(Err(self.acquire.refuse(decision, reason)))
    }

    fn wake_at(&mut self, at: Timestamp, waker: &Waker) {
        self.cancel_timer();
        if at < NO_DEADLINE {
            self.timer = Some(self.acquire.limiter().clock.schedule(at, waker.clone()));
        }
    }

    fn cancel_timer(&mut self) {
        if let Some(id) = self.timer.take() {
            self.acquire.limiter().clock.cancel(id);
        }
    }

    fn leave(&mut self, admitted_at: Option<Timestamp>) {
        self.cancel_timer();
        if let Some(ticket) = self.ticket.take() {
            self.acquire.limiter().queue.leave(self.acquire.key(), ticket, admitted_at);
        }
    }
}

impl<T: QueuedAcquire> Future for QueueWaiter<T> {
    type Output = Result<T::Permit, T::Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let now = this.acquire.limiter().clock.now();
        let deadline = this.deadline(now);
        if this.ticket.is_none()
            && let Some(result) = this.arrive(now, deadline, context.waker())
        {
            return Poll::Ready(result);
        }
        this.wait(now, deadline, context.waker())
    }
}

impl<T: QueuedAcquire> Drop for QueueWaiter<T> {
    fn drop(&mut self) {
        self.leave(None);
    }
}
