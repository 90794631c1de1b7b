//! Reusable deadline timer for deadlines that are rarely reached.
//!
//! Nearly every request finishes long before its deadline. The timer that was armed for one request therefore
//! stays armed for the next, as long as it fires no later than needed; the woken task checks the time again.
//! One timer is armed per connection and timeout, not one per request.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::{ClockHandle, TimerId};

/// Wakes a task at its deadline, or earlier.
pub(crate) struct LazyTimer {
    clock: ClockHandle,
    armed: Option<ArmedTimer>,
}

struct ArmedTimer {
    at: Timestamp,
    waker: Waker,
    id: TimerId,
}

impl LazyTimer {
    pub(crate) const fn new(clock: ClockHandle) -> Self {
        Self { clock, armed: None }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Ready once the deadline has passed.
    pub(crate) fn poll_due(&mut self, deadline: Timestamp, context: &mut Context<'_>) -> Poll<()> {
        let now = self.clock.now();
        if now >= deadline {
            return Poll::Ready(());
        }
        let is_armed = |set: &ArmedTimer| now < set.at && set.at <= deadline && set.waker.will_wake(context.waker());
        if !self.armed.as_ref().is_some_and(is_armed) {
            self.disarm();
            let id = self.clock.schedule(deadline, context.waker().clone());
            self.armed = Some(ArmedTimer { at: deadline, waker: context.waker().clone(), id });
        }
        Poll::Pending
    }

    /// Polls a future until the deadline; `None` if the deadline comes first.
    pub(crate) async fn within<T>(&mut self, deadline: Timestamp, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_due(deadline, context).map(|()| None),
        })
        .await
    }

    fn disarm(&mut self) {
        if let Some(set) = self.armed.take() {
            self.clock.cancel(set.id);
        }
    }
}

impl Drop for LazyTimer {
    fn drop(&mut self) {
        self.disarm();
    }
}

impl fmt::Debug for LazyTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyAlarm").field("is_set", &self.armed.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate_engine::clock::{Clock, ManualClock};

    use super::*;

    #[test]
    fn one_timer_serves_many_requests_and_the_deadline_is_exact() {
        let clock = ManualClock::new();
        let mut timer = LazyTimer::new(clock.clone().into());
        // A clone: without optimisation, the no-op waker and its clones have different vtables and differ.
        let waker = Waker::noop().clone();
        let mut context = Context::from_waker(&waker);
        let first = clock.now() + Duration::from_secs(10);
        assert!(timer.poll_due(first, &mut context).is_pending());
        for _ in 0..9 {
            clock.advance(Duration::from_secs(1));
            assert!(timer.poll_due(clock.now() + Duration::from_secs(10), &mut context).is_pending());
            assert_eq!((clock.pending_timers(), clock.next_timer()), (1, Some(first)));
        }
        let sooner = clock.now() + Duration::from_nanos(5);
        assert!(timer.poll_due(sooner, &mut context).is_pending());
        assert_eq!((clock.pending_timers(), clock.next_timer()), (1, Some(sooner)));
        clock.advance(Duration::from_nanos(4));
        assert!(timer.poll_due(sooner, &mut context).is_pending());
        clock.advance(Duration::from_nanos(1));
        assert!(timer.poll_due(sooner, &mut context).is_ready());
        drop(timer);
        assert_eq!(clock.pending_timers(), 0);
    }
}
