//! A limit of requests inside at once that finds its own value.
//!
//! A server works on some requests at once and lets the others queue. The right limit is somewhat more than it can work
//! on: fewer, and it idles; many more, and everybody queues inside, where nobody can be put first or sent away. How many
//! it works on at once is what it answers per second times the time a request takes without a queue (Little's law), and
//! what it needs above that to stay busy through the ups and downs of chance grows with the root, and has a least:
//!
//! ```text
//! at once = answers per second x unloaded time
//! places  = at once + the larger of (half of at once + 2 x root of at once) and 12
//! ```
//!
//! The first factor is measured whenever all places are taken: then the server gives what it can. The second must not
//! be taken from such times, or a server that is slow with overload would seem to be slow by nature, and the limit would
//! grow with the overload. It comes from two sources only:
//!
//! - **calm** times: no place was short, and on average at most half were taken. Calm times only ever shorten it;
//! - **experiments**: places are withdrawn for a moment. If as many are answered as before, those places were a queue,
//!   and half of the rest is withdrawn; as soon as fewer are answered, there is no queue left, and who is inside,
//!   divided by how many end per second, is the unloaded time.
//!
//! An experiment answers what no reading can: times are long, is it the crowd or the work? With the crowd halved,
//! times that came from the crowd get shorter; a slow dependency's stay, and then more places are right, not fewer. So
//! one is made
//!
//! - when overload begins and nothing is known yet, unless twice the places, which are tried first (`growth.rs`), show that
//!   there is no queue;
//! - when the throughput of a full house falls or rises by much: something else holds now;
//! - now and then in lasting overload, at shaken intervals: soon if the last one found something new, more and more
//!   seldom while they confirm what is known. Those have one stage and take a quarter of the throughput for two tenths
//!   of a second or so.
//!
//! Where something is known already, it is put to the test at once, and what comes of it is watched instead:
//!
//! - all places are taken, and by what is known there are far too many: they are cut (`cut.rs`). If as many are answered as
//!   before, that was right; if fewer, everything takes longer now;
//! - all places are taken, and fewer are answered than in calm: a crowd does not do that, slow work does. There are
//!   more (`growth.rs`) at once, as for all who were answered in calm. If more are answered, that was right.
//!
//! What experiments find while nothing changes is averaged, not minimized: the lowest of many measurements is mostly the
//! luckiest. An unloaded time that is too long by mistake does not stay so, because the places that follow from it, less
//! what an experiment withdraws, are fewer than it says, and the next one finds a shorter time.
//!
//! | what was seen in a window | what follows |
//! |---|---|
//! | places taken most of the time lately, and more come than are answered; or so many more that it is not chance | overload: the formula, or an experiment first |
//! | places taken now and then | a root of the limit more, as far as one and a half times the formula, or the start |
//! | calm | the unloaded time may be shorter than thought; a limit far above what is used sinks towards it |
//! | more failures than usual | a tenth fewer places |
//!
//! "Usual" failures are a slow average: what always fails is not overload, and must not shut the gate.
//!
//! A window lasts for 1.5 response times, at least 100 ms and at most half a second, and has 60 answers if that is possible.
//! Where it has few, what follows from it must be more than chance: counts are compared with the spread they have by
//! nature.
//!
//! **Line.** Without overload, who finds no place waits as long as the rule allows; if it does not say, for twelve unloaded
//! times, at least 100 ms and at most 1.2 s: with few requests per second the next place takes long to become free. In
//! overload a wait only makes answers later: then the line's target is short, half of an unloaded time, for all but
//! the highest class. During an experiment it is five of them, and the highest class waits for up to twice as long as
//! usual, for places come back soon.
//!
//! **A stated longest time** takes the place of 1.5 unloaded times where it is shorter. It cannot be kept by any limit if
//! it is shorter than the unloaded time itself; that is not tried.
//!
//! What this achieves beside the laws of other projects is in `docs/adaptive-bench.md`.

mod cut;
mod estimate;
mod experiment;
mod findings;
mod growth;
mod jitter;
mod notice;
#[cfg(test)]
mod tests;

use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::gate::{Bounds, Orders};
use sluicegate_engine::rule::Auto;

use crate::law::{Laps, Law, Seen, Turn};
use cut::Cut;
use estimate::{Calm, Crowd, Pace, Smooth, Window};
use experiment::{Experiment, Next};
use growth::Growth;
use jitter::Jitter;

/// Places to queue in, for each request that the server can work on at once.
const HEADROOM: f64 = 0.5;
/// And for the root of their number.
const ROOM_FOR_CHANCE: f64 = 2.0;
/// But at least so many: what it takes not to idle by chance hardly depends on how few are worked on at once.
const QUEUE: f64 = 12.0;
/// From which share of the time with all places taken on there is overload.
const OVERLOAD: f64 = 0.75;
/// And so many more must come than are answered, as a share of those: a crowd that is on its way out is none.
const EXCESS: f64 = 0.05;
/// Below which share the overload is over.
const RELIEF: f64 = 0.35;
/// For how long, at least, that must be so.
const BRIEF: Duration = Duration::from_millis(300);
/// Up to which share of it nobody can have been held up.
const CALM: f64 = 0.02;
/// A cut below this share of the limit waits for an experiment, if there was none since it was calm.
const CUT: f64 = 0.85;
/// As does one because the throughput has fallen below this share of the usual.
const SLOWER: f64 = 0.7;
/// With so many times the throughput, and no longer growing, what an experiment found is worth another one.
const MUCH_MORE: f64 = 1.5;
/// Times below this share of the unloaded one show that it was not.
const FASTER: f64 = 0.8;
/// A window of so many seconds is none.
const STALLED: f64 = 5.0;
/// Failures above the usual share that count as overload.
const FAILURES: f64 = 0.05;
/// Who finds no place waits for so many unloaded times, if the rule does not say how long.
const WORTH_A_WAIT: f64 = 12.0;
/// But at least for this.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// And at most for this.
const LONGEST_WAIT: Duration = Duration::from_millis(1_200);
/// From so many answers on it is known how many there are per second.
const SOME_ANSWERS: f64 = 60.0;
/// How many times as many places are tried first of all in overload, when nothing is known yet.
const FIRST_GROWTH: f64 = 2.0;
/// But only if a queue of so many more, should it be one, is gone in so many seconds.
const SOON_GONE: f64 = 0.3;
/// The time between experiments in lasting overload, at first.
const OFTEN: Duration = Duration::from_millis(500);

/// The law of a rule with [`Auto`]. See the [module's head](self).
///
/// ```
/// use sluicegate_adaptive::auto::AutoLaw;
/// use sluicegate_adaptive::law::{Law, MachineFacts, Seen};
/// use sluicegate_adaptive::readings::Readings;
/// use sluicegate_engine::{Timestamp, gate::Gate, rule::Auto};
///
/// let mut gate = Gate::default();
/// let mut law = AutoLaw::new(Auto::default());
/// let seen = Seen { now: Timestamp::ZERO, passing: gate.passing(), readings: &Readings::UNKNOWN, machine: MachineFacts::default() };
/// let turn = law.turn(&seen, &mut gate);
/// assert_eq!(turn.orders.places, Some(20));
/// assert_eq!(turn.notice.state, "learning");
/// ```
#[derive(Clone, Debug)]
pub struct AutoLaw {
    spec: Auto,
    limit: f64,
    /// Seconds that a request takes without a queue. `None`: not known yet.
    unloaded: Option<f64>,
    /// Answers per second while all places are taken.
    pace: Pace,
    /// The share of requests that fails, overload or not.
    failures: f64,
    /// The most that were inside at once, fading.
    peak: f64,
    /// Times in calm that have not been learned from yet.
    calm: Calm,
    experiment: Option<Experiment>,
    /// A cut on trial.
    cut: Option<Cut>,
    /// More places on trial.
    growth: Option<Growth>,
    /// Whether more places have been of no use.
    outgrown: bool,
    /// Answers per second in calm, lately; nothing if there was no calm.
    calm_pace: f64,
    /// Whether one has found something since it was last calm.
    tried: bool,
    /// Whether the last window was slower than usual.
    slower: bool,
    /// Whether the last one cast doubt on what was known.
    doubted: bool,
    /// How long after the unloaded time was learned the next experiment is due in overload.
    interval: Duration,
    due: Timestamp,
    /// No experiment before this.
    rests_until: Timestamp,
    jitter: Jitter,
    /// The share of the time with all places taken, lately.
    fullness: Smooth,
    /// How many more come per second than are answered, lately.
    excess: Smooth,
    /// Who came and who was answered since all places were taken.
    crowd: Crowd,
    overload: bool,
    state: State,
    last: Option<Window>,
}

/// What the law is about, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Learning,
    Steady,
    Growing,
    BackingOff,
    Probing,
}

impl AutoLaw {
    /// A law that knows nothing yet.
    pub fn new(spec: Auto) -> Self {
        Self::with_seed(spec, Jitter::any_seed())
    }

    /// The same, whose experiments come at moments that depend on the seed.
    pub fn with_seed(spec: Auto, seed: u64) -> Self {
        let most = spec.most.max(1);
        let least = spec.least.clamp(1, most);
        let spec = Auto { least, most, start: spec.start.clamp(least, most), ..spec };
        Self {
            spec,
            limit: f64::from(spec.start),
            unloaded: None,
            pace: Pace::default(),
            failures: 0.0,
            peak: 0.0,
            calm: Calm::default(),
            experiment: None,
            cut: None,
            growth: None,
            outgrown: false,
            calm_pace: 0.0,
            tried: false,
            slower: false,
            doubted: false,
            interval: OFTEN,
            due: Timestamp::ZERO,
            rests_until: Timestamp::ZERO,
            jitter: Jitter::new(seed),
            fullness: Smooth::from(0.0),
            excess: Smooth::from(0.0),
            crowd: Crowd::default(),
            overload: false,
            state: State::Learning,
            last: None,
        }
    }

    fn set_limit(&mut self, limit: f64) {
        if limit.is_finite() {
            self.limit = limit.clamp(f64::from(self.spec.least), f64::from(self.spec.most));
        }
    }

    /// Places for so many answers per second.
    fn places_for(&self, pace: f64, unloaded: f64) -> f64 {
        let at_once = pace * unloaded;
        let places = at_once + (HEADROOM * at_once + ROOM_FOR_CHANCE * at_once.sqrt()).max(QUEUE);
        let longest = self.spec.max_rt.map_or(f64::INFINITY, |longest| longest.as_secs_f64());
        // One more than are worked on at least, or it would never be found out that there could be more.
        places.min((pace * longest.max(unloaded)).max(at_once + 1.0))
    }

    /// One window went by without an experiment.
    fn learn(&mut self, now: Timestamp, window: Window) {
        if window.lasted > STALLED {
            // Nobody looked for so long, or the clock was set: such a window says nothing.
            return;
        }
        self.last = Some(window);
        self.peak = (self.peak * 0.98).max(window.peak);
        let failing = window.ended > 0.0 && window.failures > self.failures + FAILURES;
        self.failures += (window.failures - self.failures) * 0.02;
        self.fullness.add(window.full, window.share_of(self.memory(&window)));
        self.excess.add(window.excess(), window.share_of(self.memory(&window)));
        let fullness = self.fullness.value().unwrap_or(0.0);
        let excess = self.excess.value().unwrap_or(0.0);
        self.crowd.add(&window);
        let overrun = fullness >= OVERLOAD && excess >= EXCESS * window.pace;
        self.overload = if self.overload { fullness >= RELIEF } else { overrun || self.crowd.is_overload() };
        if self.overload && fullness < OVERLOAD && self.crowd.is_overload() {
            // Beyond doubt: what was before does not matter any more.
            self.fullness = Smooth::from(1.0);
        }
        if self.try_growth(now, &window) || self.try_cut(now, &window) {
            // What is known is being put to the test.
        } else if self.overload {
            self.keep_up(now, &window);
        } else if window.full <= CALM && window.in_flight <= self.limit / 2.0 {
            self.rest(now, &window);
        } else {
            self.make_room(&window);
        }
        if failing {
            self.set_limit(self.limit * 0.9);
            self.state = State::BackingOff;
        }
    }

    /// How many seconds back it matters whether places were taken. A crowd that is gone after so long was no overload.
    fn memory(&self, window: &Window) -> f64 {
        let some_answers = 60.0 / window.pace.max(8.0);
        let time = self.unloaded.map_or(window.time(), |unloaded| unloaded.min(window.time()));
        (2.0 * time).max(some_answers).clamp(BRIEF.as_secs_f64(), 10.0)
    }

    /// All places were taken: move towards the formula, or find out first.
    fn keep_up(&mut self, now: Timestamp, window: &Window) {
        if window.ended == 0.0 || window.full < OVERLOAD {
            return;
        }
        self.pace.add(window);
        let pace = self.pace.now();
        let Some(unloaded) = self.unloaded else {
            // What it shall be compared with has to be more than chance.
            let (pace, known_from) = self.crowd.pace();
            if known_from >= SOME_ANSWERS {
                match self.outgrown || window.time() > SOON_GONE {
                    // The first windows of all begin before anybody can have been answered.
                    false => self.begin_growth(now, window, FIRST_GROWTH * self.limit, pace.max(window.pace)),
                    true => self.begin_experiment(now, window),
                }
            }
            return;
        };
        // Whatever the load, nobody takes less than the unloaded time: what seemed to be it was longer.
        let time = window.in_flight / pace.max(f64::MIN_POSITIVE);
        let unloaded = if time < FASTER * unloaded {
            (self.tried, self.due) = (false, now);
            self.unloaded = Some(time);
            time
        } else {
            unloaded
        };
        let next = self.places_for(pace, unloaded);
        if pace > MUCH_MORE * self.pace.tested() && (0.9..1.1).contains(&(next / self.limit)) {
            // The last experiment was made with another server, so to speak.
            (self.tried, self.due, self.rests_until) = (false, now, now);
        }
        let slower = pace < SLOWER * self.pace.usual();
        let surprising = if self.tried { slower && self.slower } else { next < self.limit * CUT };
        self.slower = slower;
        if now >= self.rests_until && (now >= self.due || surprising) {
            return self.begin_experiment(now, window);
        }
        self.state = match next / self.limit {
            ratio if ratio > 1.1 => State::Growing,
            ratio if ratio < 0.9 => State::BackingOff,
            _ => State::Steady,
        };
        self.set_limit(next);
    }

    /// Nobody was held up and half of the places were free: what requests take now is what they take.
    fn rest(&mut self, now: Timestamp, window: &Window) {
        self.state = State::Steady;
        self.calm.add(window);
        self.calm_pace += (window.pace - self.calm_pace) * window.share_of(1.0);
        self.unloaded = self.calm.learned(self.unloaded);
        self.tried = false;
        self.interval = OFTEN;
        self.due = now + self.jitter.around(OFTEN);
        let enough = (5.0 * self.peak).max(f64::from(self.spec.start));
        if self.limit > enough {
            self.set_limit(self.limit + (enough - self.limit) * 0.05);
        }
    }

    /// Places were short now and then: more of them cannot do harm while there is no overload.
    fn make_room(&mut self, window: &Window) {
        self.state = State::Steady;
        let formula = self.unloaded.map_or(0.0, |unloaded| 1.5 * self.places_for(window.pace, unloaded));
        let ceiling = formula.max(f64::from(self.spec.start));
        if window.full > CALM && self.limit < ceiling {
            self.set_limit((self.limit + self.limit.sqrt().max(1.0)).min(ceiling));
            self.state = State::Growing;
        }
    }

    fn places(&self) -> f64 {
        self.experiment.as_ref().map_or(self.limit, |experiment| experiment.places()).round()
    }

    /// How long requests may wait for a place: what the rule says, or as long as places take to become free. During an
    /// experiment there may be too few even for the highest class, and soon there are enough again.
    fn patience(&self) -> Duration {
        let known = self.unloaded.or_else(|| self.last.and_then(|window| window.average)).unwrap_or(0.0);
        let worth_it = Duration::try_from_secs_f64(WORTH_A_WAIT * known).unwrap_or(LONGEST_WAIT);
        let worth_it = worth_it.clamp(SHORTEST_WAIT, LONGEST_WAIT);
        let usual = if self.experiment.is_some() { (2 * worth_it).min(LONGEST_WAIT) } else { worth_it };
        self.spec.max_wait.unwrap_or(usual)
    }

    fn orders(&self) -> Orders {
        let unloaded = self.unloaded.unwrap_or(0.0).clamp(0.0, 60.0);
        let patience = self.patience();
        let short = Duration::from_secs_f64(unloaded / 2.0).max(Duration::from_millis(5)).min(patience);
        let target = match self.experiment {
            // There is work for those who come meanwhile, only not at once.
            Some(_) => Duration::from_secs_f64(5.0 * unloaded).clamp(short, patience),
            None if self.overload => short,
            None => patience,
        };
        let line = Bounds { patience, target, most: self.spec.max_waiting as usize };
        Orders { places: Some(self.places().max(1.0) as usize), line, ..Orders::OPEN }
    }
}

impl Law for AutoLaw {
    fn turn(&mut self, seen: &Seen<'_>, laps: &mut dyn Laps) -> Turn {
        let now = seen.now;
        if let Some(experiment) = &mut self.experiment {
            match experiment.step(now, seen.passing.in_flight, laps) {
                Next::GoesOn => {}
                Next::Over { unloaded } => {
                    let pace = experiment.pace();
                    self.conclude(now, unloaded, pace);
                }
            }
        } else if Window::is_over(&laps.look(), self.last.as_ref()) {
            let window = Window::of(&laps.take());
            self.learn(now, window);
        }
        Turn { orders: self.orders(), notice: self.notice(seen) }
    }
}
