//! A ceiling that holds while conditions on signals do.
//!
//! ```text
//!            all (or any) hold              for long enough
//!   closed ------------------> entering --------------------> limited <-----------+
//!     ^  ^                        |                              |                | the conditions hold again:
//!     |  +------------------------+          over for long enough|                | back to the ceiling
//!     |         one stopped holding                              v                |
//!     +---------------------------------------------------- recovering -----------+
//!        for a while nobody was refused                    the ceiling rises
//! ```
//!
//! **Why leaving is not "not entering".** The ceiling itself makes times shorter and leaves fewer requests inside. If
//! it ended when the conditions do, it would come and go for as long as the overload lasts. So it ends by separate
//! exit values, after a least time, and then not at once: it rises until nobody is refused. As long as more comes than
//! the service can do, somebody is, or the conditions hold again on the way up and the ceiling falls back. Every time
//! that happens the next attempt waits twice as long, up to thirty-two times: a little too much, for long, would make it
//! come and go otherwise. It only waits so long while as many come as did then; once clearly fewer do, the next attempt is
//! made as soon as the first one was.
//!
//! **When a strain is over.** With `all`, once one of the conditions has come back beyond its exit value: a load over
//! five minutes stays high for minutes after the strain. With `any`, once all have.
//!
//! **What cannot be read** does not hold, and is said in the notice. While requests come and none is answered, there
//! are no response times either: they are taken to be as long as that has been so.
//!
//! ```
//! use std::time::Duration;
//! use sluicegate_adaptive::{conditions::Strain, law::{Law, MachineFacts, Seen}, readings::Readings};
//! use sluicegate_engine::{Timestamp, gate::{Gate, Passing}};
//! use sluicegate_engine::rule::{Ceiling, Comparison, Condition, Most, Signal};
//!
//! let busy = Condition::new(Signal::Cpu, Comparison::Above, 0.9);
//! let mut law = Strain::new(Ceiling::new([busy], Most::Rate { count: 100, window: Duration::from_secs(1) }));
//!
//! let mut readings = Readings::UNKNOWN;
//! readings.set(Signal::Cpu, Some(0.97));
//! let mut gate = Gate::default();
//! let mut at = |millis: u64| {
//!     let now = Timestamp::from_nanos(millis * 1_000_000);
//!     let (passing, machine) = (Passing::default(), MachineFacts::default());
//!     law.turn(&Seen { now, passing, readings: &readings, machine }, &mut gate)
//! };
//! assert_eq!(at(0).notice.state, "entering");
//! let turn = at(750);
//! assert_eq!(turn.notice.reason, "cpu 97% > 90%: at most 100 per 1s");
//! assert_eq!(turn.orders.rate.unwrap().count, 100.0);
//! ```

mod capacity;
mod watched;

use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::gate::{Height, Notice, Orders, Passing};
use sluicegate_engine::rule::{Ceiling, Comparison, Condition, Most, Need, SignalUnit};

use crate::law::{Laps, Law, Seen, Turn};
use crate::readings::Reading;
use crate::words;
use capacity::Capacity;
use watched::Watched;

/// Strain that comes back within this time is the same strain.
const SAME_STRAIN: Duration = Duration::from_secs(60);
/// How often the time to the next attempt is doubled.
const MOST_DOUBLINGS: u32 = 5;
/// Clearly fewer come than when the strain came back: less than this share of them.
const EASED: f64 = 0.8;
/// After how long a ceiling must have had its effect.
const SHOWS_AFTER: Duration = Duration::from_secs(2);
/// A ceiling so many times as high as what arrives refuses nobody but for lumps.
const WELL_ABOVE: f64 = 2.0;
/// No ceiling rises beyond this.
const HIGHEST: f64 = 1e12;

/// The law of a [`Ceiling`].
#[derive(Debug)]
pub struct Strain {
    rule: Ceiling,
    watched: Vec<Watched>,
    state: State,
    /// Since when the strain has been over, by the exit values.
    over_since: Option<Timestamp>,
    capacity: Capacity,
    next_second: Option<Timestamp>,
    /// The conditions as they held the last time.
    why: String,
    /// How often this strain came back.
    relapses: u32,
    /// How many came per second when it did.
    crowd: f64,
    /// Since when clearly fewer have.
    eased_since: Option<Timestamp>,
    closed_at: Option<Timestamp>,
    /// Whether anybody tells when requests end.
    timed: bool,
    /// Since when requests are inside and none is answered.
    silent_since: Option<Timestamp>,
}

/// Where a ceiling is. All states know since when.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nothing holds.
    Closed,
    /// The conditions hold, but not for long enough yet.
    Entering,
    /// The ceiling holds.
    Limited { since: Timestamp, ceiling: Height, measured: Timestamp, least: f64 },
    /// The ceiling rises; `calm`: since when it has refused nobody.
    Recovering { since: Timestamp, ceiling: Height, calm: Option<Timestamp> },
}

impl Strain {
    /// The law of this ceiling.
    pub fn new(rule: Ceiling) -> Self {
        Self {
            watched: rule.conditions.iter().copied().map(Watched::new).collect(),
            rule,
            state: State::Closed,
            over_since: None,
            capacity: Capacity::default(),
            next_second: None,
            why: String::new(),
            relapses: 0,
            crowd: 0.0,
            eased_since: None,
            closed_at: None,
            timed: false,
            silent_since: None,
        }
    }

    /// The state it is in, in one word.
    pub const fn state(&self) -> &'static str {
        match self.state {
            State::Closed => "closed",
            State::Entering => "entering",
            State::Limited { .. } => "limited",
            State::Recovering { .. } => "recovering",
        }
    }

    fn look(&mut self, seen: &Seen<'_>) {
        let Seen { now, passing, .. } = *seen;
        let readings = seen.readings.with_requests(&passing);
        let unanswered = passing.in_flight > 0 && passing.arrivals > 0.0;
        let silent = unanswered && passing.average.is_none();
        self.silent_since = silent.then(|| self.silent_since.unwrap_or(now));
        let silent_for = self.silent_since.map(|since| (now - since).as_secs_f64());
        for watched in &mut self.watched {
            let Condition { signal, comparison, enter, .. } = *watched.condition();
            let is_time = signal.unit() == SignalUnit::Seconds;
            let is_long = is_time && matches!(comparison, Comparison::Above | Comparison::AtLeast);
            // While nobody is answered, times are at least as long as that has been so.
            let at_least = silent_for.filter(|time| is_long && comparison.holds(*time, enter)).map(Reading::Value);
            watched.look(now, at_least.unwrap_or_else(|| readings.known(signal)), is_time && unanswered);
        }
        let over = match self.rule.need {
            Need::All => self.watched.iter().any(Watched::is_over),
            Need::Any => self.watched.iter().all(Watched::is_over),
        };
        self.over_since = over.then(|| self.over_since.unwrap_or(now));
        let eased = passing.arrivals < EASED * self.crowd;
        self.eased_since = eased.then(|| self.eased_since.unwrap_or(now));
        if self.holds() {
            self.why = self.in_words(|watched| watched.holds() || watched.is_unreadable());
        }
    }

    fn holds(&self) -> bool {
        self.need(Watched::holds)
    }

    fn has_lasted(&self, now: Timestamp) -> bool {
        self.need(|watched| watched.has_lasted(now, self.rule.enter_after))
    }

    fn need(&self, each: impl Fn(&Watched) -> bool) -> bool {
        match self.rule.need {
            Need::All => !self.watched.is_empty() && self.watched.iter().all(each),
            Need::Any => self.watched.iter().any(each),
        }
    }

    /// How many are answered per second. Of requests that nobody tells the end of, those that were let in are all that is
    /// known.
    fn answers(&mut self, passing: &Passing) -> f64 {
        self.timed |= passing.in_flight > 0 || passing.answers > 0.0;
        if self.timed { passing.answers } else { (passing.arrivals - passing.refusals).max(0.0) }
    }

    /// Notes what is answered while nobody is held back, once a second.
    fn measure(&mut self, now: Timestamp, answers: f64) {
        let second = Duration::from_secs(1);
        match self.next_second {
            None => self.next_second = Some(now + second),
            Some(due) if now >= due => {
                self.next_second = Some(now + second);
                if matches!(self.state, State::Closed | State::Entering) {
                    self.capacity.note(answers);
                }
            }
            // A clock that stepped back.
            Some(due) if due - now > second => self.next_second = Some(now + second),
            Some(_) => {}
        }
    }

    fn next_state(&mut self, now: Timestamp, passing: &Passing) -> State {
        let over_for = self.over_since.map(|since| now - since);
        match self.state {
            State::Closed | State::Entering if self.has_lasted(now) => {
                let again = self.closed_at.is_some_and(|closed| now - closed < SAME_STRAIN);
                self.relapses = if again { self.relapses.saturating_add(1) } else { 0 };
                self.limit(now, passing)
            }
            State::Closed | State::Entering => {
                if self.holds() {
                    State::Entering
                } else {
                    State::Closed
                }
            }
            State::Limited { since, ceiling, measured, least } => {
                let held = now - since >= self.hold(now);
                if held && over_for.is_some_and(|over| over >= self.rule.exit_after) {
                    return State::Recovering { since: now, ceiling, calm: None };
                }
                self.measure_again(now, passing, State::Limited { since, ceiling, measured, least })
            }
            State::Recovering { .. } if self.has_lasted(now) => {
                self.relapses = self.relapses.saturating_add(1);
                self.limit(now, passing)
            }
            State::Recovering { since, ceiling, calm } => {
                let height = self.risen(now, since, ceiling);
                let well_above = per_second(height) >= WELL_ABOVE * passing.arrivals;
                let is_calm = over_for.is_some() && (passing.refusals <= 0.0 || well_above);
                let calm = is_calm.then(|| calm.unwrap_or(now));
                if calm.is_some_and(|calm| now - calm >= self.rule.exit_after) {
                    self.closed_at = Some(now);
                    return State::Closed;
                }
                State::Recovering { since, ceiling, calm }
            }
        }
    }

    /// The ceiling begins to hold, at its full depth.
    fn limit(&mut self, now: Timestamp, passing: &Passing) -> State {
        (self.crowd, self.eased_since) = (passing.arrivals, None);
        let answers = self.answers(passing);
        let known = self.capacity.known(answers);
        let stuck = self.silent_since.is_some_and(|since| now - since >= self.rule.enter_after);
        let ceiling = match self.rule.most {
            Most::Rate { count, window } => Height { count: count as f64, window },
            // Nobody has come yet, or nobody can have been answered yet: a share of nothing would shut out everybody.
            Most::ShareOfCapacity(_) if known <= 0.0 && !stuck => return State::Entering,
            Most::ShareOfCapacity(share) => a_second(share * known),
        };
        State::Limited { since: now, ceiling, measured: now, least: known / 10.0 }
    }

    /// The capacity is smaller than it was thought to be if the service cannot even do what the ceiling lets in: then
    /// what it does is measured instead. Never down to less than a tenth of what was known when the strain began: answers
    /// may be missing for other reasons.
    fn measure_again(&mut self, now: Timestamp, passing: &Passing, limited: State) -> State {
        let (State::Limited { since, ceiling, measured, least }, Most::ShareOfCapacity(share)) =
            (limited, self.rule.most)
        else {
            return limited;
        };
        let answers = self.answers(passing);
        let too_high = answers < 0.9 * per_second(ceiling) && passing.refusals > 0.0;
        if self.over_since.is_some() || !too_high || now - measured < SHOWS_AFTER {
            return limited;
        }
        let capacity = answers.max(least);
        self.capacity.correct(capacity);
        let ceiling = Height { count: ceiling.count.min(a_second(share * capacity).count), ..ceiling };
        State::Limited { since, ceiling, measured: now, least }
    }

    /// How long the ceiling holds at least, longer if the strain has come back before and the crowd is still there.
    fn hold(&self, now: Timestamp) -> Duration {
        if self.eased_since.is_some_and(|since| now - since >= self.rule.exit_after) {
            return self.rule.hold;
        }
        self.rule.hold.saturating_mul(1 << self.relapses.min(MOST_DOUBLINGS))
    }

    fn risen(&self, now: Timestamp, since: Timestamp, ceiling: Height) -> Height {
        let growth = (1.0 + self.rule.recovery.max(0.0)).powf((now - since).as_secs_f64());
        Height { count: (ceiling.count * growth).min(HIGHEST), ..ceiling }
    }

    fn height(&self, now: Timestamp) -> Option<Height> {
        match self.state {
            State::Closed | State::Entering => None,
            State::Limited { ceiling, .. } => Some(ceiling),
            State::Recovering { since, ceiling, .. } => Some(self.risen(now, since, ceiling)),
        }
    }

    fn in_words(&self, which: impl Fn(&Watched) -> bool) -> String {
        let told: Vec<String> = self.watched.iter().filter(|w| which(w)).map(Watched::in_words).collect();
        told.join(", ")
    }

    fn notice(&self, height: Option<Height>) -> Notice {
        let reason = match (self.state, height) {
            (State::Limited { .. }, Some(height)) => format!("{}: {}", self.why, words::at_most(height)),
            (State::Recovering { .. }, Some(height)) => {
                format!("recovering from {}: {}", self.why, words::at_most(height))
            }
            (State::Entering, _)
                if self.capacity.known(0.0) <= 0.0 && matches!(self.rule.most, Most::ShareOfCapacity(_)) =>
            {
                format!("{}: what can be done is not known yet", self.why)
            }
            (State::Entering, _) => format!("{}: not for long enough yet", self.why),
            _ => self.in_words(Watched::is_unreadable),
        };
        let readings = self.watched.iter().map(|watched| (watched.condition().signal, watched.reading())).collect();
        Notice { state: self.state(), reason, readings }
    }
}

impl Law for Strain {
    fn turn(&mut self, seen: &Seen<'_>, _: &mut dyn Laps) -> Turn {
        self.look(seen);
        let answers = self.answers(&seen.passing);
        self.measure(seen.now, answers);
        self.state = self.next_state(seen.now, &seen.passing);
        let rate = self.height(seen.now);
        Turn { orders: Orders { rate, ..Orders::OPEN }, notice: self.notice(rate) }
    }
}

fn per_second(height: Height) -> f64 {
    height.count / height.window.as_secs_f64().max(1e-9)
}

/// At least one per second: nobody would learn that the strain is over if nobody came in.
fn a_second(count: f64) -> Height {
    Height { count: count.max(1.0), window: Duration::from_secs(1) }
}
