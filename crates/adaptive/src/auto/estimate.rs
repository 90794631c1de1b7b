//! What is read off a window of time.

use std::time::Duration;

use sluicegate_engine::gate::Lap;

/// A window lasts at least this.
const SHORTEST: Duration = Duration::from_millis(100);
/// It does not wait longer than this for enough answers.
const LONGEST: Duration = Duration::from_secs(1);
/// So many answers are enough.
const ENOUGH: u64 = 60;

/// What passed in a window, as plain numbers, none of which is infinite or not a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    /// How many seconds it lasted.
    pub(super) lasted: f64,
    /// Requests that ended per second.
    pub(super) pace: f64,
    /// Requests that arrived per second.
    pub(super) arrivals: f64,
    /// How many ended.
    pub(super) ended: f64,
    /// How many of them were answered well.
    pub(super) answered: f64,
    /// Which share failed.
    pub(super) failures: f64,
    /// Their average time in seconds.
    pub(super) average: Option<f64>,
    /// How many were inside on average.
    pub(super) in_flight: f64,
    /// And at most.
    pub(super) peak: f64,
    /// Which share of the time all places were taken.
    pub(super) full: f64,
}

impl Window {
    /// Whether a lap says enough to be a window, given the one before.
    pub(super) fn is_over(lap: &Lap, before: Option<&Self>) -> bool {
        let time = before.map_or(0.0, Self::time);
        let wanted = Duration::try_from_secs_f64(1.5 * time).unwrap_or(LONGEST).clamp(SHORTEST, LONGEST);
        lap.lasted >= wanted && (lap.answered + lap.failed >= ENOUGH || lap.lasted >= LONGEST)
    }

    /// A lap in numbers.
    pub(super) fn of(lap: &Lap) -> Self {
        let finite = |value: f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
        let (answered, failed) = (lap.answered as f64, lap.failed as f64);
        let ended = answered + failed;
        Self {
            lasted: lap.lasted.as_secs_f64(),
            pace: ended / lap.lasted.as_secs_f64().max(0.001),
            arrivals: lap.arrived as f64 / lap.lasted.as_secs_f64().max(0.001),
            ended,
            answered,
            failures: failed / ended.max(1.0),
            average: lap.average.filter(|average| average.is_finite() && *average > 0.0),
            in_flight: finite(lap.in_flight),
            peak: lap.peak as f64,
            full: finite(lap.full).min(1.0),
        }
    }

    /// How long requests stay inside, by Little's law: unlike the times of those who ended, this does not lag behind
    /// when the limit has just changed.
    pub(super) fn time(&self) -> f64 {
        if self.pace > 0.0 { self.in_flight / self.pace } else { self.average.unwrap_or(0.0) }
    }

    /// How many more came per second than ended.
    pub(super) fn excess(&self) -> f64 {
        self.arrivals - self.pace
    }

    /// Which share of a memory of so many seconds it takes up.
    pub(super) fn share_of(&self, memory: f64) -> f64 {
        (self.lasted / (self.lasted + memory)).clamp(0.0, 1.0)
    }

    /// How much it counts beside what was known: much, unless few answers make it a matter of chance.
    pub(super) fn weight(&self) -> f64 {
        (self.ended / (self.ended + 8.0)).min(0.5)
    }
}

/// A value that follows what is measured, after the first at once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Smooth(Option<f64>);

impl From<f64> for Smooth {
    fn from(value: f64) -> Self {
        Self(Some(value))
    }
}

impl Smooth {
    pub(super) fn add(&mut self, measured: f64, weight: f64) {
        if measured.is_finite() {
            self.0 = Some(self.0.map_or(measured, |value| value + (measured - value) * weight));
        }
    }

    pub(super) const fn value(&self) -> Option<f64> {
        self.0
    }
}

/// Times of requests in calm, pooled until they say something.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Calm {
    answered: f64,
    seconds: f64,
}

impl Calm {
    const ENOUGH: f64 = 200.0;

    pub(super) fn add(&mut self, window: &Window) {
        if let Some(average) = window.average {
            self.answered += window.answered;
            self.seconds += window.answered * average;
        }
    }

    /// The average of all, if they are many; `first`: or any.
    pub(super) fn take(&mut self, first: bool) -> Option<f64> {
        let enough = if first { 1.0 } else { Self::ENOUGH };
        if self.answered < enough {
            return None;
        }
        let Self { answered, seconds } = std::mem::take(self);
        Some(seconds / answered)
    }
}

/// Answers per second while all places are taken: now, and usually.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pace {
    now: Option<f64>,
    usual: f64,
    tested: Option<f64>,
}

impl Pace {
    pub(super) fn add(&mut self, window: &Window) {
        let Some(now) = self.now else {
            (self.now, self.usual) = (Some(window.pace), window.pace);
            return;
        };
        // What differs much from before is not chance alone.
        let alike = (0.75..1.25).contains(&(window.pace / now));
        let weight = window.weight() * if alike { 0.5 } else { 1.0 };
        let now = now + (window.pace - now) * weight;
        self.now = Some(now);
        self.usual = (self.usual + (now - self.usual) * 0.05).max(0.8 * now);
    }

    /// As of now.
    pub(super) fn now(&self) -> f64 {
        self.now.unwrap_or(0.0)
    }

    /// Over many windows.
    pub(super) const fn usual(&self) -> f64 {
        self.usual
    }

    /// As of the last experiment.
    pub(super) fn tested(&self) -> f64 {
        self.tested.unwrap_or(f64::INFINITY)
    }

    /// There was an experiment: from now on, what it is now is usual.
    pub(super) fn was_tested(&mut self) {
        self.usual = self.now();
        self.tested = self.now;
    }
}
