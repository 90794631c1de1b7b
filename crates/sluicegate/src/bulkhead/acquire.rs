//! Future that waits for a permit.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use super::class_queue::Ticket;
use super::queues::QueueResult;
use super::{BulkheadPermit, BulkheadRefusal, ClassHandle};
use crate::Timestamp;
use crate::clock::TimerId;

/// A request for a permit. Await it, or block the thread with [`AcquirePermit::blocking`].
///
/// It joins the queue on the first poll. The release of permits cannot be predicted, so it is refused at its deadline
/// and not before, unless only a limit of the class blocks it and would admit it too late. Dropping it leaves the
/// queue; a permit that was already granted goes to the next waiter.
#[must_use = "nothing is acquired until this is awaited or `blocking` is called"]
pub struct AcquirePermit {
    handle: ClassHandle,
    within: Duration,
    arrived: Option<Timestamp>,
    ticket: Option<Ticket>,
    timer: Option<TimerId>,
    done: bool,
}

/// Timestamp that is never reached.
const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

impl AcquirePermit {
    pub(super) const fn new(handle: ClassHandle, within: Duration) -> Self {
        Self { handle, within, arrived: None, ticket: None, timer: None, done: false }
    }

    /// Sets the maximum wait instead of that of the class. [`Duration::MAX`] waits without a limit. Has no effect
    /// after the first poll.
    pub const fn within(mut self, max_wait: Duration) -> Self {
        self.within = max_wait;
        self
    }

    /// Blocks the thread until the permit is granted or refused.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::bulkhead::{Bulkhead, Class};
    ///
    /// let bulkhead = Bulkhead::builder(1).class("work", Class::new()).build()?;
    /// let work = bulkhead.class("work")?;
    /// let permit = work.acquire().blocking()?;
    /// let refusal = work.acquire().within(Duration::from_millis(5)).blocking().unwrap_err();
    /// assert!(refusal.waited >= Duration::from_millis(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn blocking(self) -> Result<BulkheadPermit, BulkheadRefusal> {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut waiting = pin!(self);
        loop {
            match waiting.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => return result,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    fn cancel_timer(&mut self) {
        if let Some(id) = self.timer.take() {
            self.handle.clock().cancel(id);
        }
    }
}

impl Future for AcquirePermit {
    type Output = Result<BulkheadPermit, BulkheadRefusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.done {
            // Polled again after completion.
            return Poll::Pending;
        }
        let (class, waker) = (this.handle.index(), context.waker());
        let now = this.handle.clock().now();
        let arrived = *this.arrived.get_or_insert(now);
        let waited = now - arrived;
        let (result, after) = this.handle.with_queues(|queues, after| {
            let ticket = match this.ticket {
                Some(ticket) => ticket,
                None => match queues.join(class, now, now + this.within, after) {
                    QueueResult::Queued(ticket, _) => ticket,
                    decided => return decided,
                },
            };
            let result = queues.poll(class, ticket, now, waker, after);
            if !matches!(result, QueueResult::Queued(..)) {
                queues.record_wait(class, waited);
            }
            result
        });
        this.cancel_timer();
        let output = match result {
            QueueResult::Queued(ticket, again) => {
                this.ticket = Some(ticket);
                if again < NEVER {
                    this.timer = Some(this.handle.clock().schedule(again, waker.clone()));
                }
                Poll::Pending
            }
            QueueResult::Admitted(granted) => {
                (this.ticket, this.done) = (None, true);
                Poll::Ready(Ok(this.handle.permit(granted)))
            }
            QueueResult::Refused(cause, share) => {
                (this.ticket, this.done) = (None, true);
                Poll::Ready(Err(this.handle.refusal(cause, share, waited)))
            }
        };
        after.run();
        output
    }
}

impl Drop for AcquirePermit {
    fn drop(&mut self) {
        self.cancel_timer();
        if let Some(ticket) = self.ticket.take() {
            let now = self.handle.clock().now();
            let class = self.handle.index();
            let ((), after) = self.handle.with_queues(|queues, after| queues.leave(class, ticket, now, after));
            after.run();
        }
    }
}

impl fmt::Debug for AcquirePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquirePermit").field("class", &self.handle.name()).finish_non_exhaustive()
    }
}
