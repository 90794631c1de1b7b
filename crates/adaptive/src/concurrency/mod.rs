//! Self-tuning concurrency limit (`adaptive: auto`).
//!
//! A server works on some requests concurrently and queues the others. The right limit is somewhat above its
//! concurrency: a lower one leaves it idle; a much higher one creates a queue inside the server, which cannot
//! be prioritised or rejected. By Little's law the concurrency is throughput times unloaded response time. The
//! headroom that keeps the server busy despite random fluctuation grows with the square root, and has a
//! minimum:
//!
//! ```text
//! concurrency = throughput x unloaded time
//! limit       = concurrency + max(0.5 x concurrency + 2 x sqrt(concurrency), 12)
//! ```
//!
//! Throughput is measured whenever the limit is reached: then the server completes as much as it can. The
//! unloaded time must not be measured at such times, or a server that is slow because of overload would seem
//! slow by nature, and the limit would grow with the overload. It comes from two sources only:
//!
//! - periods of **light load**: the limit was not reached, and on average at most half of it was used. They can only
//!   lower it;
//! - **experiments**: the limit is lowered briefly. If throughput holds, the withdrawn part was a queue, and
//!   the limit is halved again. Once throughput falls, no queue is left, and requests in flight divided by
//!   throughput is the unloaded time.
//!
//! An experiment distinguishes overload from slow work, which no reading can: with half the concurrency, times
//! caused by queueing get shorter; those of a slow dependency do not, and then a higher limit is right. An
//! experiment is made
//!
//! - in the first overload, if nothing is known, unless doubling the limit first (`increase.rs`) shows that
//!   there is no queue;
//! - if throughput at the limit falls or rises by much: conditions have changed;
//! - periodically in sustained overload, with jitter: soon after a new finding, and less and less often while
//!   experiments confirm the estimate. These have one stage and cost a quarter of the throughput for about 0.2
//!   seconds.
//!
//! If an estimate exists, it is applied at once and the effect is observed instead:
//!
//! - the limit is reached and is far too high by the estimate: it is decreased (`decrease.rs`). If throughput
//!   holds, that was right; if it falls, work takes longer now;
//! - the limit is reached and throughput is below that at light load: overload does not cause that, slow work
//!   does. The limit is increased (`increase.rs`) at once to sustain the throughput at light load. If throughput
//!   rises, that was right.
//!
//! Experiments that find no change are averaged, not minimised: the lowest of many measurements is mostly the
//! luckiest. An unloaded time that is too long corrects itself: the resulting limit, lowered by an experiment,
//! is below what it implies, and the experiment finds a shorter time.
//!
//! | observed in a window | effect |
//! |---|---|
//! | limit reached most of the time lately, and arrivals exceed completions; or they exceed them by more than chance | overload: the formula, or an experiment first |
//! | limit reached now and then | plus the square root of the limit, up to 1.5 times the formula, or the start value |
//! | light load | the unloaded time may be lowered; a limit far above its use decays towards it |
//! | more failures than usual | minus a tenth of the limit |
//!
//! Usual failures are a slow average: constant failures are not overload and must not close the gate.
//!
//! A window lasts 1.5 response times, at least 100 ms and at most 500 ms, and holds 60 completions if possible.
//! With few completions, a conclusion must exceed random fluctuation: counts are compared with their natural
//! spread.
//!
//! **Queue.** Without overload, a request over the limit waits as long as the rule allows; by default twelve
//! unloaded times, at least 100 ms and at most 1.2 s: at a low rate the next permit takes long to become free.
//! In overload a wait only delays responses: the queue target is then half an unloaded time for all but the
//! highest class. During an experiment it is five unloaded times, and the highest class waits up to twice as
//! long as usual, because the limit is restored soon.
//!
//! **A configured `max_rt`** replaces 1.5 unloaded times if it is shorter. No limit can keep it below the
//! unloaded time itself; that is not attempted.
//!
//! `docs/adaptive-bench.md` compares the results with other projects.

mod decrease;
mod describe;
mod estimate;
mod experiment;
mod increase;
mod jitter;
#[cfg(test)]
mod tests;
mod transitions;

use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::overload::{GateLimits, QueueBounds};
use sluicegate_engine::rule::Auto;

use crate::control_law::{Adjustment, ControlLaw, IntervalSource, Observation};
use decrease::DecreaseTrial;
use estimate::{Ewma, InflowBalance, ThroughputEstimate, UnloadedSamples, Window};
use experiment::{Experiment, ExperimentStep};
use increase::IncreaseTrial;
use jitter::Jitter;

/// Headroom per request that the server works on concurrently.
const HEADROOM_RATIO: f64 = 0.5;
/// Headroom per square root of the concurrency.
const SQRT_HEADROOM: f64 = 2.0;
/// Minimum headroom: the queue that prevents idling hardly depends on a small concurrency.
const MIN_HEADROOM: f64 = 12.0;
/// Share of the time at the limit above which there is overload.
const OVERLOAD_SATURATION: f64 = 0.75;
/// Share by which arrivals must exceed completions for overload: a burst that is draining does not count.
const OVERLOAD_EXCESS_RATIO: f64 = 0.05;
/// Share of the time at the limit below which an overload ends.
const OVERLOAD_EXIT_SATURATION: f64 = 0.35;
/// Minimum memory of the overload detector.
const MIN_MEMORY: Duration = Duration::from_millis(300);
/// Share of the time at the limit up to which no request was delayed.
const LIGHT_LOAD_SATURATION: f64 = 0.02;
/// A decrease below this share of the limit requires an experiment, if there was none since the last light
/// load.
const DECREASE_THRESHOLD_RATIO: f64 = 0.85;
/// A throughput below this share of the long-term one requires an experiment.
const THROUGHPUT_DROP_RATIO: f64 = 0.7;
/// At this multiple of the tested throughput, with a stable limit, a new experiment is due.
const THROUGHPUT_RISE_RATIO: f64 = 1.5;
/// Residence times below this share of the unloaded time show that the estimate was too long.
const UNLOADED_UNDERRUN_RATIO: f64 = 0.8;
/// Longer windows are discarded, in seconds.
const MAX_WINDOW_SECONDS: f64 = 5.0;
/// Failure ratio above the usual that counts as overload.
const EXCESS_FAILURE_RATIO: f64 = 0.05;
/// Default queue timeout in unloaded times.
const QUEUE_TIMEOUT_FACTOR: f64 = 12.0;
/// Minimum default queue timeout.
const MIN_QUEUE_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum default queue timeout.
const MAX_QUEUE_TIMEOUT: Duration = Duration::from_millis(1_200);
/// Completions required for a throughput estimate.
const MIN_COMPLETIONS: f64 = 60.0;
/// First increase ratio in overload, with no prior knowledge.
const FIRST_INCREASE_RATIO: f64 = 2.0;
/// The first increase is made only if a queue of that size would drain within this time, in seconds.
const MAX_DRAIN_SECONDS: f64 = 0.3;
/// Initial time between experiments in sustained overload.
const MIN_EXPERIMENT_INTERVAL: Duration = Duration::from_millis(500);

/// Control law of a rule with [`Auto`]. See the [module documentation](self).
///
/// ```
/// use sluicegate_adaptive::concurrency::AutoConcurrency;
/// use sluicegate_adaptive::control_law::{ControlLaw, HostInfo, Observation};
/// use sluicegate_adaptive::readings::Readings;
/// use sluicegate_engine::{Timestamp, overload::Gate, rule::Auto};
///
/// let mut gate = Gate::default();
/// let mut law = AutoConcurrency::new(Auto::default());
/// let (throughput, host) = (gate.throughput(), HostInfo::default());
/// let observation = Observation { now: Timestamp::ZERO, throughput, readings: &Readings::UNKNOWN, host };
/// let adjustment = law.step(&observation, &mut gate);
/// assert_eq!(adjustment.limits.max_in_flight, Some(20));
/// assert_eq!(adjustment.notice.state, "learning");
/// ```
#[derive(Clone, Debug)]
pub struct AutoConcurrency {
    spec: Auto,
    limit: f64,
    /// Seconds that a request takes without queueing. `None` if not known yet.
    unloaded_time: Option<f64>,
    /// Throughput while the limit is reached.
    throughput: ThroughputEstimate,
    /// Usual share of failed requests.
    failure_ratio: f64,
    /// Peak number of requests in flight, decaying.
    peak: f64,
    /// Response times at light load that have not been evaluated yet.
    unloaded_samples: UnloadedSamples,
    experiment: Option<Experiment>,
    /// Decrease trial in progress.
    decrease: Option<DecreaseTrial>,
    /// Increase trial in progress.
    increase: Option<IncreaseTrial>,
    /// Set if an increase has not raised throughput.
    increase_failed: bool,
    /// Recent throughput at light load; zero if there was none.
    light_load_throughput: f64,
    /// True if an experiment has found something since the last light load.
    tested: bool,
    /// True if the last window was slower than usual.
    was_slower: bool,
    /// True if the last experiment cast doubt on the estimate.
    in_doubt: bool,
    /// Time between experiments in overload.
    experiment_interval: Duration,
    next_experiment: Timestamp,
    /// No experiment before this time.
    no_experiment_before: Timestamp,
    jitter: Jitter,
    /// Recent share of the time at the limit.
    saturation: Ewma,
    /// Recent difference between arrivals and completions per second.
    inflow_excess: Ewma,
    /// Arrivals and completions since the limit was reached.
    inflow: InflowBalance,
    overload: bool,
    state: ConcurrencyState,
    last_window: Option<Window>,
}

/// State reported in the notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConcurrencyState {
    Learning,
    Steady,
    Growing,
    BackingOff,
    Probing,
}

impl AutoConcurrency {
    /// Creates the law with no knowledge.
    pub fn new(spec: Auto) -> Self {
        Self::with_seed(spec, fastrand::u64(..))
    }

    /// Creates the law with a seed for the jitter of its experiments.
    pub fn with_seed(spec: Auto, seed: u64) -> Self {
        let max = spec.max.max(1);
        let min = spec.min.clamp(1, max);
        let spec = Auto { min, max, start: spec.start.clamp(min, max), ..spec };
        Self {
            spec,
            limit: f64::from(spec.start),
            unloaded_time: None,
            throughput: ThroughputEstimate::default(),
            failure_ratio: 0.0,
            peak: 0.0,
            unloaded_samples: UnloadedSamples::default(),
            experiment: None,
            decrease: None,
            increase: None,
            increase_failed: false,
            light_load_throughput: 0.0,
            tested: false,
            was_slower: false,
            in_doubt: false,
            experiment_interval: MIN_EXPERIMENT_INTERVAL,
            next_experiment: Timestamp::ZERO,
            no_experiment_before: Timestamp::ZERO,
            jitter: Jitter::new(seed),
            saturation: Ewma::from(0.0),
            inflow_excess: Ewma::from(0.0),
            inflow: InflowBalance::default(),
            overload: false,
            state: ConcurrencyState::Learning,
            last_window: None,
        }
    }

    fn set_limit(&mut self, limit: f64) {
        if limit.is_finite() {
            self.limit = limit.clamp(f64::from(self.spec.min), f64::from(self.spec.max));
        }
    }

    /// Returns the limit for this throughput and unloaded time.
    fn limit_for(&self, throughput: f64, unloaded: f64) -> f64 {
        let concurrency = throughput * unloaded;
        let limit = concurrency + (HEADROOM_RATIO * concurrency + SQRT_HEADROOM * concurrency.sqrt()).max(MIN_HEADROOM);
        let max_time = self.spec.max_rt.map_or(f64::INFINITY, |max_rt| max_rt.as_secs_f64());
        // At least one more than the concurrency, or a higher capacity would never be detected.
        limit.min((throughput * max_time.max(unloaded)).max(concurrency + 1.0))
    }

    /// Evaluates a window without an experiment.
    fn observe_window(&mut self, now: Timestamp, window: Window) {
        if window.seconds > MAX_WINDOW_SECONDS {
            // The process was suspended or the clock was set: such a window is meaningless.
            return;
        }
        self.last_window = Some(window);
        self.peak = (self.peak * 0.98).max(window.peak);
        let failing = window.completed > 0.0 && window.failure_ratio > self.failure_ratio + EXCESS_FAILURE_RATIO;
        self.failure_ratio += (window.failure_ratio - self.failure_ratio) * 0.02;
        self.saturation.add(window.saturation, window.memory_weight(self.overload_memory(&window)));
        self.inflow_excess.add(window.inflow_excess(), window.memory_weight(self.overload_memory(&window)));
        let saturation = self.saturation.value().unwrap_or(0.0);
        let excess = self.inflow_excess.value().unwrap_or(0.0);
        self.inflow.add(&window);
        let overrun = saturation >= OVERLOAD_SATURATION && excess >= OVERLOAD_EXCESS_RATIO * window.throughput;
        self.overload =
            if self.overload { saturation >= OVERLOAD_EXIT_SATURATION } else { overrun || self.inflow.is_overload() };
        if self.overload && saturation < OVERLOAD_SATURATION && self.inflow.is_overload() {
            // Clear overload: older data no longer matters.
            self.saturation = Ewma::from(1.0);
        }
        if self.step_increase(now, &window) || self.step_decrease(now, &window) {
            // A trial is in progress.
        } else if self.overload {
            self.adjust_in_overload(now, &window);
        } else if window.saturation <= LIGHT_LOAD_SATURATION && window.in_flight <= self.limit / 2.0 {
            self.adjust_at_light_load(now, &window);
        } else {
            self.adjust_at_limit(&window);
        }
        if failing {
            self.set_limit(self.limit * 0.9);
            self.state = ConcurrencyState::BackingOff;
        }
    }

    /// Memory of the overload detector in seconds. A burst that ends within it is not overload.
    fn overload_memory(&self, window: &Window) -> f64 {
        let sample_time = 60.0 / window.throughput.max(8.0);
        let time = self.unloaded_time.map_or(window.residence_time(), |unloaded| unloaded.min(window.residence_time()));
        (2.0 * time).max(sample_time).clamp(MIN_MEMORY.as_secs_f64(), 10.0)
    }

    /// Overload: moves towards the formula, or starts an experiment first.
    fn adjust_in_overload(&mut self, now: Timestamp, window: &Window) {
        if window.completed == 0.0 || window.saturation < OVERLOAD_SATURATION {
            return;
        }
        self.throughput.add(window);
        let throughput = self.throughput.current();
        let Some(unloaded) = self.unloaded_time else {
            // The baseline must be based on enough completions.
            let (baseline, sample_count) = self.inflow.throughput();
            if sample_count >= MIN_COMPLETIONS {
                match self.increase_failed || window.residence_time() > MAX_DRAIN_SECONDS {
                    // The very first windows begin before any request can have completed.
                    false => {
                        let limit = FIRST_INCREASE_RATIO * self.limit;
                        self.begin_increase(now, window, limit, baseline.max(window.throughput));
                    }
                    true => self.begin_experiment(now, window),
                }
            }
            return;
        };
        // No request takes less than the unloaded time, so the estimate was too long.
        let time = window.in_flight / throughput.max(f64::MIN_POSITIVE);
        let unloaded = if time < UNLOADED_UNDERRUN_RATIO * unloaded {
            (self.tested, self.next_experiment) = (false, now);
            self.unloaded_time = Some(time);
            time
        } else {
            unloaded
        };
        let next = self.limit_for(throughput, unloaded);
        if throughput > THROUGHPUT_RISE_RATIO * self.throughput.at_last_experiment()
            && (0.9..1.1).contains(&(next / self.limit))
        {
            // Throughput has changed so much that the last experiment no longer applies.
            (self.tested, self.next_experiment, self.no_experiment_before) = (false, now, now);
        }
        let slower = throughput < THROUGHPUT_DROP_RATIO * self.throughput.long_term();
        let surprising =
            if self.tested { slower && self.was_slower } else { next < self.limit * DECREASE_THRESHOLD_RATIO };
        self.was_slower = slower;
        if now >= self.no_experiment_before && (now >= self.next_experiment || surprising) {
            return self.begin_experiment(now, window);
        }
        self.state = match next / self.limit {
            ratio if ratio > 1.1 => ConcurrencyState::Growing,
            ratio if ratio < 0.9 => ConcurrencyState::BackingOff,
            _ => ConcurrencyState::Steady,
        };
        self.set_limit(next);
    }

    /// Light load: no request was delayed and half of the limit was free, so response times are unloaded times.
    fn adjust_at_light_load(&mut self, now: Timestamp, window: &Window) {
        self.state = ConcurrencyState::Steady;
        self.unloaded_samples.add(window);
        self.light_load_throughput += (window.throughput - self.light_load_throughput) * window.memory_weight(1.0);
        self.unloaded_time = self.unloaded_samples.estimate(self.unloaded_time);
        self.tested = false;
        self.experiment_interval = MIN_EXPERIMENT_INTERVAL;
        self.next_experiment = now + self.jitter.around(MIN_EXPERIMENT_INTERVAL);
        let sufficient = (5.0 * self.peak).max(f64::from(self.spec.start));
        if self.limit > sufficient {
            self.set_limit(self.limit + (sufficient - self.limit) * 0.05);
        }
    }

    /// The limit was reached now and then: a higher one does no harm without overload.
    fn adjust_at_limit(&mut self, window: &Window) {
        self.state = ConcurrencyState::Steady;
        let formula = self.unloaded_time.map_or(0.0, |unloaded| 1.5 * self.limit_for(window.throughput, unloaded));
        let ceiling = formula.max(f64::from(self.spec.start));
        if window.saturation > LIGHT_LOAD_SATURATION && self.limit < ceiling {
            self.set_limit((self.limit + self.limit.sqrt().max(1.0)).min(ceiling));
            self.state = ConcurrencyState::Growing;
        }
    }

    fn effective_limit(&self) -> f64 {
        self.experiment.as_ref().map_or(self.limit, |experiment| experiment.limit()).round()
    }

    /// Queue timeout: the configured one, or the typical time until a permit is free. During an experiment even
    /// the highest class may be short of permits, until the limit is restored soon.
    fn queue_timeout(&self) -> Duration {
        let response_time =
            self.unloaded_time.or_else(|| self.last_window.and_then(|window| window.average_time)).unwrap_or(0.0);
        let timeout = Duration::try_from_secs_f64(QUEUE_TIMEOUT_FACTOR * response_time).unwrap_or(MAX_QUEUE_TIMEOUT);
        let timeout = timeout.clamp(MIN_QUEUE_TIMEOUT, MAX_QUEUE_TIMEOUT);
        let default = if self.experiment.is_some() { (2 * timeout).min(MAX_QUEUE_TIMEOUT) } else { timeout };
        self.spec.max_wait.unwrap_or(default)
    }

    fn limits(&self) -> GateLimits {
        let unloaded = self.unloaded_time.unwrap_or(0.0).clamp(0.0, 60.0);
        let queue_timeout = self.queue_timeout();
        let short = Duration::from_secs_f64(unloaded / 2.0).max(Duration::from_millis(5)).min(queue_timeout);
        let target = match self.experiment {
            // Requests that arrive during an experiment are served soon.
            Some(_) => Duration::from_secs_f64(5.0 * unloaded).clamp(short, queue_timeout),
            None if self.overload => short,
            None => queue_timeout,
        };
        let queue = QueueBounds { max_wait: queue_timeout, target, max_waiting: self.spec.max_waiting as usize };
        GateLimits { max_in_flight: Some(self.effective_limit().max(1.0) as usize), queue, ..GateLimits::OPEN }
    }
}

impl ControlLaw for AutoConcurrency {
    fn step(&mut self, observation: &Observation<'_>, intervals: &mut dyn IntervalSource) -> Adjustment {
        let now = observation.now;
        if let Some(experiment) = &mut self.experiment {
            match experiment.step(now, observation.throughput.in_flight, intervals) {
                ExperimentStep::Continue => {}
                ExperimentStep::Finished { unloaded_time } => {
                    let throughput = experiment.throughput();
                    self.finish_experiment(now, unloaded_time, throughput);
                }
            }
        } else if Window::is_complete(&intervals.peek(), self.last_window.as_ref()) {
            let window = Window::from_interval(&intervals.take());
            self.observe_window(now, window);
        }
        Adjustment { limits: self.limits(), notice: self.notice(observation) }
    }
}
