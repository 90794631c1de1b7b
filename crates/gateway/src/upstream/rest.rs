//! When a server rests: what requests themselves tell about it.
//!
//! After [`PATIENCE`] failures in a row a server rests, first for a second, then twice as long each time,
//! up to half a minute. When the rest is over, one request at a time tries it, until an answer came.
//!
//! While nothing fails, this costs one load of an atomic per request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;

/// How many failures in a row are put up with.
const PATIENCE: u32 = 3;
/// The first rest.
const FIRST: Duration = Duration::from_secs(1);
/// The longest rest.
const LONGEST: Duration = Duration::from_secs(30);

/// Whether a server can be sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Like any other.
    Open,
    /// Its rest is over, and this request is the one that tries it.
    Trial(Trial),
    /// It rests until then, or another request tries it and then was when the rest ended.
    Resting(Timestamp),
}

/// Names one trial of one server, so that nobody ends another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trial(u64);

/// What went wrong since the last answer. Knows no clock.
#[derive(Debug, Default)]
struct Trouble {
    /// In a row. Those of requests that were under way when the rest began are not counted.
    failures: u32,
    /// The rest, and how long it is.
    rest: Option<(Timestamp, Duration)>,
    trial: Option<Trial>,
    trials: u64,
}

impl Trouble {
    fn enter(&mut self, now: Timestamp) -> Access {
        match self.rest {
            None => Access::Open,
            Some((until, _)) if now < until || self.trial.is_some() => Access::Resting(until),
            Some(_) => {
                self.trials += 1;
                let trial = Trial(self.trials);
                self.trial = Some(trial);
                Access::Trial(trial)
            }
        }
    }

    fn failed(&mut self, now: Timestamp, trial: Option<Trial>) {
        match self.rest {
            None => {
                self.failures = self.failures.saturating_add(1);
                if self.failures >= PATIENCE {
                    self.rest = Some((now + FIRST, FIRST));
                }
            }
            Some((_, length)) if trial.is_some() && trial == self.trial => {
                self.failures = self.failures.saturating_add(1);
                let length = (length * 2).min(LONGEST);
                self.rest = Some((now + length, length));
                self.trial = None;
            }
            // Sent before the rest began, or because there was nobody else: nothing new.
            Some(_) => {}
        }
    }

    fn answered(&mut self) {
        self.failures = 0;
        self.rest = None;
        self.trial = None;
    }

    fn give_back(&mut self, trial: Trial) {
        if self.trial == Some(trial) {
            self.trial = None;
        }
    }
}

/// The rests of one server.
#[derive(Debug)]
pub(super) struct Rests {
    /// Whether anything failed since the last answer: what is behind the lock matters only then.
    troubled: AtomicBool,
    trouble: Mutex<Trouble>,
    clock: ClockHandle,
}

impl Rests {
    pub(super) fn new(clock: ClockHandle) -> Self {
        Self { troubled: AtomicBool::new(false), trouble: Mutex::default(), clock }
    }

    /// Whether a request can be sent now. A trial must be ended: by an answer, by a failure, or by giving it back.
    #[inline]
    pub(super) fn enter(&self) -> Access {
        if !self.troubled.load(Ordering::Relaxed) {
            return Access::Open;
        }
        let now = self.clock.now();
        self.trouble.lock().enter(now)
    }

    /// An answer came.
    #[inline]
    pub(super) fn answered(&self) {
        if self.troubled.load(Ordering::Relaxed) {
            let mut trouble = self.trouble.lock();
            trouble.answered();
            self.troubled.store(false, Ordering::Relaxed);
        }
    }

    /// A request failed.
    pub(super) fn failed(&self, trial: Option<Trial>) {
        let now = self.clock.now();
        let mut trouble = self.trouble.lock();
        trouble.failed(now, trial);
        self.troubled.store(true, Ordering::Relaxed);
    }

    /// A trial ended without saying anything about the server.
    pub(super) fn give_back(&self, trial: Trial) {
        self.trouble.lock().give_back(trial);
    }

    /// Failures in a row, and how much of a rest is left, if there is one.
    pub(super) fn report(&self) -> (u32, Option<Duration>) {
        let now = self.clock.now();
        let trouble = self.trouble.lock();
        (trouble.failures, trouble.rest.map(|(until, _)| until.saturating_since(now)))
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_engine::clock::{Clock, ManualClock};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rests() -> (ManualClock, Rests) {
        let clock = ManualClock::new();
        (clock.clone(), Rests::new(clock.into()))
    }

    fn fail(rests: &Rests, times: u32) {
        (0..times).for_each(|_| rests.failed(None));
    }

    fn trial(rests: &Rests) -> Trial {
        match rests.enter() {
            Access::Trial(trial) => trial,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rests_after_three_failures_in_a_row_only() {
        let (clock, rests) = rests();
        for _ in 0..10 {
            fail(&rests, 2);
            assert_eq!(rests.enter(), Access::Open);
            rests.answered();
        }
        fail(&rests, 3);
        assert_eq!(rests.enter(), Access::Resting(clock.now() + SECOND));
        assert_eq!(rests.report(), (3, Some(SECOND)));
    }

    #[test]
    fn late_failures_do_not_prolong_a_rest() {
        let (clock, rests) = rests();
        let until = clock.now() + SECOND;
        fail(&rests, 100);
        clock.advance(SECOND / 2);
        fail(&rests, 100);
        assert_eq!(rests.enter(), Access::Resting(until));
        clock.advance(SECOND / 2);
        trial(&rests);
    }

    #[test]
    fn one_request_at_a_time_tries_it() {
        let (clock, rests) = rests();
        fail(&rests, 3);
        clock.advance(SECOND);
        let until = clock.now();
        let first = trial(&rests);
        assert_eq!(rests.enter(), Access::Resting(until));
        rests.give_back(first);
        let second = trial(&rests);
        // The first one is over: it ends nobody else's trial.
        rests.give_back(first);
        rests.failed(Some(first));
        assert_eq!(rests.enter(), Access::Resting(until));
        rests.answered();
        assert_eq!(rests.enter(), Access::Open);
        rests.give_back(second);
        assert_eq!((rests.enter(), rests.report()), (Access::Open, (0, None)));
    }

    #[test]
    fn each_failed_trial_doubles_the_rest_up_to_the_longest() {
        let (clock, rests) = rests();
        fail(&rests, 3);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(rests.report().1, Some(Duration::from_secs(seconds)));
            clock.advance(Duration::from_secs(seconds) - Duration::from_nanos(1));
            assert!(matches!(rests.enter(), Access::Resting(_)));
            clock.advance(Duration::from_nanos(1));
            let trial = trial(&rests);
            rests.failed(Some(trial));
        }
        clock.advance(LONGEST);
        trial(&rests);
        rests.answered();
        fail(&rests, 3);
        assert_eq!(rests.report().1, Some(FIRST), "an answer wipes the slate clean");
    }
}
