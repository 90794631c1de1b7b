//! A deadline that is rarely reached.
//!
//! Nearly every request is over long before its deadline. So the alarm that was set for one request is
//! left standing for the next, as long as it rings no later than needed: who is woken by it looks at the
//! time again. One alarm is set per connection and patience, not one per request.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::{AlarmId, ClockHandle};

/// Wakes a task at its deadline, or earlier.
pub(crate) struct LazyAlarm {
    clock: ClockHandle,
    set: Option<Set>,
}

struct Set {
    at: Timestamp,
    waker: Waker,
    id: AlarmId,
}

impl LazyAlarm {
    pub(crate) const fn new(clock: ClockHandle) -> Self {
        Self { clock, set: None }
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
        let in_time = |set: &Set| now < set.at && set.at <= deadline && set.waker.will_wake(context.waker());
        if !self.set.as_ref().is_some_and(in_time) {
            self.stop();
            let id = self.clock.set_alarm(deadline, context.waker().clone());
            self.set = Some(Set { at: deadline, waker: context.waker().clone(), id });
        }
        Poll::Pending
    }

    /// Waits for a future until the deadline.
    pub(crate) async fn within<T>(&mut self, deadline: Timestamp, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_due(deadline, context).map(|()| None),
        })
        .await
    }

    fn stop(&mut self) {
        if let Some(set) = self.set.take() {
            self.clock.cancel_alarm(set.id);
        }
    }
}

impl Drop for LazyAlarm {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for LazyAlarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyAlarm").field("is_set", &self.set.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate_engine::clock::{Clock, ManualClock};

    use super::*;

    #[test]
    fn one_alarm_serves_many_requests_and_the_deadline_is_exact() {
        let clock = ManualClock::new();
        let mut alarm = LazyAlarm::new(clock.clone().into());
        let mut context = Context::from_waker(Waker::noop());
        let first = clock.now() + Duration::from_secs(10);
        assert!(alarm.poll_due(first, &mut context).is_pending());
        for _ in 0..9 {
            clock.advance(Duration::from_secs(1));
            assert!(alarm.poll_due(clock.now() + Duration::from_secs(10), &mut context).is_pending());
            assert_eq!((clock.alarms(), clock.next_alarm()), (1, Some(first)));
        }
        let sooner = clock.now() + Duration::from_nanos(5);
        assert!(alarm.poll_due(sooner, &mut context).is_pending());
        assert_eq!((clock.alarms(), clock.next_alarm()), (1, Some(sooner)));
        clock.advance(Duration::from_nanos(4));
        assert!(alarm.poll_due(sooner, &mut context).is_pending());
        clock.advance(Duration::from_nanos(1));
        assert!(alarm.poll_due(sooner, &mut context).is_ready());
        drop(alarm);
        assert_eq!(clock.alarms(), 0);
    }
}
