//! Future that sleeps on a clock.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{ClockHandle, TimerId};
use crate::time::Timestamp;

/// Future that completes at a deadline. Dropping it cancels the timer.
///
/// ```
/// use sluicegate_engine::clock::{ClockHandle, ManualClock};
/// use std::future::Future;
/// use std::pin::pin;
/// use std::task::{Context, Waker};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let mut sleep = pin!(ClockHandle::new(clock.clone()).sleep(Duration::from_secs(1)));
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(sleep.as_mut().poll(&mut context).is_pending());
/// clock.advance(Duration::from_secs(1));
/// assert!(sleep.as_mut().poll(&mut context).is_ready());
/// ```
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Sleep {
    clock: ClockHandle,
    until: Timestamp,
    timer: Option<TimerId>,
}

impl Sleep {
    /// The deadline.
    pub const fn until(&self) -> Timestamp {
        self.until
    }

    fn cancel(&mut self) {
        if let Some(id) = self.timer.take() {
            self.clock.cancel(id);
        }
    }
}

impl ClockHandle {
    /// Sleeps until `until`.
    pub fn sleep_until(&self, until: Timestamp) -> Sleep {
        Sleep { clock: self.clone(), until, timer: None }
    }

    /// Sleeps for `duration` from now.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.until {
            self.cancel();
            return Poll::Ready(());
        }
        // The task may have been polled with another waker before.
        self.cancel();
        self.timer = Some(self.clock.schedule(self.until, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}
