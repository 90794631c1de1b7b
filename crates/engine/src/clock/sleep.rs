//! Waiting for a moment of a clock.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{AlarmId, ClockHandle};
use crate::time::Timestamp;

/// Resolves once its moment has come. Dropping it forgets the alarm.
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
    alarm: Option<AlarmId>,
}

impl Sleep {
    /// The moment it waits for.
    pub const fn until(&self) -> Timestamp {
        self.until
    }

    fn stop(&mut self) {
        if let Some(id) = self.alarm.take() {
            self.clock.cancel_alarm(id);
        }
    }
}

impl ClockHandle {
    /// Waits until `until`.
    pub fn sleep_until(&self, until: Timestamp) -> Sleep {
        Sleep { clock: self.clone(), until, alarm: None }
    }

    /// Waits for so long from now.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.until {
            self.stop();
            return Poll::Ready(());
        }
        // The task may have moved to another waker since.
        self.stop();
        self.alarm = Some(self.clock.set_alarm(self.until, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.stop();
    }
}
