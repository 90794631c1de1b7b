//! Sees to it that a connection does not take too long over what it is doing.
//!
//! The timer is set anew only when it has gone off or a deadline has come nearer. So a request whose head
//! comes in one piece costs no timer at all, however many of them a connection brings.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::{ClockHandle, Sleep};

use crate::activity::{Activity, Quiet};

/// How long a connection may take over what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// The head of a request.
    pub(crate) head: Duration,
    /// The time between two requests.
    pub(crate) idle: Duration,
}

/// What took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// A request's head.
    Head,
    /// The next request: the connection is to be asked to leave.
    Idle,
    /// The leaving of a connection that was asked to.
    Leaving,
}

/// Keeps a connection's deadlines.
pub(crate) struct Watchman {
    activity: Arc<Activity>,
    patience: Patience,
    clock: ClockHandle,
    sleep: Option<Sleep>,
    /// When the connection was asked to leave, if it was.
    asked: Option<Timestamp>,
}

impl Watchman {
    pub(crate) const fn new(activity: Arc<Activity>, patience: Patience, clock: ClockHandle) -> Self {
        Self { activity, patience, clock, sleep: None, asked: None }
    }

    /// What is late, once something is.
    pub(crate) fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Late> {
        loop {
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
            // With requests under way there is no deadline, and the next one is no nearer than this.
            let wake_at = due.map_or(now + self.patience.head.min(self.patience.idle), |(at, _)| at);
            let sleep = match &mut self.sleep {
                Some(sleep) if due.is_none() || sleep.until() <= wake_at => sleep,
                sleep => sleep.insert(self.clock.sleep_until(wake_at)),
            };
            match Pin::new(sleep).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => self.sleep = None,
            }
        }
    }

    /// The deadline as things are, and what is late then.
    fn due(&self) -> Option<(Timestamp, Late)> {
        Some(match (self.activity.quiet()?, self.asked) {
            (Quiet::Head(since) | Quiet::Idle(since), Some(asked)) => {
                (since.max(asked) + self.patience.head, Late::Leaving)
            }
            (Quiet::Head(since), None) => (since + self.patience.head, Late::Head),
            (Quiet::Idle(since), None) => (since + self.patience.idle, Late::Idle),
        })
    }
}
