//! Sees to it that a connection does not take too long over what it is doing.
//!
//! The alarm is set anew only when it has gone off or a deadline has come nearer. So a request whose head
//! comes in one piece does not touch it, however many of them a connection brings.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::{AlarmId, ClockHandle};

use crate::activity::{Activity, Quiet};

/// How long a connection may take over what.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Patience {
    /// The head of a request.
    pub head: Duration,
    /// The time between two requests.
    pub idle: Duration,
    /// The reading of what was sent.
    pub send: Duration,
    /// The time for one more request when the door closes.
    pub parting: Duration,
}

/// How long a connection is kept ready for its next request before it is put away in as little memory as
/// it can do with.
const REST_AFTER: Duration = Duration::from_secs(3);

/// The same where there are many: to put one together again costs less than the memory of all of them.
const REST_AFTER_IN_CROWD: Duration = Duration::from_millis(50);

/// How many are many.
const CROWD: usize = 100;

/// After how long a connection may rest, if there are so many.
pub(crate) const fn rest_after(connections: usize) -> Duration {
    if connections > CROWD { REST_AFTER_IN_CROWD } else { REST_AFTER }
}

/// What took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Late {
    /// A request's head.
    Head,
    /// The next request: the connection is to be asked to leave.
    Idle,
    /// The leaving of a connection that was asked to.
    Leaving,
    /// The client's reading of an answer.
    Reading,
    /// Nothing yet: but nothing has come for so long that the connection may rest.
    Rest,
}

/// An alarm this near is set again. The counters of two cores may disagree by a little, so it may have gone
/// off although its moment has not come here.
const NEAR: Duration = Duration::from_millis(1);

/// Keeps a connection's deadlines.
pub(crate) struct Watchman {
    activity: Arc<Activity>,
    patience: Patience,
    clock: ClockHandle,
    alarm: Option<Alarm>,
    /// When the connection was asked to leave, if it was.
    asked: Option<Timestamp>,
    /// When the door began to close, if it has.
    closing: Option<Timestamp>,
    /// After how long the connection may rest, if that is of use.
    rests: Option<Duration>,
}

/// Wakes whom, and when.
struct Alarm {
    at: Timestamp,
    waker: Waker,
    id: AlarmId,
}

impl Watchman {
    pub(crate) const fn new(activity: Arc<Activity>, patience: Patience, clock: ClockHandle) -> Self {
        Self { activity, patience, clock, alarm: None, asked: None, closing: None, rests: None }
    }

    /// The door closes: whoever is idle gets a last moment for a request that is on its way.
    pub(crate) fn door_closes(&mut self) {
        self.closing = Some(self.clock.now());
        self.activity.close();
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// After how long to tell that the connection may rest, if at all.
    pub(crate) fn tell_rest(&mut self, after: Option<Duration>) {
        self.rests = after.filter(|after| *after < self.patience.idle);
    }

    /// What is late, once something is.
    pub(crate) fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Late> {
        let now = self.clock.now();
        let due = self.due();
        if let Some((at, late)) = due
            && now >= at
        {
            if late == Late::Idle {
                self.asked = Some(now);
            }
            return Poll::Ready(late);
        }
        self.wake(now, due.map(|(at, _)| at), context.waker());
        Poll::Pending
    }

    /// Sees to it that the connection is looked at when it is due. An alarm that is still to come before then
    /// will do: whoever is woken by it looks again. With requests under way nothing is due, and what will be
    /// is no nearer than any alarm that was set before, nor than the shortest patience from now.
    fn wake(&mut self, now: Timestamp, due: Option<Timestamp>, waker: &Waker) {
        let in_time = |alarm: &Alarm| now + NEAR < alarm.at && due.is_none_or(|due| alarm.at <= due);
        if !self.alarm.as_ref().is_some_and(|alarm| in_time(alarm) && alarm.waker.will_wake(waker)) {
            let at = due.unwrap_or(now + self.patience.head.min(self.patience.idle));
            self.stop_alarm();
            let id = self.clock.set_alarm(at, waker.clone());
            self.alarm = Some(Alarm { at, waker: waker.clone(), id });
        }
    }

    fn stop_alarm(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            self.clock.cancel_alarm(alarm.id);
        }
    }

    /// The deadline as things are, and what is late then.
    fn due(&self) -> Option<(Timestamp, Late)> {
        let Some(quiet) = self.activity.quiet() else {
            return self.activity.unread_since().map(|since| (since + self.patience.send, Late::Reading));
        };
        Some(match (quiet, self.asked, self.closing) {
            (Quiet::Head(since) | Quiet::Idle { since, .. }, Some(asked), _) => {
                (since.max(asked) + self.patience.head, Late::Leaving)
            }
            (Quiet::Head(since), None, _) => (since + self.patience.head, Late::Head),
            (Quiet::Idle { since, .. }, None, Some(closing)) => {
                (since.max(closing) + self.patience.parting, Late::Idle)
            }
            (Quiet::Idle { since, settled }, None, None) => match self.rests.filter(|_| settled) {
                Some(after) => (since + after, Late::Rest),
                None => (since + self.patience.idle, Late::Idle),
            },
        })
    }
}

impl Drop for Watchman {
    fn drop(&mut self) {
        self.stop_alarm();
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_engine::clock::{Clock, ManualClock};

    use super::*;

    const PATIENCE: Patience = Patience {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(60),
        send: Duration::from_secs(30),
        parting: Duration::ZERO,
    };

    fn watched() -> (ManualClock, Arc<Activity>, Watchman) {
        let clock = ManualClock::new();
        let activity = Activity::new(clock.clone().into());
        (clock.clone(), Arc::clone(&activity), Watchman::new(activity, PATIENCE, clock.into()))
    }

    fn look(watchman: &mut Watchman) -> Poll<Late> {
        watchman.poll_late(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_head_is_late_at_its_deadline_and_not_before() {
        let (clock, _activity, mut watchman) = watched();
        assert!(look(&mut watchman).is_pending());
        clock.advance(PATIENCE.head - Duration::from_nanos(1));
        assert!(look(&mut watchman).is_pending());
        clock.advance(Duration::from_nanos(1));
        assert_eq!(look(&mut watchman), Poll::Ready(Late::Head));
    }

    #[test]
    fn requests_that_come_and_go_set_no_alarm() {
        let (clock, activity, mut watchman) = watched();
        assert!(look(&mut watchman).is_pending());
        let first = clock.next_alarm();
        for _ in 0..100 {
            clock.advance(Duration::from_millis(90));
            activity.read();
            let request = activity.begin(false, true);
            assert!(look(&mut watchman).is_pending());
            drop(request);
            activity.written();
            assert!(look(&mut watchman).is_pending());
            assert_eq!((clock.next_alarm(), clock.alarms()), (first, 1));
        }
        drop(watchman);
        assert_eq!(clock.alarms(), 0);
    }

    #[test]
    fn a_head_that_begins_late_brings_the_alarm_forward() {
        let (clock, activity, mut watchman) = watched();
        drop(activity.begin(false, true));
        assert!(look(&mut watchman).is_pending());
        assert_eq!(clock.next_alarm(), Some(clock.now() + PATIENCE.idle));
        clock.advance(Duration::from_secs(30));
        activity.read();
        assert!(look(&mut watchman).is_pending());
        assert_eq!(clock.next_alarm(), Some(clock.now() + PATIENCE.head));
    }

    #[test]
    fn who_is_settled_may_rest_and_in_a_crowd_sooner() {
        assert!(rest_after(CROWD + 1) < rest_after(CROWD));
        for connections in [CROWD, CROWD + 1] {
            let (clock, activity, mut watchman) = watched();
            let after = rest_after(connections);
            watchman.tell_rest(Some(after));
            drop(activity.begin(false, true));
            assert!(look(&mut watchman).is_pending());
            clock.advance(after - Duration::from_nanos(1));
            assert!(look(&mut watchman).is_pending());
            // What waits to be read is no rest.
            activity.blocked();
            clock.advance(Duration::from_nanos(1));
            assert!(look(&mut watchman).is_pending());
            activity.written();
            clock.advance(after);
            assert_eq!(look(&mut watchman), Poll::Ready(Late::Rest));
        }
    }

    #[test]
    fn no_request_is_late_and_the_alarm_after_it_is_in_time() {
        let (clock, activity, mut watchman) = watched();
        let request = activity.begin(false, true);
        for _ in 0..10 {
            assert!(look(&mut watchman).is_pending());
            assert!(clock.next_alarm().is_some_and(|at| at > clock.now()));
            clock.advance(Duration::from_secs(1_000));
        }
        drop(request);
        let ended = clock.now();
        assert!(look(&mut watchman).is_pending());
        assert_eq!(clock.next_alarm(), Some(ended + PATIENCE.idle));
    }

    #[test]
    fn who_was_asked_to_leave_has_time_for_it_after_the_last_answer() {
        let (clock, activity, mut watchman) = watched();
        drop(activity.begin(true, true));
        clock.advance(PATIENCE.idle);
        assert_eq!(look(&mut watchman), Poll::Ready(Late::Idle));
        // A request that was on its way already.
        let request = activity.begin(true, true);
        clock.advance(PATIENCE.idle);
        assert!(look(&mut watchman).is_pending());
        drop(request);
        assert!(look(&mut watchman).is_pending());
        clock.advance(PATIENCE.head);
        assert_eq!(look(&mut watchman), Poll::Ready(Late::Leaving));
    }
}
