//! Simulation of rules in virtual time: nothing sleeps, and every run is the same.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::rule::Request;
use sluicegate_engine::sluice::{Admission, Outcome};
use sluicegate_engine::{Sluice, Timestamp};

/// Rules with a manual clock, and the queued requests.
pub(crate) struct Simulation {
    pub(crate) sluice: Sluice,
    clock: ManualClock,
    start: Timestamp,
    /// Queued requests with the index passed to [`Simulation::decide`], in order of arrival.
    waiting: Vec<(usize, Admission)>,
}

/// A request that left the queue.
pub(crate) struct AdmittedRequest {
    /// Time since the start.
    pub(crate) at: Duration,
    /// Index of the request.
    pub(crate) index: usize,
    pub(crate) outcome: Outcome,
}

impl Simulation {
    pub(crate) fn new(sluice: Sluice, clock: ManualClock) -> Self {
        let start = clock.now();
        Self { sluice, clock, start, waiting: Vec::new() }
    }

    /// Decides a request now. `None` if it is queued under this index.
    pub(crate) fn decide(&mut self, index: usize, request: &Request<'_>) -> Option<Outcome> {
        let mut admission = self.sluice.admit(request);
        match poll(&mut admission) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => {
                self.waiting.push((index, admission));
                None
            }
        }
    }

    /// Advances the clock to a time. Returns the requests that left the queue, in that order.
    pub(crate) fn advance_to(&mut self, time: Duration) -> Vec<AdmittedRequest> {
        let mut admitted = Vec::new();
        while let Some(timer) = self.clock.next_timer().filter(|timer| *timer <= self.start + time) {
            self.clock.set(timer.max(self.clock.now()));
            self.collect_admitted(&mut admitted);
        }
        self.clock.set(self.start + time);
        self.collect_admitted(&mut admitted);
        admitted
    }

    /// Advances the clock until the next request leaves the queue.
    pub(crate) fn advance_to_next_admission(&mut self) -> Vec<AdmittedRequest> {
        let mut admitted = Vec::new();
        while admitted.is_empty()
            && let Some(timer) = self.clock.next_timer()
        {
            self.clock.set(timer.max(self.clock.now()));
            self.collect_admitted(&mut admitted);
        }
        admitted
    }

    fn collect_admitted(&mut self, admitted: &mut Vec<AdmittedRequest>) {
        let at = self.clock.now() - self.start;
        self.waiting.retain_mut(|(number, admission)| match poll(admission) {
            Poll::Ready(outcome) => {
                admitted.push(AdmittedRequest { at, index: *number, outcome });
                false
            }
            Poll::Pending => true,
        });
    }
}

/// All requests are polled after each change of the clock, so no wakers are needed.
fn poll(admission: &mut Admission) -> Poll<Outcome> {
    Pin::new(admission).poll(&mut Context::from_waker(Waker::noop()))
}
