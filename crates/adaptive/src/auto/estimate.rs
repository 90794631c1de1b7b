//! What is read off a window of time.

use std::time::Duration;

use sluicegate_engine::gate::Lap;

/// A window lasts at least this.
const SHORTEST: Duration = Duration::from_millis(100);
/// It does not wait longer than this for enough answers.
const LONGEST: Duration = Duration::from_millis(500);
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Calm {
    answered: f64,
    seconds: f64,
    /// Whether these are the first.
    first: bool,
}

impl Default for Calm {
    fn default() -> Self {
        Self { answered: 0.0, seconds: 0.0, first: true }
    }
}

impl Calm {
    const ENOUGH: f64 = 200.0;
    /// The first may be fewer: without any, nothing is known.
    const A_FEW: f64 = 20.0;

    pub(super) fn add(&mut self, window: &Window) {
        if let Some(average) = window.average {
            self.answered += window.answered;
            self.seconds += window.answered * average;
        }
    }

    /// What is known of the unloaded time now. The first answers are averaged; later ones only ever shorten it.
    pub(super) fn learned(&mut self, known: Option<f64>) -> Option<f64> {
        if self.answered == 0.0 {
            return known;
        }
        let average = self.seconds / self.answered;
        let many = self.answered >= if self.first { Self::A_FEW } else { Self::ENOUGH };
        let learned = match known {
            None => average,
            Some(_) if self.first => average,
            Some(known) if many => known.min(known + (average - known) * 0.5),
            Some(known) => known,
        };
        if many {
            *self = Self { first: false, ..Self::default() };
        }
        Some(learned)
    }

    /// Something better is known: what was learned in calm is not the first any more.
    pub(super) fn outdated(&mut self) {
        *self = Self { first: false, ..Self::default() };
    }
}

/// Answers per second while all places are taken: now, and usually.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pace {
    now: Option<f64>,
    /// How far that may be off by chance: the square of the share.
    spread: f64,
    usual: f64,
    tested: Option<f64>,
}

impl Pace {
    pub(super) fn add(&mut self, window: &Window) {
        let Some(now) = self.now else {
            (self.now, self.usual) = (Some(window.pace), window.pace);
            self.spread = 1.0 / window.ended.max(1.0);
            return;
        };
        // What differs much from before is not chance alone.
        let alike = (0.75..1.25).contains(&(window.pace / now));
        let weight = window.weight() * if alike { 0.5 } else { 1.0 };
        let now = now + (window.pace - now) * weight;
        self.now = Some(now);
        self.spread = self.spread * (1.0 - weight) * (1.0 - weight) + weight * weight / window.ended.max(1.0);
        self.usual = (self.usual + (now - self.usual) * 0.05).max(0.8 * now);
    }

    /// As of now.
    pub(super) fn now(&self) -> f64 {
        self.now.unwrap_or(0.0)
    }

    /// From how many answers that is known, so to speak.
    pub(super) fn known_from(&self) -> f64 {
        1.0 / self.spread.max(0.001)
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

/// Who has come and who was answered since all places were taken: what tells overload from chance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Crowd {
    seconds: f64,
    arrived: f64,
    ended: f64,
}

impl Crowd {
    /// From which share of the time on all places count as taken.
    const FULL: f64 = 0.75;
    /// For how many seconds, at least, that must be so.
    const BRIEF: f64 = 0.3;
    /// How many seconds count in full.
    const LONG: f64 = 10.0;
    /// How many times the spread of chance it must be.
    const CLEAR: f64 = 3.0;
    /// And how many make it likely.
    const LIKELY: f64 = 1.6;

    pub(super) fn add(&mut self, window: &Window) {
        if window.full < Self::FULL {
            *self = Self::default();
            return;
        }
        if self.seconds > Self::LONG {
            // What was long ago counts less and less.
            (self.seconds, self.arrived, self.ended) = (self.seconds / 2.0, self.arrived / 2.0, self.ended / 2.0);
        }
        self.seconds += window.lasted;
        self.arrived += window.arrivals * window.lasted;
        self.ended += window.ended;
    }

    /// Answers per second, and how many that is known from.
    pub(super) fn pace(&self) -> (f64, f64) {
        (self.ended / self.seconds.max(f64::MIN_POSITIVE), self.ended)
    }

    /// So many more came than were answered that it is not chance.
    pub(super) fn is_overload(&self) -> bool {
        self.seconds >= Self::BRIEF && self.exceeds(Self::CLEAR)
    }

    /// So many more that it is hardly chance.
    pub(super) fn is_likely_overload(&self) -> bool {
        self.exceeds(Self::LIKELY)
    }

    /// Whether more came than were answered, by so many times the spread of chance.
    fn exceeds(&self, times: f64) -> bool {
        self.arrived - self.ended >= times * (self.arrived + self.ended).sqrt()
    }

    /// Clearly fewer were answered per second than this.
    pub(super) fn is_slower_than(&self, pace: f64) -> bool {
        let expected = pace * self.seconds;
        self.ended > 0.0 && self.ended < expected - Self::CLEAR * expected.sqrt()
    }
}
