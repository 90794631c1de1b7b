//! One caller's way in, from arriving to being let in or refused.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use super::line::Ticket;
use super::lines::Standing;
use super::{Entrance, Place, Refusal};
use crate::Timestamp;
use crate::clock::AlarmId;

/// A caller who wants a place. Await it, or wait for it with [`InLine::blocking`].
///
/// It arrives when it is polled first. When others leave is not known, so it is refused at its deadline
/// and not before, unless only a limit of the class stands in its way and would let it in too late.
/// Dropping it leaves the line; a place that was given to it meanwhile goes to the next.
#[must_use = "nothing is acquired until this is awaited or `blocking` is called"]
pub struct InLine {
    entrance: Entrance,
    within: Duration,
    arrived: Option<Timestamp>,
    ticket: Option<Ticket>,
    alarm: Option<AlarmId>,
    done: bool,
}

/// The latest moment there is: never comes.
const NEVER: Timestamp = Timestamp::from_nanos(u64::MAX);

impl InLine {
    pub(super) const fn new(entrance: Entrance, within: Duration) -> Self {
        Self { entrance, within, arrived: None, ticket: None, alarm: None, done: false }
    }

    /// The longest wait, instead of what the class says. [`Duration::MAX`] is as long as it takes. It
    /// changes nothing for who has arrived.
    pub const fn within(mut self, longest: Duration) -> Self {
        self.within = longest;
        self
    }

    /// Waits on this thread.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::pool::{Bulkhead, Class};
    ///
    /// let bulkhead = Bulkhead::builder(1).class("work", Class::new()).build()?;
    /// let work = bulkhead.class("work")?;
    /// let place = work.acquire().blocking()?;
    /// let refusal = work.acquire().within(Duration::from_millis(5)).blocking().unwrap_err();
    /// assert!(refusal.waited >= Duration::from_millis(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn blocking(self) -> Result<Place, Refusal> {
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

    fn stop_alarm(&mut self) {
        if let Some(id) = self.alarm.take() {
            self.entrance.clock().cancel_alarm(id);
        }
    }
}

impl Future for InLine {
    type Output = Result<Place, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.done {
            // Polled again after it was ready: there is nothing more to come.
            return Poll::Pending;
        }
        let (class, waker) = (this.entrance.index(), context.waker());
        let now = this.entrance.clock().now();
        let arrived = *this.arrived.get_or_insert(now);
        let waited = now - arrived;
        let (standing, after) = this.entrance.with_lines(|lines, after| {
            let ticket = match this.ticket {
                Some(ticket) => ticket,
                None => match lines.arrive(class, now, now + this.within, after) {
                    Standing::Waits(ticket, _) => ticket,
                    decided => return decided,
                },
            };
            let standing = lines.look(class, ticket, now, waker, after);
            if !matches!(standing, Standing::Waits(..)) {
                lines.note_wait(class, waited);
            }
            standing
        });
        this.stop_alarm();
        let result = match standing {
            Standing::Waits(ticket, again) => {
                this.ticket = Some(ticket);
                if again < NEVER {
                    this.alarm = Some(this.entrance.clock().set_alarm(again, waker.clone()));
                }
                Poll::Pending
            }
            Standing::In(granted) => {
                (this.ticket, this.done) = (None, true);
                Poll::Ready(Ok(this.entrance.place(granted)))
            }
            Standing::Refused(cause, share) => {
                (this.ticket, this.done) = (None, true);
                Poll::Ready(Err(this.entrance.refusal(cause, share, waited)))
            }
        };
        after.run();
        result
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.stop_alarm();
        if let Some(ticket) = self.ticket.take() {
            let now = self.entrance.clock().now();
            let class = self.entrance.index();
            let ((), after) = self.entrance.with_lines(|lines, after| lines.leave(class, ticket, now, after));
            after.run();
        }
    }
}

impl fmt::Debug for InLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InLine").field("class", &self.entrance.name()).finish_non_exhaustive()
    }
}
