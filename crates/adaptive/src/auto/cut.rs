//! A cut on trial.
//!
//! Times are long and all places are taken: by what is known there are too many places. If that is right, fewer of them
//! change nothing for those who are answered. If it is wrong, because everything takes longer now, fewer are answered.
//! So the cut is made at once, and then it is watched what comes of it.

use std::time::Duration;

use sluicegate_engine::Timestamp;

use super::estimate::Window;
use super::experiment::Experiment;
use super::{AutoLaw, CUT, OFTEN, OVERLOAD, State};

/// The share of the former throughput from which on it counts as held.
const HELD: f64 = 0.75;
/// It is clear when the answers differ from that by so many times what chance makes of them.
const CLEAR: f64 = 3.0;
/// If it is not clear by then, nothing has changed by much.
const LONGEST: Duration = Duration::from_secs(5);
/// With less than this share of what was answered in calm, nothing is proved.
const BELOW_CALM: f64 = 0.85;
/// A cut leaves this share of the places, if it should leave fewer: it may be a mistake.
const LEFT: f64 = 1.0 / 3.0;
/// The longest until the next experiment after a cut.
const SELDOM: Duration = Duration::from_secs(60);

/// A cut under way.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// Answers per second before.
    pace: f64,
    /// And how many answers that is known from.
    known_from: f64,
    /// From when on those inside are all of the time after.
    counts_from: Timestamp,
    gives_up: Timestamp,
    answers: f64,
    seconds: f64,
    inside: f64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    /// That is not clear yet.
    Open,
    /// The load is gone, and with it the question.
    Gone,
    /// As many are answered as before.
    Held,
    /// Fewer: so many seconds are what a request takes.
    Fell {
        /// In seconds.
        time: f64,
    },
}

impl Cut {
    pub(super) fn begin(now: Timestamp, places: f64, window: &Window) -> Self {
        let drains = (window.in_flight - places).max(0.0) / window.pace.max(f64::MIN_POSITIVE);
        let settles = window.time();
        let wait = Duration::try_from_secs_f64(drains + settles).unwrap_or(LONGEST).min(LONGEST);
        Self {
            pace: window.pace,
            known_from: window.ended.max(1.0),
            counts_from: now + wait,
            gives_up: now + wait + LONGEST,
            answers: 0.0,
            seconds: 0.0,
            inside: 0.0,
        }
    }

    /// Answers per second before it.
    pub(super) const fn pace(&self) -> f64 {
        self.pace
    }

    /// Answers per second since.
    fn pace_since(&self) -> f64 {
        self.answers / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// A window went by.
    pub(super) fn add(&mut self, now: Timestamp, window: &Window) -> Outcome {
        let whole = Duration::from_secs_f64(window.lasted.min(LONGEST.as_secs_f64()));
        if now < self.counts_from + whole {
            return Outcome::Open;
        }
        if window.full < 0.5 {
            return Outcome::Gone;
        }
        self.answers += window.ended;
        self.seconds += window.lasted;
        self.inside += window.in_flight * window.lasted;
        let expected = HELD * self.pace * self.seconds;
        let chance = (expected + expected * expected / self.known_from).sqrt();
        if self.answers >= expected + chance || now >= self.gives_up {
            return Outcome::Held;
        }
        if self.answers <= expected - CLEAR * chance && self.answers > 0.0 {
            return Outcome::Fell { time: self.inside / self.answers };
        }
        Outcome::Open
    }
}

impl AutoLaw {
    /// Goes on with a cut that is on trial, or begins one. Answers whether one is.
    pub(super) fn try_cut(&mut self, now: Timestamp, window: &Window) -> bool {
        let Some(cut) = &mut self.cut else { return self.begin_cut(now, window) };
        match cut.add(now, window) {
            Outcome::Open => return true,
            Outcome::Gone => {}
            // As many as when it began, but it began when everything had become slow already: in calm there were more.
            Outcome::Held if cut.pace_since() < BELOW_CALM * self.calm_pace => self.due = now,
            Outcome::Held => {
                self.tried = true;
                self.pace.was_tested();
                self.due = now + self.jitter.around(after_a_cut(window));
            }
            Outcome::Fell { time } => {
                let pace = cut.pace();
                self.conclude(now, Some(time), pace);
            }
        }
        self.cut = None;
        true
    }

    fn begin_cut(&mut self, now: Timestamp, window: &Window) -> bool {
        let Some(unloaded) = self.unloaded.filter(|_| !self.tried) else { return false };
        let enough = self.places_for(window.pace, unloaded);
        let crowded = window.full >= OVERLOAD && window.ended > 0.0 && self.crowd.is_likely_overload();
        if !crowded || enough >= self.limit * CUT {
            return false;
        }
        let places = enough.max(self.limit * LEFT);
        self.cut = Some(Cut::begin(now, places, window));
        self.set_limit(places);
        self.state = State::BackingOff;
        true
    }
}

/// How long after a cut that held the next experiment is due: it was as good as one.
fn after_a_cut(window: &Window) -> Duration {
    let takes = Experiment::LASTS / window.pace.max(1.0) + 2.5 * window.time();
    Duration::try_from_secs_f64(8.0 * takes).unwrap_or(SELDOM).clamp(OFTEN * 8, SELDOM)
}
