//! Reusable deadline timer for deadlines that are rarely reached.
//!
//! Nearly every request finishes long before its deadline. The timer that was armed for one request therefore
//! stays armed for the next, as long as it fires no later than needed; the woken task checks the time again.
//! One timer is armed per connection and timeout, not one per request.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::{ClockHandle, TimerId};

/// Wakes a task at its deadline, or earlier.
pub struct LazyTimer {
    clock: ClockHandle,
    armed: Option<ArmedTimer>,
}

/// An armed timer this close is armed again. The counters of two CPUs may differ slightly, so a timer may fire just
/// before its deadline as seen here.
const TOLERANCE: Duration = Duration::from_millis(1);

struct ArmedTimer {
    at: Timestamp,
    waker: Waker,
    id: TimerId,
}

impl LazyTimer {
    /// Creates a timer that is not armed.
    pub const fn new(clock: ClockHandle) -> Self {
        Self { clock, armed: None }
    }

    /// The clock's time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Ready once the deadline has passed.
    pub fn poll_due(&mut self, deadline: Timestamp, context: &mut Context<'_>) -> Poll<()> {
        self.poll_due_at(self.clock.now(), deadline, context)
    }

    /// Like [`poll_due`](Self::poll_due), for callers that have read the clock.
    pub fn poll_due_at(&mut self, now: Timestamp, deadline: Timestamp, context: &mut Context<'_>) -> Poll<()> {
        if now >= deadline {
            return Poll::Ready(());
        }
        self.arm(now, deadline, Some(deadline), context.waker());
        Poll::Pending
    }

    /// Wakes the task at `at`, unless a timer is already armed that fires no later than `latest`. It causes another
    /// poll, which arms the timer again.
    pub(crate) fn arm(&mut self, now: Timestamp, at: Timestamp, latest: Option<Timestamp>, waker: &Waker) {
        let is_armed = |armed: &ArmedTimer| {
            now + TOLERANCE < armed.at && latest.is_none_or(|latest| armed.at <= latest) && armed.waker.will_wake(waker)
        };
        if !self.armed.as_ref().is_some_and(is_armed) {
            self.disarm();
            let id = self.clock.schedule(at, waker.clone());
            self.armed = Some(ArmedTimer { at, waker: waker.clone(), id });
        }
    }

    /// Polls a future until the deadline; `None` if the deadline comes first.
    pub async fn within<T>(&mut self, deadline: Timestamp, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_due(deadline, context).map(|()| None),
        })
        .await
    }

    fn disarm(&mut self) {
        if let Some(armed) = self.armed.take() {
            self.clock.cancel(armed.id);
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
        f.debug_struct("LazyTimer").field("is_armed", &self.armed.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
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
