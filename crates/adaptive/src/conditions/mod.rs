//! Threshold control law: a rate limit that applies while conditions on signals hold, with hysteresis.
//!
//! ```text
//!            all (or any) hold              for long enough
//!   closed ------------------> entering --------------------> limited <-----------+
//!     ^  ^                        |                              |                | the conditions hold again:
//!     |  +------------------------+          over for long enough|                | back to the limit
//!     |         one stopped holding                              v                |
//!     +---------------------------------------------------- recovering -----------+
//!        no refusals for a while                            the limit rises
//! ```
//!
//! **Exit is not the inverse of entry.** The limit itself shortens response times and reduces requests in
//! flight. If it ended with the conditions, it would oscillate for as long as the overload lasts. So it ends by
//! separate exit values, after a minimum time, and gradually: it rises until no request is refused. While
//! arrivals exceed the capacity, requests are refused, or the conditions hold again during the rise and the
//! limit falls back. Each relapse doubles the hold time before the next attempt, up to 32 times: otherwise a
//! slight, sustained overload would oscillate. The longer hold applies only while the arrival rate stays as
//! high; once it is clearly lower, the first hold time applies again.
//!
//! **End of an overload.** With `all`, once one condition is beyond its exit value: a load average over five
//! minutes stays high for minutes after an overload. With `any`, once all conditions are.
//!
//! **Unreadable signals** do not hold, and are named in the notice. If requests arrive and none completes,
//! there are no response times either: they are taken to be as long as that has lasted.
//!
//! ```
//! use std::time::Duration;
//! use sluicegate_adaptive::conditions::ThresholdLaw;
//! use sluicegate_adaptive::control_law::{ControlLaw, HostInfo, Observation};
//! use sluicegate_adaptive::readings::Readings;
//! use sluicegate_engine::{Timestamp, overload::{Gate, Throughput}};
//! use sluicegate_engine::rule::{Cap, Ceiling, Comparison, Condition, Signal};
//!
//! let busy = Condition::new(Signal::Cpu, Comparison::Above, 0.9);
//! let mut law = ThresholdLaw::new(Ceiling::new([busy], Cap::Rate { count: 100, window: Duration::from_secs(1) }));
//!
//! let mut readings = Readings::UNKNOWN;
//! readings.set(Signal::Cpu, Some(0.97));
//! let mut gate = Gate::default();
//! let mut at = |millis: u64| {
//!     let now = Timestamp::from_nanos(millis * 1_000_000);
//!     let (throughput, host) = (Throughput::default(), HostInfo::default());
//!     law.step(&Observation { now, throughput, readings: &readings, host }, &mut gate)
//! };
//! assert_eq!(at(0).notice.state, "entering");
//! let adjustment = at(750);
//! assert_eq!(adjustment.notice.reason, "cpu 97% > 90%: at most 100 per 1s");
//! assert_eq!(adjustment.limits.rate.unwrap().count, 100.0);
//! ```

mod capacity;
mod condition;

use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::overload::{GateLimits, OverloadNotice, Throughput, VariableRate};
use sluicegate_engine::rule::{Cap, Ceiling, Comparison, Condition, Quorum, SignalUnit};

use crate::control_law::{Adjustment, ControlLaw, IntervalSource, Observation};
use crate::display;
use crate::readings::Reading;
use capacity::Capacity;
use condition::TrackedCondition;

/// An overload that returns within this time counts as the same overload.
const SAME_OVERLOAD_WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of times the hold time is doubled.
const MAX_DOUBLINGS: u32 = 5;
/// Below this share of the arrival rate at the relapse, the load has eased.
const EASED_ARRIVALS_RATIO: f64 = 0.8;
/// Time after which a limit must have had its effect.
const EFFECT_DELAY: Duration = Duration::from_secs(2);
/// A limit this many times the arrival rate refuses only bursts.
const WELL_ABOVE_RATIO: f64 = 2.0;
/// Upper bound for a rising limit.
const MAX_RATE: f64 = 1e12;

/// Control law of a [`Ceiling`].
#[derive(Debug)]
pub struct ThresholdLaw {
    rule: Ceiling,
    conditions: Vec<TrackedCondition>,
    state: ThresholdState,
    /// Start of the time in which the conditions are beyond their exit values.
    over_since: Option<Timestamp>,
    capacity: Capacity,
    next_second: Option<Timestamp>,
    /// The conditions as they last held, as text.
    reason: String,
    /// Number of relapses of this overload.
    relapses: u32,
    /// Arrival rate at the last relapse.
    relapse_arrivals: f64,
    /// Start of the time in which the arrival rate is clearly lower.
    eased_since: Option<Timestamp>,
    closed_at: Option<Timestamp>,
    /// True if completions of requests are reported.
    has_completions: bool,
    /// Start of the time in which requests are in flight and none completes.
    stalled_since: Option<Timestamp>,
}

/// State of a threshold limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ThresholdState {
    /// No limit applies.
    Closed,
    /// The conditions hold, but not for long enough yet.
    Entering,
    /// The limit applies.
    Limited { since: Timestamp, ceiling: VariableRate, measured_at: Timestamp, min_capacity: f64 },
    /// The limit rises; `satisfied_since` is the time since which the limit is not needed.
    Recovering { since: Timestamp, ceiling: VariableRate, satisfied_since: Option<Timestamp> },
}

impl ThresholdLaw {
    /// Creates the law of this rule.
    pub fn new(rule: Ceiling) -> Self {
        Self {
            conditions: rule.conditions.iter().copied().map(TrackedCondition::new).collect(),
            rule,
            state: ThresholdState::Closed,
            over_since: None,
            capacity: Capacity::default(),
            next_second: None,
            reason: String::new(),
            relapses: 0,
            relapse_arrivals: 0.0,
            eased_since: None,
            closed_at: None,
            has_completions: false,
            stalled_since: None,
        }
    }

    /// Name of the current state.
    pub const fn state(&self) -> &'static str {
        match self.state {
            ThresholdState::Closed => "closed",
            ThresholdState::Entering => "entering",
            ThresholdState::Limited { .. } => "limited",
            ThresholdState::Recovering { .. } => "recovering",
        }
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        let Observation { now, throughput, .. } = *observation;
        let readings = observation.readings.with_requests(&throughput);
        let response_due = throughput.in_flight > 0 && throughput.arrivals > 0.0;
        let stalled = response_due && throughput.average.is_none();
        self.stalled_since = stalled.then(|| self.stalled_since.unwrap_or(now));
        let stalled_for = self.stalled_since.map(|since| (now - since).as_secs_f64());
        for tracked in &mut self.conditions {
            let Condition { signal, comparison, enter, .. } = *tracked.condition();
            let is_time = signal.unit() == SignalUnit::Seconds;
            let is_long = is_time && matches!(comparison, Comparison::Above | Comparison::AtLeast);
            // While no request completes, response times are at least as long as that has lasted.
            let at_least = stalled_for.filter(|time| is_long && comparison.holds(*time, enter)).map(Reading::Value);
            tracked.observe(now, at_least.unwrap_or_else(|| readings.reading(signal)), is_time && response_due);
        }
        let over = match self.rule.quorum {
            Quorum::All => self.conditions.iter().any(TrackedCondition::is_over),
            Quorum::Any => self.conditions.iter().all(TrackedCondition::is_over),
        };
        self.over_since = over.then(|| self.over_since.unwrap_or(now));
        let eased = throughput.arrivals < EASED_ARRIVALS_RATIO * self.relapse_arrivals;
        self.eased_since = eased.then(|| self.eased_since.unwrap_or(now));
        if self.holds() {
            self.reason = self.describe(|tracked| tracked.holds() || tracked.is_unreadable());
        }
    }

    fn holds(&self) -> bool {
        self.meets_quorum(TrackedCondition::holds)
    }

    fn has_lasted(&self, now: Timestamp) -> bool {
        self.meets_quorum(|tracked| tracked.has_lasted(now, self.rule.enter_after))
    }

    fn meets_quorum(&self, each: impl Fn(&TrackedCondition) -> bool) -> bool {
        match self.rule.quorum {
            Quorum::All => !self.conditions.is_empty() && self.conditions.iter().all(each),
            Quorum::Any => self.conditions.iter().any(each),
        }
    }

    /// Completions per second. If completions are not reported, admitted requests are used instead.
    fn completions(&mut self, throughput: &Throughput) -> f64 {
        self.has_completions |= throughput.in_flight > 0 || throughput.responses > 0.0;
        if self.has_completions { throughput.responses } else { (throughput.arrivals - throughput.refusals).max(0.0) }
    }

    /// Records the throughput once a second while no limit applies.
    fn record_capacity(&mut self, now: Timestamp, completions: f64) {
        let second = Duration::from_secs(1);
        match self.next_second {
            None => self.next_second = Some(now + second),
            Some(due) if now >= due => {
                self.next_second = Some(now + second);
                if matches!(self.state, ThresholdState::Closed | ThresholdState::Entering) {
                    self.capacity.record(completions);
                }
            }
            // The clock stepped back.
            Some(due) if due - now > second => self.next_second = Some(now + second),
            Some(_) => {}
        }
    }

    fn next_state(&mut self, now: Timestamp, throughput: &Throughput) -> ThresholdState {
        let over_for = self.over_since.map(|since| now - since);
        match self.state {
            ThresholdState::Closed | ThresholdState::Entering if self.has_lasted(now) => {
                let again = self.closed_at.is_some_and(|closed| now - closed < SAME_OVERLOAD_WINDOW);
                self.relapses = if again { self.relapses.saturating_add(1) } else { 0 };
                self.start_limiting(now, throughput)
            }
            ThresholdState::Closed | ThresholdState::Entering => {
                if self.holds() {
                    ThresholdState::Entering
                } else {
                    ThresholdState::Closed
                }
            }
            ThresholdState::Limited { since, ceiling, measured_at, min_capacity } => {
                let hold_elapsed = now - since >= self.hold_time(now);
                if hold_elapsed && over_for.is_some_and(|over| over >= self.rule.exit_after) {
                    return ThresholdState::Recovering { since: now, ceiling, satisfied_since: None };
                }
                self.remeasure(now, throughput, ThresholdState::Limited { since, ceiling, measured_at, min_capacity })
            }
            ThresholdState::Recovering { .. } if self.has_lasted(now) => {
                self.relapses = self.relapses.saturating_add(1);
                self.start_limiting(now, throughput)
            }
            ThresholdState::Recovering { since, ceiling, satisfied_since } => {
                let rate = self.recovered_rate(now, since, ceiling);
                let well_above = rate_per_second(rate) >= WELL_ABOVE_RATIO * throughput.arrivals;
                let is_satisfied = over_for.is_some() && (throughput.refusals <= 0.0 || well_above);
                let satisfied_since = is_satisfied.then(|| satisfied_since.unwrap_or(now));
                if satisfied_since.is_some_and(|since| now - since >= self.rule.exit_after) {
                    self.closed_at = Some(now);
                    return ThresholdState::Closed;
                }
                ThresholdState::Recovering { since, ceiling, satisfied_since }
            }
        }
    }

    /// Starts limiting at the configured cap.
    fn start_limiting(&mut self, now: Timestamp, throughput: &Throughput) -> ThresholdState {
        (self.relapse_arrivals, self.eased_since) = (throughput.arrivals, None);
        let completions = self.completions(throughput);
        let known = self.capacity.estimate(completions);
        let stalled = self.stalled_since.is_some_and(|since| now - since >= self.rule.enter_after);
        let ceiling = match self.rule.cap {
            Cap::Rate { count, window } => VariableRate { count: count as f64, window },
            // No request has arrived or completed yet: a share of zero would refuse all requests.
            Cap::ShareOfCapacity(_) if known <= 0.0 && !stalled => return ThresholdState::Entering,
            Cap::ShareOfCapacity(share) => per_second(share * known),
        };
        ThresholdState::Limited { since: now, ceiling, measured_at: now, min_capacity: known / 10.0 }
    }

    /// Lowers the capacity estimate if the service cannot complete what the limit admits: then its throughput
    /// is used instead, but at least a tenth of the capacity known when the overload began. Completions may be
    /// missing for other reasons.
    fn remeasure(&mut self, now: Timestamp, throughput: &Throughput, limited: ThresholdState) -> ThresholdState {
        let (ThresholdState::Limited { since, ceiling, measured_at, min_capacity }, Cap::ShareOfCapacity(share)) =
            (limited, self.rule.cap)
        else {
            return limited;
        };
        let completions = self.completions(throughput);
        let too_high = completions < 0.9 * rate_per_second(ceiling) && throughput.refusals > 0.0;
        if self.over_since.is_some() || !too_high || now - measured_at < EFFECT_DELAY {
            return limited;
        }
        let capacity = completions.max(min_capacity);
        self.capacity.reset_to(capacity);
        let ceiling = VariableRate { count: ceiling.count.min(per_second(share * capacity).count), ..ceiling };
        ThresholdState::Limited { since, ceiling, measured_at: now, min_capacity }
    }

    /// Minimum time the limit applies; longer after relapses while the load stays high.
    fn hold_time(&self, now: Timestamp) -> Duration {
        if self.eased_since.is_some_and(|since| now - since >= self.rule.exit_after) {
            return self.rule.hold;
        }
        self.rule.hold.saturating_mul(1 << self.relapses.min(MAX_DOUBLINGS))
    }

    fn recovered_rate(&self, now: Timestamp, since: Timestamp, ceiling: VariableRate) -> VariableRate {
        let growth = (1.0 + self.rule.recovery.max(0.0)).powf((now - since).as_secs_f64());
        VariableRate { count: (ceiling.count * growth).min(MAX_RATE), ..ceiling }
    }

    fn current_rate(&self, now: Timestamp) -> Option<VariableRate> {
        match self.state {
            ThresholdState::Closed | ThresholdState::Entering => None,
            ThresholdState::Limited { ceiling, .. } => Some(ceiling),
            ThresholdState::Recovering { since, ceiling, .. } => Some(self.recovered_rate(now, since, ceiling)),
        }
    }

    fn describe(&self, which: impl Fn(&TrackedCondition) -> bool) -> String {
        let parts: Vec<String> =
            self.conditions.iter().filter(|tracked| which(tracked)).map(TrackedCondition::describe).collect();
        parts.join(", ")
    }

    fn notice(&self, rate: Option<VariableRate>) -> OverloadNotice {
        let reason = match (self.state, rate) {
            (ThresholdState::Limited { .. }, Some(rate)) => {
                format!("{}: {}", self.reason, display::format_rate(rate))
            }
            (ThresholdState::Recovering { .. }, Some(rate)) => {
                format!("recovering from {}: {}", self.reason, display::format_rate(rate))
            }
            (ThresholdState::Entering, _)
                if self.capacity.estimate(0.0) <= 0.0 && matches!(self.rule.cap, Cap::ShareOfCapacity(_)) =>
            {
                format!("{}: capacity not known yet", self.reason)
            }
            (ThresholdState::Entering, _) => format!("{}: minimum duration not reached yet", self.reason),
            _ => self.describe(TrackedCondition::is_unreadable),
        };
        let readings = self.conditions.iter().map(|tracked| (tracked.condition().signal, tracked.reading())).collect();
        OverloadNotice { state: self.state(), reason, readings }
    }
}

impl ControlLaw for ThresholdLaw {
    fn step(&mut self, observation: &Observation<'_>, _: &mut dyn IntervalSource) -> Adjustment {
        self.observe(observation);
        let completions = self.completions(&observation.throughput);
        self.record_capacity(observation.now, completions);
        self.state = self.next_state(observation.now, &observation.throughput);
        let rate = self.current_rate(observation.now);
        Adjustment { limits: GateLimits { rate, ..GateLimits::OPEN }, notice: self.notice(rate) }
    }
}

fn rate_per_second(rate: VariableRate) -> f64 {
    rate.count / rate.window.as_secs_f64().max(1e-9)
}

/// At least one per second: without any admitted request the end of the overload would go unnoticed.
fn per_second(count: f64) -> VariableRate {
    VariableRate { count: count.max(1.0), window: Duration::from_secs(1) }
}
