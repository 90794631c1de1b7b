//! Wait for a destination's pacer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluicegate_engine::clock::{ClockHandle, Sleep};

use super::destination::{Blocked, CallSlot, Destination, QueueTicket, WaitBounds};
use super::error::{Limited, LimitedBy};
use super::pacer::BlockReason;

/// A call waiting for its destination. Dropping it leaves the queue and cancels the timer.
#[must_use = "futures do nothing unless polled"]
pub(super) struct DestinationWait<'c> {
    destination: &'c Arc<Destination>,
    clock: &'c ClockHandle,
    ticket: QueueTicket,
    bounds: WaitBounds,
    timer: Option<Sleep>,
}

impl<'c> DestinationWait<'c> {
    pub(super) fn new(
        destination: &'c Arc<Destination>,
        clock: &'c ClockHandle,
        ticket: QueueTicket,
        bounds: WaitBounds,
    ) -> Self {
        Self { destination, clock, ticket, bounds, timer: None }
    }
}

impl Future for DestinationWait<'_> {
    type Output = Result<CallSlot, Limited>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let now = self.clock.now();
            let (until, by) = match self.destination.try_claim(self.ticket, now, self.bounds, context.waker()) {
                Ok(claim) => return Poll::Ready(Ok(claim)),
                Err(Blocked::Wait(until)) => {
                    let mut alarm = self.clock.sleep_until(until);
                    let rung = Pin::new(&mut alarm).poll(context);
                    self.timer = Some(alarm);
                    match rung {
                        Poll::Pending => return Poll::Pending,
                        // Time has passed since the clock was read.
                        Poll::Ready(()) => continue,
                    }
                }
                Err(Blocked::DeadlineExceeded(until, BlockReason::RetryAfter)) => (until, LimitedBy::RetryAfter),
                Err(Blocked::DeadlineExceeded(until, BlockReason::Budget)) => (until, LimitedBy::Budget),
                Err(Blocked::QueueFull(until)) => (until, LimitedBy::QueueFull),
            };
            return Poll::Ready(Err(Limited::by_server(self.destination.name(), by, until - now)));
        }
    }
}

impl Drop for DestinationWait<'_> {
    fn drop(&mut self) {
        self.destination.leave(self.ticket);
    }
}
