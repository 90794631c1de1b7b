//! Decrease trial: lowers the limit and checks that throughput holds.
//!
//! Response times are long and the limit is reached, so by the current estimate the limit is too high. If that
//! is right, a lower limit does not change throughput. If it is wrong, because all work takes longer now,
//! throughput falls. So the limit is lowered at once, and then throughput is observed.

use std::time::Duration;

use sluicegate_engine::Timestamp;

use super::estimate::Window;
use super::experiment::Experiment;
use super::{
    AutoConcurrency, ConcurrencyState, DECREASE_THRESHOLD_RATIO, MIN_EXPERIMENT_INTERVAL, OVERLOAD_SATURATION,
};

/// Share of the former throughput above which it counts as held.
const THROUGHPUT_HELD_RATIO: f64 = 0.75;
/// Number of standard deviations that make a difference clear.
const CLEAR_SIGMAS: f64 = 3.0;
/// If the result is not clear after this time, nothing has changed by much.
const MAX_TRIAL_TIME: Duration = Duration::from_secs(5);
/// Below this share of the throughput at light load the trial proves nothing.
const MIN_LIGHT_LOAD_THROUGHPUT_RATIO: f64 = 0.85;
/// A decrease keeps at least this share of the limit: it may be a mistake.
const MIN_REMAINING_RATIO: f64 = 1.0 / 3.0;
/// Maximum delay of the next experiment after a decrease.
const MAX_EXPERIMENT_DELAY: Duration = Duration::from_secs(60);

/// A decrease trial in progress.
#[derive(Clone, Debug)]
pub(super) struct DecreaseTrial {
    /// Completions per second before the trial.
    throughput: f64,
    /// Number of completions that this throughput is based on.
    sample_count: f64,
    /// Time from which all requests in flight were admitted under the lower limit.
    measure_from: Timestamp,
    deadline: Timestamp,
    completed: f64,
    seconds: f64,
    in_flight_seconds: f64,
}

/// Result of a decrease trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TrialOutcome {
    /// Not clear yet.
    Undecided,
    /// The load is gone, so the trial cannot conclude.
    LoadGone,
    /// Throughput is as high as before.
    ThroughputHeld,
    /// Throughput fell; `time` is the real unloaded time of a request.
    ThroughputFell {
        /// In seconds.
        time: f64,
    },
}

impl DecreaseTrial {
    pub(super) fn begin(now: Timestamp, limit: f64, window: &Window) -> Self {
        let drain_time = (window.in_flight - limit).max(0.0) / window.throughput.max(f64::MIN_POSITIVE);
        let settle_time = window.residence_time();
        let wait = Duration::try_from_secs_f64(drain_time + settle_time).unwrap_or(MAX_TRIAL_TIME).min(MAX_TRIAL_TIME);
        Self {
            throughput: window.throughput,
            sample_count: window.completed.max(1.0),
            measure_from: now + wait,
            deadline: now + wait + MAX_TRIAL_TIME,
            completed: 0.0,
            seconds: 0.0,
            in_flight_seconds: 0.0,
        }
    }

    /// Completions per second before the trial.
    pub(super) const fn throughput(&self) -> f64 {
        self.throughput
    }

    /// Completions per second since the trial began.
    fn throughput_since(&self) -> f64 {
        self.completed / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Adds one window.
    pub(super) fn observe(&mut self, now: Timestamp, window: &Window) -> TrialOutcome {
        let window_time = Duration::from_secs_f64(window.seconds.min(MAX_TRIAL_TIME.as_secs_f64()));
        if now < self.measure_from + window_time {
            return TrialOutcome::Undecided;
        }
        if window.saturation < 0.5 {
            return TrialOutcome::LoadGone;
        }
        self.completed += window.completed;
        self.seconds += window.seconds;
        self.in_flight_seconds += window.in_flight * window.seconds;
        let expected = THROUGHPUT_HELD_RATIO * self.throughput * self.seconds;
        let deviation = (expected + expected * expected / self.sample_count).sqrt();
        if self.completed >= expected + deviation || now >= self.deadline {
            return TrialOutcome::ThroughputHeld;
        }
        if self.completed <= expected - CLEAR_SIGMAS * deviation && self.completed > 0.0 {
            return TrialOutcome::ThroughputFell { time: self.in_flight_seconds / self.completed };
        }
        TrialOutcome::Undecided
    }
}

impl AutoConcurrency {
    /// Continues a decrease trial, or begins one. Returns true if one is in progress.
    pub(super) fn step_decrease(&mut self, now: Timestamp, window: &Window) -> bool {
        let Some(trial) = &mut self.decrease else { return self.begin_decrease(now, window) };
        match trial.observe(now, window) {
            TrialOutcome::Undecided => return true,
            TrialOutcome::LoadGone => {}
            // Throughput equals that at the start of the trial, but work had already slowed down then: at light load it
            // was higher.
            TrialOutcome::ThroughputHeld
                if trial.throughput_since() < MIN_LIGHT_LOAD_THROUGHPUT_RATIO * self.light_load_throughput =>
            {
                self.next_experiment = now;
            }
            TrialOutcome::ThroughputHeld => {
                self.tested = true;
                self.throughput.mark_tested();
                self.next_experiment = now + self.jitter.around(experiment_delay_after_decrease(window));
            }
            TrialOutcome::ThroughputFell { time } => {
                let throughput = trial.throughput();
                self.finish_experiment(now, Some(time), throughput);
            }
        }
        self.decrease = None;
        true
    }

    fn begin_decrease(&mut self, now: Timestamp, window: &Window) -> bool {
        let Some(unloaded) = self.unloaded_time.filter(|_| !self.tested) else { return false };
        let sufficient = self.limit_for(window.throughput, unloaded);
        let overloaded =
            window.saturation >= OVERLOAD_SATURATION && window.completed > 0.0 && self.inflow.is_likely_overload();
        if !overloaded || sufficient >= self.limit * DECREASE_THRESHOLD_RATIO {
            return false;
        }
        let limit = sufficient.max(self.limit * MIN_REMAINING_RATIO);
        self.decrease = Some(DecreaseTrial::begin(now, limit, window));
        self.set_limit(limit);
        self.state = ConcurrencyState::BackingOff;
        true
    }
}

/// Delay of the next experiment after a decrease that held: the trial was as good as an experiment.
fn experiment_delay_after_decrease(window: &Window) -> Duration {
    let experiment_time = Experiment::TYPICAL_COMPLETIONS / window.throughput.max(1.0) + 2.5 * window.residence_time();
    Duration::try_from_secs_f64(8.0 * experiment_time)
        .unwrap_or(MAX_EXPERIMENT_DELAY)
        .clamp(MIN_EXPERIMENT_INTERVAL * 8, MAX_EXPERIMENT_DELAY)
}
