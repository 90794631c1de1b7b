//! Increase trial: raises the limit and checks that throughput rises.
//!
//! The limit is reached and throughput is lower than at light load. Overload does not cause that: a busy server
//! completes as much as it can, and it completed more before. Slow work does, and then a higher limit, in
//! proportion to the longer time, restores the throughput. So the limit is raised at once, and then throughput
//! is observed. If it does not rise, the server itself has become slower, and the increase is reverted.
//!
//! **With no prior knowledge**, as after a start in overload, the limit is doubled for the same trial. If
//! throughput rises, requests in flight did not queue, and their time is the unloaded time: from there the
//! formula raises the limit further, by more than half in every window, while throughput rises. Only if it does
//! not rise may there be a queue, and an experiment lowers the limit to find out.

use std::time::Duration;

use sluicegate_engine::Timestamp;

use super::estimate::Window;
use super::{
    AutoConcurrency, ConcurrencyState, MAX_WINDOW_SECONDS, MIN_MEMORY, OVERLOAD_SATURATION, THROUGHPUT_DROP_RATIO,
};

/// Throughput ratio that shows that an increase helped.
const MIN_GAIN_RATIO: f64 = 1.4;
/// Ratio required with no prior knowledge: the baseline is uncertain then, and a mistake is not corrected
/// for a while.
const MIN_FIRST_GAIN_RATIO: f64 = 1.7;
/// Maximum increase ratio: it may be a mistake.
const MAX_INCREASE_RATIO: f64 = 4.0;
/// Delay of the next experiment after a first increase that helped.
const FIRST_EXPERIMENT_DELAY: Duration = Duration::from_millis(1_500);
/// Maximum time to wait for the effect of an increase.
const MAX_EFFECT_DELAY: Duration = Duration::from_secs(2);

/// An increase trial in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct IncreaseTrial {
    /// Limit before the increase.
    previous_limit: f64,
    /// Completions per second before the increase.
    throughput: f64,
    /// Time from which completed requests were admitted under the higher limit.
    measure_from: Timestamp,
}

impl AutoConcurrency {
    /// Continues an increase trial, or begins one. Returns true if one is in progress.
    pub(super) fn step_increase(&mut self, now: Timestamp, window: &Window) -> bool {
        if let Some(trial) = self.increase {
            let window_time = Duration::from_secs_f64(window.seconds.min(MAX_WINDOW_SECONDS));
            if now < trial.measure_from + window_time {
                return true;
            }
            self.increase = None;
            let min_gain = if self.unloaded_time.is_none() { MIN_FIRST_GAIN_RATIO } else { MIN_GAIN_RATIO };
            if window.throughput >= min_gain * trial.throughput {
                if self.unloaded_time.is_none() {
                    // There was hardly any queue before: grow by the new estimate for a while before testing it.
                    self.no_experiment_before = now + self.jitter.around(FIRST_EXPERIMENT_DELAY);
                }
                self.unloaded_time = Some(window.residence_time());
                self.unloaded_samples.reset();
                (self.tested, self.next_experiment) = (false, now);
            } else {
                (self.light_load_throughput, self.increase_failed) = (0.0, true);
                self.set_limit(trial.previous_limit);
            }
            return false;
        }
        let slower = window.saturation >= OVERLOAD_SATURATION
            && self.inflow.is_slower_than(THROUGHPUT_DROP_RATIO * self.light_load_throughput);
        if !slower || self.tested || self.decrease.is_some() {
            return false;
        }
        let limit =
            self.limit_for(self.light_load_throughput, window.residence_time()).min(MAX_INCREASE_RATIO * self.limit);
        self.begin_increase(now, window, limit, window.throughput);
        true
    }

    /// Raises the limit to `limit` and checks that throughput rises above `throughput`.
    pub(super) fn begin_increase(&mut self, now: Timestamp, window: &Window, limit: f64, throughput: f64) {
        let effect_delay =
            Duration::try_from_secs_f64(window.residence_time()).unwrap_or(MIN_MEMORY).min(MAX_EFFECT_DELAY);
        self.increase =
            Some(IncreaseTrial { previous_limit: self.limit, throughput, measure_from: now + effect_delay });
        self.set_limit(limit);
        self.state = ConcurrencyState::Growing;
    }
}
