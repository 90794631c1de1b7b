//! Start and evaluation of experiments.

use std::time::Duration;

use sluicegate_engine::Timestamp;

use super::estimate::Window;
use super::experiment::Experiment;
use super::{AutoConcurrency, ConcurrencyState, MIN_EXPERIMENT_INTERVAL};

/// A finding below this share of the known unloaded time casts doubt on it.
const DOUBT_RATIO: f64 = 0.8;
/// A finding above this multiple of the known unloaded time replaces it.
const REPLACE_RATIO: f64 = 1.5;
/// Maximum time between experiments in sustained overload.
const MAX_EXPERIMENT_INTERVAL: Duration = Duration::from_secs(16);
/// Minimum time between any two experiments.
const MIN_EXPERIMENT_PAUSE: Duration = Duration::from_secs(1);

/// Finding of an experiment about the known unloaded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExperimentFinding {
    /// No unloaded time was known, or it has changed.
    Changed,
    /// The known unloaded time may include queueing: the next experiment uses more stages.
    Doubtful,
    /// The known unloaded time is confirmed.
    Confirmed,
}

impl AutoConcurrency {
    pub(super) fn begin_experiment(&mut self, now: Timestamp, window: &Window) {
        let throughput = self.throughput.current();
        let min_limit = f64::from(self.spec.min);
        // The best limit is somewhat below the known server concurrency.
        let known = self.unloaded_time.filter(|_| self.tested);
        let concurrency = self.unloaded_time.map_or(f64::INFINITY, |unloaded| throughput * unloaded);
        let limit = match known {
            Some(_) => (self.limit / 2.0).min(0.75 * concurrency),
            None => (0.5 * concurrency).clamp(self.limit / 3.0, self.limit / 2.0),
        };
        let multi_stage = known.is_none();
        let steady = (throughput, self.throughput.sample_count());
        // If nothing is known, nothing has been smoothed yet: all samples count equally.
        let before = if self.unloaded_time.is_none() { self.inflow.throughput() } else { steady };
        self.experiment = Some(Experiment::begin(
            now,
            limit.round().max(min_limit),
            multi_stage.then_some(min_limit),
            before,
            window.residence_time(),
        ));
        self.state = ConcurrencyState::Probing;
    }

    /// Evaluates a finished experiment.
    pub(super) fn finish_experiment(&mut self, now: Timestamp, found: Option<f64>, throughput: f64) {
        let elapsed = self.experiment.take().map_or(Duration::ZERO, |experiment| experiment.elapsed(now));
        self.no_experiment_before = now + self.jitter.around(MIN_EXPERIMENT_PAUSE.max(elapsed * 4));
        self.next_experiment = now + self.jitter.around(self.interval_after(elapsed));
        let Some(found) = found.filter(|found| found.is_finite() && *found > 0.0) else { return };
        self.unloaded_samples.reset();
        let ratio = self.unloaded_time.map(|known| found / known);
        let finding = match ratio {
            None => ExperimentFinding::Changed,
            // The deeper experiment was made because the estimate seemed too long, and it is not.
            Some(ratio) if self.in_doubt && !self.tested && ratio >= 1.0 => ExperimentFinding::Confirmed,
            Some(ratio) if !self.tested || ratio > REPLACE_RATIO => ExperimentFinding::Changed,
            Some(ratio) if ratio < DOUBT_RATIO => ExperimentFinding::Doubtful,
            Some(_) => ExperimentFinding::Confirmed,
        };
        let known = self.unloaded_time.unwrap_or(found);
        self.unloaded_time = Some(match finding {
            ExperimentFinding::Changed => found,
            ExperimentFinding::Doubtful => known + (found - known) * 0.5,
            ExperimentFinding::Confirmed => known + (found - known) * 0.3,
        });
        // An estimate that is too long would reinforce itself: such findings and lasting doubts are tested again.
        self.tested = match finding {
            ExperimentFinding::Changed => ratio.is_some_and(|ratio| ratio <= REPLACE_RATIO),
            ExperimentFinding::Doubtful => !self.in_doubt,
            ExperimentFinding::Confirmed => true,
        };
        self.in_doubt = finding == ExperimentFinding::Doubtful;
        self.experiment_interval = if finding == ExperimentFinding::Confirmed {
            (self.experiment_interval * 2).min(MAX_EXPERIMENT_INTERVAL)
        } else {
            MIN_EXPERIMENT_INTERVAL
        };
        self.next_experiment = now + self.jitter.around(self.interval_after(elapsed));
        self.throughput.mark_tested();
        self.state = ConcurrencyState::Steady;
        if finding == ExperimentFinding::Changed {
            let limit = self.limit_for(throughput, found);
            self.state = if limit > self.limit { ConcurrencyState::Growing } else { ConcurrencyState::BackingOff };
            self.set_limit(limit);
        }
    }

    /// Time until the next experiment: expensive experiments are rare, and more so while they find nothing new.
    fn interval_after(&self, elapsed: Duration) -> Duration {
        let confirmed = self.experiment_interval.as_secs_f64() / MIN_EXPERIMENT_INTERVAL.as_secs_f64();
        self.experiment_interval.max(elapsed.mul_f64(8.0 * confirmed.clamp(1.0, 4.0)))
    }
}
