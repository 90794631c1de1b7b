//! Timer of a connection that hyper serves: header, idle, write and shutdown timeouts.
//!
//! The timer is rescheduled only after it has fired or when a deadline has moved closer. So requests that
//! arrive in one piece never touch it, regardless of their number.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;

use super::activity::Activity;
use crate::lazy_timer::LazyTimer;
use crate::timeouts::{ReadPhase, TimeoutKind, Timeouts};

/// Enforces the timeouts of one connection.
pub(crate) struct ConnectionTimer {
    activity: Arc<Activity>,
    timeouts: Timeouts,
    timer: LazyTimer,
    /// Time of the shutdown request for this connection, if any.
    shutdown_requested_at: Option<Timestamp>,
    /// Time at which the listener began to shut down, if it has.
    closing_since: Option<Timestamp>,
    /// Idle time before parking, if parking is useful.
    park_after: Option<Duration>,
}

impl ConnectionTimer {
    pub(crate) const fn new(activity: Arc<Activity>, timeouts: Timeouts, clock: ClockHandle) -> Self {
        Self {
            activity,
            timeouts,
            timer: LazyTimer::new(clock),
            shutdown_requested_at: None,
            closing_since: None,
            park_after: None,
        }
    }

    /// Begins the shutdown: an idle connection stays open for the drain grace, for a request on its way.
    pub(crate) fn begin_shutdown(&mut self) {
        self.closing_since = Some(self.timer.now());
        self.activity.close();
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing_since.is_some()
    }

    /// Sets the idle time before parking; `None` disables parking.
    pub(crate) fn set_park_after(&mut self, after: Option<Duration>) {
        self.park_after = after;
    }

    /// Resolves with the kind of timeout once one expires.
    pub(crate) fn poll_timeout(&mut self, context: &mut Context<'_>) -> Poll<TimeoutKind> {
        let now = self.timer.now();
        let due = self.next_deadline();
        if let Some((at, kind)) = due
            && now >= at
        {
            if kind == TimeoutKind::Idle {
                self.shutdown_requested_at = Some(now);
            }
            return Poll::Ready(kind);
        }
        // With requests in flight there is no deadline, and the next one is no closer than any armed timer, nor than
        // the shortest timeout from now.
        let at = due.map_or_else(|| now + self.timeouts.head.min(self.timeouts.idle), |(at, _)| at);
        self.timer.arm(now, at, due.map(|(at, _)| at), context.waker());
        Poll::Pending
    }

    /// Returns the next deadline and its kind.
    fn next_deadline(&self) -> Option<(Timestamp, TimeoutKind)> {
        let Some(phase) = self.activity.read_phase() else {
            return self.activity.unread_since().map(|since| (since + self.timeouts.write, TimeoutKind::Write));
        };
        let (ReadPhase::Head(since) | ReadPhase::Idle { since, .. }) = phase;
        if let Some(requested_at) = self.shutdown_requested_at {
            return Some((since.max(requested_at) + self.timeouts.head, TimeoutKind::Shutdown));
        }
        let parking_time = |after| self.timeouts.parking_time(phase, self.closing_since, after);
        Some(match self.park_after.and_then(parking_time) {
            Some(at) => (at, TimeoutKind::Park),
            None => self.timeouts.read_deadline(phase, self.closing_since),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use sluicegate_engine::clock::{Clock, ManualClock};

    use super::*;
    use crate::timeouts::{MANY_CONNECTIONS, park_after};

    const TIMEOUTS: Timeouts = Timeouts {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(60),
        write: Duration::from_secs(30),
        drain_grace: Duration::ZERO,
    };

    fn timer_fixture() -> (ManualClock, Arc<Activity>, ConnectionTimer) {
        let clock = ManualClock::new();
        let activity = Activity::new(clock.clone().into());
        (clock.clone(), Arc::clone(&activity), ConnectionTimer::new(activity, TIMEOUTS, clock.into()))
    }

    fn poll(timer: &mut ConnectionTimer) -> Poll<TimeoutKind> {
        // A clone: without optimisation, the no-op waker and its clones have different vtables and differ.
        timer.poll_timeout(&mut Context::from_waker(&Waker::noop().clone()))
    }

    #[test]
    fn header_timeout_fires_exactly_at_its_deadline() {
        let (clock, _activity, mut timer) = timer_fixture();
        assert!(poll(&mut timer).is_pending());
        clock.advance(TIMEOUTS.head - Duration::from_nanos(1));
        assert!(poll(&mut timer).is_pending());
        clock.advance(Duration::from_nanos(1));
        assert_eq!(poll(&mut timer), Poll::Ready(TimeoutKind::Header));
    }

    #[test]
    fn completed_requests_do_not_reschedule_the_timer() {
        let (clock, activity, mut timer) = timer_fixture();
        assert!(poll(&mut timer).is_pending());
        let first = clock.next_timer();
        for _ in 0..100 {
            clock.advance(Duration::from_millis(90));
            activity.record_read();
            let request = activity.begin_request(false, true);
            assert!(poll(&mut timer).is_pending());
            drop(request);
            activity.record_write();
            assert!(poll(&mut timer).is_pending());
            assert_eq!((clock.next_timer(), clock.pending_timers()), (first, 1));
        }
        drop(timer);
        assert_eq!(clock.pending_timers(), 0);
    }

    #[test]
    fn a_new_request_head_moves_the_timer_forward() {
        let (clock, activity, mut timer) = timer_fixture();
        drop(activity.begin_request(false, true));
        assert!(poll(&mut timer).is_pending());
        assert_eq!(clock.next_timer(), Some(clock.now() + TIMEOUTS.idle));
        clock.advance(Duration::from_secs(30));
        activity.record_read();
        assert!(poll(&mut timer).is_pending());
        assert_eq!(clock.next_timer(), Some(clock.now() + TIMEOUTS.head));
    }

    #[test]
    fn idle_connections_park_and_sooner_with_many_connections() {
        assert!(park_after(MANY_CONNECTIONS + 1) < park_after(MANY_CONNECTIONS));
        for connections in [MANY_CONNECTIONS, MANY_CONNECTIONS + 1] {
            let (clock, activity, mut timer) = timer_fixture();
            let after = park_after(connections);
            timer.set_park_after(Some(after));
            drop(activity.begin_request(false, true));
            assert!(poll(&mut timer).is_pending());
            clock.advance(after - Duration::from_nanos(1));
            assert!(poll(&mut timer).is_pending());
            // A connection with unread output is not parked.
            activity.record_write_blocked();
            clock.advance(Duration::from_nanos(1));
            assert!(poll(&mut timer).is_pending());
            activity.record_write();
            clock.advance(after);
            assert_eq!(poll(&mut timer), Poll::Ready(TimeoutKind::Park));
        }
    }

    #[test]
    fn requests_in_flight_never_time_out_and_idle_is_rescheduled() {
        let (clock, activity, mut timer) = timer_fixture();
        let request = activity.begin_request(false, true);
        for _ in 0..10 {
            assert!(poll(&mut timer).is_pending());
            assert!(clock.next_timer().is_some_and(|at| at > clock.now()));
            clock.advance(Duration::from_secs(1_000));
        }
        drop(request);
        let ended = clock.now();
        assert!(poll(&mut timer).is_pending());
        assert_eq!(clock.next_timer(), Some(ended + TIMEOUTS.idle));
    }

    #[test]
    fn shutdown_timeout_starts_after_the_last_response() {
        let (clock, activity, mut timer) = timer_fixture();
        drop(activity.begin_request(true, true));
        clock.advance(TIMEOUTS.idle);
        assert_eq!(poll(&mut timer), Poll::Ready(TimeoutKind::Idle));
        // A request that was already on its way.
        let request = activity.begin_request(true, true);
        clock.advance(TIMEOUTS.idle);
        assert!(poll(&mut timer).is_pending());
        drop(request);
        assert!(poll(&mut timer).is_pending());
        clock.advance(TIMEOUTS.head);
        assert_eq!(poll(&mut timer), Poll::Ready(TimeoutKind::Shutdown));
    }
}
