//! Waiting until a destination's pacer lets a call go.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluicegate_engine::clock::{ClockHandle, Sleep};

use super::destination::{Claim, Destination, NotNow, Patience, Place};
use super::error::{Limited, LimitedBy};
use super::pacer::Hold;

/// A call before its destination. Dropping it leaves the line and forgets the alarm.
#[must_use = "futures do nothing unless polled"]
pub(super) struct Gate<'c> {
    destination: &'c Arc<Destination>,
    clock: &'c ClockHandle,
    place: Place,
    patience: Patience,
    alarm: Option<Sleep>,
}

impl<'c> Gate<'c> {
    pub(super) fn new(
        destination: &'c Arc<Destination>,
        clock: &'c ClockHandle,
        place: Place,
        patience: Patience,
    ) -> Self {
        Self { destination, clock, place, patience, alarm: None }
    }
}

impl Future for Gate<'_> {
    type Output = Result<Claim, Limited>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let now = self.clock.now();
            let (until, by) = match self.destination.ask(self.place, now, self.patience, context.waker()) {
                Ok(claim) => return Poll::Ready(Ok(claim)),
                Err(NotNow::Wait(until)) => {
                    let mut alarm = self.clock.sleep_until(until);
                    let rung = Pin::new(&mut alarm).poll(context);
                    self.alarm = Some(alarm);
                    match rung {
                        Poll::Pending => return Poll::Pending,
                        // Time has passed since it was read.
                        Poll::Ready(()) => continue,
                    }
                }
                Err(NotNow::TooLate(until, Hold::Asked)) => (until, LimitedBy::RetryAfter),
                Err(NotNow::TooLate(until, Hold::Budget)) => (until, LimitedBy::Budget),
                Err(NotNow::LineFull(until)) => (until, LimitedBy::LineFull),
            };
            return Poll::Ready(Err(Limited::by_advice(self.destination.name(), by, until - now)));
        }
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.destination.leave(self.place);
    }
}
