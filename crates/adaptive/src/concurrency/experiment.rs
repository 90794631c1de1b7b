//! Experiment that lowers the limit briefly to find out which part of the requests in flight was a queue.
//!
//! It runs in stages. Each stage halves the limit; once enough requests have drained, the throughput is
//! measured. If it is as high as before, the withdrawn part of the limit was a queue, and the next stage halves
//! the limit again. If it is lower, no queue is left, and requests in flight divided by throughput is the
//! unloaded time of a request.

use std::time::Duration;

use sluicegate_engine::Timestamp;

use super::estimate::Window;
use crate::control_law::IntervalSource;

/// Share of the former throughput above which it counts as held.
const THROUGHPUT_HELD_RATIO: f64 = 0.75;
/// Number of standard deviations that make a difference clear.
const CLEAR_SIGMAS: f64 = 2.0;
/// Share of the limit that a stage keeps.
const STAGE_RATIO: f64 = 0.5;
/// Completions that are enough for a stage.
const TARGET_COMPLETIONS: f64 = 80.0;
/// Minimum number of completions, even for a clear result: requests admitted before the stage are not
/// representative.
const MIN_COMPLETIONS: f64 = 60.0;
/// If the result is not clear after this many completions, it will not become clear.
const MAX_COMPLETIONS: f64 = 200.0;
/// Maximum time of a stage that does not drain or is not filled.
const MAX_STAGE_TIME: Duration = Duration::from_secs(3);
/// By then nearly all requests admitted before the stage have completed.
const MAX_SETTLE_TIME: Duration = Duration::from_secs(1);
/// If the limit is not reached for this long, the load is gone.
const LOAD_GONE_AFTER: Duration = Duration::from_millis(500);

/// An experiment in progress.
#[derive(Clone, Debug)]
pub(super) struct Experiment {
    limit: f64,
    /// Lowest limit of further stages; `None` for a single stage.
    min_limit: Option<f64>,
    /// Completions per second before the experiment.
    throughput: f64,
    /// Number of completions that this throughput is based on.
    sample_count: f64,
    /// Residence time of a request before the experiment, in seconds.
    residence_time: f64,
    started_at: Timestamp,
    stage_since: Timestamp,
    stage: ExperimentStage,
}

/// Phase of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExperimentStage {
    /// More requests are in flight than the new limit allows.
    Draining,
    /// Requests admitted before the stage have been in flight for long and are not representative: wait until
    /// they complete.
    Settling,
    Measuring,
}

/// Result of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ExperimentStep {
    Continue,
    /// Finished, with the unloaded time if one was found.
    Finished {
        unloaded_time: Option<f64>,
    },
}

impl Experiment {
    /// Typical number of completions that an experiment takes.
    pub(super) const TYPICAL_COMPLETIONS: f64 = TARGET_COMPLETIONS;

    /// Begins with this limit. With `min_limit`, further stages go down to it. The other arguments give
    /// throughput, the number of completions it is based on, and residence time before the experiment.
    pub(super) fn begin(
        now: Timestamp,
        limit: f64,
        min_limit: Option<f64>,
        (throughput, sample_count): (f64, f64),
        residence_time: f64,
    ) -> Self {
        Self {
            limit,
            min_limit,
            throughput,
            sample_count,
            residence_time,
            started_at: now,
            stage_since: now,
            stage: ExperimentStage::Draining,
        }
    }

    /// Limit of the current stage.
    pub(super) const fn limit(&self) -> f64 {
        self.limit
    }

    /// Completions per second before the experiment began.
    pub(super) const fn throughput(&self) -> f64 {
        self.throughput
    }

    /// Time since the experiment began.
    pub(super) fn elapsed(&self, now: Timestamp) -> Duration {
        now.saturating_since(self.started_at)
    }

    pub(super) fn step(
        &mut self,
        now: Timestamp,
        in_flight: usize,
        intervals: &mut dyn IntervalSource,
    ) -> ExperimentStep {
        let stage_time = now.saturating_since(self.stage_since);
        match self.stage {
            ExperimentStage::Draining if in_flight as f64 <= self.limit => self.enter(now, ExperimentStage::Settling),
            ExperimentStage::Draining if stage_time > MAX_STAGE_TIME => return self.finish(intervals, None),
            ExperimentStage::Settling
                if stage_time.as_secs_f64() >= (1.5 * self.residence_time).min(MAX_SETTLE_TIME.as_secs_f64()) =>
            {
                intervals.take();
                self.enter(now, ExperimentStage::Measuring);
            }
            ExperimentStage::Measuring => return self.measure(now, stage_time, intervals),
            ExperimentStage::Draining | ExperimentStage::Settling => {}
        }
        ExperimentStep::Continue
    }

    fn enter(&mut self, now: Timestamp, stage: ExperimentStage) {
        (self.stage, self.stage_since) = (stage, now);
    }

    fn finish(&self, intervals: &mut dyn IntervalSource, unloaded_time: Option<f64>) -> ExperimentStep {
        intervals.take();
        ExperimentStep::Finished { unloaded_time }
    }

    fn measure(&mut self, now: Timestamp, stage_time: Duration, intervals: &mut dyn IntervalSource) -> ExperimentStep {
        let window = Window::from_interval(&intervals.peek());
        let expected = THROUGHPUT_HELD_RATIO * self.throughput * window.seconds;
        let deviation = (expected + expected * expected / self.sample_count).sqrt();
        let fell = window.completed <= expected - CLEAR_SIGMAS * deviation;
        let target = match self.min_limit {
            None => TARGET_COMPLETIONS,
            Some(_) if fell || window.completed >= expected + CLEAR_SIGMAS * deviation => MIN_COMPLETIONS,
            Some(_) => MAX_COMPLETIONS,
        };
        let load_gone = window.saturation < 0.5 && stage_time >= LOAD_GONE_AFTER;
        if !load_gone && window.completed < target && stage_time <= MAX_STAGE_TIME {
            return ExperimentStep::Continue;
        }
        if window.completed == 0.0 || window.saturation < 0.5 {
            return self.finish(intervals, None);
        }
        let throughput_held = if window.completed >= MAX_COMPLETIONS { window.completed >= expected } else { !fell };
        if throughput_held
            && let Some(min_limit) = self.min_limit
            && self.limit > min_limit
        {
            let known_seconds = self.sample_count / self.throughput.max(f64::MIN_POSITIVE);
            self.sample_count += window.completed;
            self.throughput = self.sample_count / (known_seconds + window.seconds);
            self.limit = (self.limit * STAGE_RATIO).round().max(min_limit);
            self.residence_time *= STAGE_RATIO;
            self.enter(now, ExperimentStage::Draining);
            return ExperimentStep::Continue;
        }
        self.finish(intervals, Some(window.residence_time()))
    }
}
