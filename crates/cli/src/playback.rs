//! Rules at work in virtual time: nothing sleeps, and every run is the same.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::rule::Request;
use sluicegate_engine::sluice::{Admission, Outcome};
use sluicegate_engine::{Sluice, Timestamp};

/// Rules with a clock that is turned by hand, and the requests that wait in line.
pub(crate) struct Playback {
    pub(crate) sluice: Sluice,
    clock: ManualClock,
    start: Timestamp,
    /// By the number [`Playback::ask`] was given, first come first.
    waiting: Vec<(usize, Admission)>,
}

/// A request whose time in line is over.
pub(crate) struct Turn {
    /// When, since the start.
    pub(crate) at: Duration,
    /// Its number.
    pub(crate) number: usize,
    pub(crate) outcome: Outcome,
}

impl Playback {
    pub(crate) fn new(sluice: Sluice, clock: ManualClock) -> Self {
        let start = clock.now();
        Self { sluice, clock, start, waiting: Vec::new() }
    }

    /// Decides about a request now. `None`: it waits in line, to be known by its number.
    pub(crate) fn ask(&mut self, number: usize, request: &Request<'_>) -> Option<Outcome> {
        let mut admission = self.sluice.admit(request);
        match poll(&mut admission) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => {
                self.waiting.push((number, admission));
                None
            }
        }
    }

    /// Lets time pass up to a moment. Answers whose turn came on the way, in that order.
    pub(crate) fn pass_until(&mut self, moment: Duration) -> Vec<Turn> {
        let mut turns = Vec::new();
        while let Some(alarm) = self.clock.next_alarm().filter(|alarm| *alarm <= self.start + moment) {
            self.clock.set(alarm.max(self.clock.now()));
            self.take_turns(&mut turns);
        }
        self.clock.set(self.start + moment);
        self.take_turns(&mut turns);
        turns
    }

    /// Lets time pass until the next one in line has had its turn.
    pub(crate) fn pass_until_next_turn(&mut self) -> Vec<Turn> {
        let mut turns = Vec::new();
        while turns.is_empty()
            && let Some(alarm) = self.clock.next_alarm()
        {
            self.clock.set(alarm.max(self.clock.now()));
            self.take_turns(&mut turns);
        }
        turns
    }

    fn take_turns(&mut self, turns: &mut Vec<Turn>) {
        let at = self.clock.now() - self.start;
        self.waiting.retain_mut(|(number, admission)| match poll(admission) {
            Poll::Ready(outcome) => {
                turns.push(Turn { at, number: *number, outcome });
                false
            }
            Poll::Pending => true,
        });
    }
}

/// Everybody is asked again whenever the clock moved, so nobody need be woken.
fn poll(admission: &mut Admission) -> Poll<Outcome> {
    Pin::new(admission).poll(&mut Context::from_waker(Waker::noop()))
}
