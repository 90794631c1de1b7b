//! Withdrawing places for a moment, to see what was a queue.
//!
//! Stage by stage: half of the places are withdrawn; once those inside have become so few, it is measured how many end
//! per second. As many as before: the places were of no use, the next stage takes half of the rest. Fewer: there is no
//! queue any more, and who is inside, divided by how many end per second, is the time of a request alone.

use std::time::Duration;

use sluicegate_engine::Timestamp;

use super::estimate::Window;
use crate::law::Laps;

/// The share of the former throughput from which on it counts as held.
const HELD: f64 = 0.75;
/// It is clear when the answers differ from that by so many times what chance makes of them.
const CLEAR: f64 = 2.0;
/// The share of the places that a stage leaves.
const LEFT: f64 = 0.5;
/// So many answers are enough for a stage.
const ENOUGH: f64 = 80.0;
/// However clear it seems, fewer than these say little: who is inside from before is not like the others.
const FEWEST: f64 = 60.0;
/// If it is not clear after so many, it will not be.
const MOST: f64 = 200.0;
/// A stage whose places are not given up or not taken is not waited for longer.
const LONGEST: Duration = Duration::from_secs(3);
/// By then nearly all who were inside before are gone, however long they take.
const SETTLED: Duration = Duration::from_secs(1);
/// If places are not taken for so long, the load is gone.
const BRIEF: Duration = Duration::from_millis(500);

/// An experiment under way.
#[derive(Clone, Debug)]
pub(super) struct Experiment {
    places: f64,
    /// How few places there may be; `None`: one stage is enough.
    least: Option<f64>,
    /// Answers per second before.
    pace: f64,
    /// From how many answers that is known.
    known_from: f64,
    /// Seconds that a request took before.
    time: f64,
    began: Timestamp,
    since: Timestamp,
    stage: Stage,
}

/// A stage's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// More are inside than there are places now.
    Drains,
    /// Who is still inside from before has been there for long, and is not like the others: wait until they are gone.
    Settles,
    Measures,
}

/// How it goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    GoesOn,
    /// It is over; with what it found, unless it could not find anything.
    Over {
        unloaded: Option<f64>,
    },
}

impl Experiment {
    /// So many answers it takes, more or less.
    pub(super) const LASTS: f64 = ENOUGH;

    /// Leaves so many places; `least`: and then fewer, down to this. Before, so many were answered per second, known from
    /// so many answers, and took so long.
    pub(super) fn begin(
        now: Timestamp,
        places: f64,
        least: Option<f64>,
        (pace, known_from): (f64, f64),
        time: f64,
    ) -> Self {
        Self { places, least, pace, known_from, time, began: now, since: now, stage: Stage::Drains }
    }

    /// How many places there are for now.
    pub(super) const fn places(&self) -> f64 {
        self.places
    }

    /// Answers per second before it began.
    pub(super) const fn pace(&self) -> f64 {
        self.pace
    }

    /// How long it took until now.
    pub(super) fn took(&self, now: Timestamp) -> Duration {
        now.saturating_since(self.began)
    }

    pub(super) fn step(&mut self, now: Timestamp, in_flight: usize, laps: &mut dyn Laps) -> Next {
        let lasted = now.saturating_since(self.since);
        match self.stage {
            Stage::Drains if in_flight as f64 <= self.places => self.enter(now, Stage::Settles),
            Stage::Drains if lasted > LONGEST => return self.over(laps, None),
            Stage::Settles if lasted.as_secs_f64() >= (1.5 * self.time).min(SETTLED.as_secs_f64()) => {
                laps.take();
                self.enter(now, Stage::Measures);
            }
            Stage::Measures => return self.measure(now, lasted, laps),
            Stage::Drains | Stage::Settles => {}
        }
        Next::GoesOn
    }

    fn enter(&mut self, now: Timestamp, stage: Stage) {
        (self.stage, self.since) = (stage, now);
    }

    fn over(&self, laps: &mut dyn Laps, unloaded: Option<f64>) -> Next {
        laps.take();
        Next::Over { unloaded }
    }

    fn measure(&mut self, now: Timestamp, lasted: Duration, laps: &mut dyn Laps) -> Next {
        let window = Window::of(&laps.look());
        let expected = HELD * self.pace * window.lasted;
        let chance = (expected + expected * expected / self.known_from).sqrt();
        let fell = window.ended <= expected - CLEAR * chance;
        let enough = match self.least {
            None => ENOUGH,
            Some(_) if fell || window.ended >= expected + CLEAR * chance => FEWEST,
            Some(_) => MOST,
        };
        let gone = window.full < 0.5 && lasted >= BRIEF;
        if !gone && window.ended < enough && lasted <= LONGEST {
            return Next::GoesOn;
        }
        if window.ended == 0.0 || window.full < 0.5 {
            return self.over(laps, None);
        }
        let held = if window.ended >= MOST { window.ended >= expected } else { !fell };
        if held
            && let Some(least) = self.least
            && self.places > least
        {
            let known_seconds = self.known_from / self.pace.max(f64::MIN_POSITIVE);
            self.known_from += window.ended;
            self.pace = self.known_from / (known_seconds + window.lasted);
            self.places = (self.places * LEFT).round().max(least);
            self.time *= LEFT;
            self.enter(now, Stage::Drains);
            return Next::GoesOn;
        }
        self.over(laps, Some(window.time()))
    }
}
