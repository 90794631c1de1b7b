//! When an experiment begins, and what follows from what it finds.

use std::time::Duration;

use sluicegate_engine::Timestamp;

use super::estimate::Window;
use super::experiment::Experiment;
use super::{AutoLaw, OFTEN, State};

/// An experiment that finds less than this share of the unloaded time that was known casts doubt on it.
const TOO_LONG: f64 = 0.8;
/// One that finds more than so many times it replaces it.
const TOO_SHORT: f64 = 1.5;
/// The longest time between experiments in lasting overload.
const SELDOM: Duration = Duration::from_secs(16);
/// The shortest between any two.
const PAUSE: Duration = Duration::from_secs(1);

/// What an experiment says about the unloaded time that was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing was known, or something else holds now.
    News,
    /// There may have been a queue in it: the next experiment shall look deeper.
    Doubt,
    /// It is right.
    Confirmed,
}

impl AutoLaw {
    pub(super) fn begin_experiment(&mut self, now: Timestamp, window: &Window) {
        let pace = self.pace.now();
        let least = f64::from(self.spec.least);
        // Best is somewhat less than the server can work on, as far as that is known.
        let known = self.unloaded.filter(|_| self.tried);
        let at_once = self.unloaded.map_or(f64::INFINITY, |unloaded| pace * unloaded);
        let places = match known {
            Some(_) => (self.limit / 2.0).min(0.75 * at_once),
            None => (0.5 * at_once).clamp(self.limit / 3.0, self.limit / 2.0),
        };
        let deep = known.is_none();
        let steady = (pace, self.pace.known_from());
        // Where all is new, nothing has been evened out yet: all there is counts alike.
        let before = if self.unloaded.is_none() { self.crowd.pace() } else { steady };
        self.experiment =
            Some(Experiment::begin(now, places.round().max(least), deep.then_some(least), before, window.time()));
        self.state = State::Probing;
    }

    /// An experiment is over.
    pub(super) fn conclude(&mut self, now: Timestamp, found: Option<f64>, pace: f64) {
        let took = self.experiment.take().map_or(Duration::ZERO, |experiment| experiment.took(now));
        self.rests_until = now + self.jitter.around(PAUSE.max(took * 4));
        self.due = now + self.jitter.around(self.pause_after(took));
        let Some(found) = found.filter(|found| found.is_finite() && *found > 0.0) else { return };
        self.calm.outdated();
        let ratio = self.unloaded.map(|known| found / known);
        let verdict = match ratio {
            None => Verdict::News,
            // Looked deeper out of doubt whether it was too long, and it is not.
            Some(ratio) if self.doubted && !self.tried && ratio >= 1.0 => Verdict::Confirmed,
            Some(ratio) if !self.tried || ratio > TOO_SHORT => Verdict::News,
            Some(ratio) if ratio < TOO_LONG => Verdict::Doubt,
            Some(_) => Verdict::Confirmed,
        };
        let known = self.unloaded.unwrap_or(found);
        self.unloaded = Some(match verdict {
            Verdict::News => found,
            Verdict::Doubt => known + (found - known) * 0.5,
            Verdict::Confirmed => known + (found - known) * 0.3,
        });
        // A mistake on the long side would feed itself: such news, and doubts that last, are looked into once more.
        self.tried = match verdict {
            Verdict::News => ratio.is_some_and(|ratio| ratio <= TOO_SHORT),
            Verdict::Doubt => !self.doubted,
            Verdict::Confirmed => true,
        };
        self.doubted = verdict == Verdict::Doubt;
        self.interval = if verdict == Verdict::Confirmed { (self.interval * 2).min(SELDOM) } else { OFTEN };
        self.due = now + self.jitter.around(self.pause_after(took));
        self.pace.was_tested();
        self.state = State::Steady;
        if verdict == Verdict::News {
            let wanted = self.places_for(pace, found);
            self.state = if wanted > self.limit { State::Growing } else { State::BackingOff };
            self.set_limit(wanted);
        }
    }

    /// How long after an experiment the next is due: what takes long is done seldom, and more and more so while nothing
    /// new is found.
    fn pause_after(&self, took: Duration) -> Duration {
        let confirmed = self.interval.as_secs_f64() / OFTEN.as_secs_f64();
        self.interval.max(took.mul_f64(8.0 * confirmed.clamp(1.0, 4.0)))
    }
}
