//! Estimators over measurement windows.

use std::time::Duration;

use sluicegate_engine::overload::Interval;

/// Minimum duration of a window.
const MIN_WINDOW: Duration = Duration::from_millis(100);
/// Maximum time a window waits for enough completions.
const MAX_WINDOW: Duration = Duration::from_millis(500);
/// Number of completions that complete a window.
const TARGET_COMPLETIONS: u64 = 60;

/// Measurements of one window as plain numbers, all of them finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    /// Duration in seconds.
    pub(super) seconds: f64,
    /// Completions per second.
    pub(super) throughput: f64,
    /// Arrivals per second.
    pub(super) arrivals: f64,
    /// Completed requests.
    pub(super) completed: f64,
    /// Successfully completed requests.
    pub(super) succeeded: f64,
    /// Share of failed requests.
    pub(super) failure_ratio: f64,
    /// Average response time in seconds.
    pub(super) average_time: Option<f64>,
    /// Average number of requests in flight.
    pub(super) in_flight: f64,
    /// Peak number of requests in flight.
    pub(super) peak: f64,
    /// Share of the time in which the limit was reached.
    pub(super) saturation: f64,
}

impl Window {
    /// True if an interval holds enough data for a window, given the previous window.
    pub(super) fn is_complete(interval: &Interval, before: Option<&Self>) -> bool {
        let time = before.map_or(0.0, Self::residence_time);
        let min_duration = Duration::try_from_secs_f64(1.5 * time).unwrap_or(MAX_WINDOW).clamp(MIN_WINDOW, MAX_WINDOW);
        interval.duration >= min_duration
            && (interval.completed + interval.failed >= TARGET_COMPLETIONS || interval.duration >= MAX_WINDOW)
    }

    /// Converts an interval to a window.
    pub(super) fn from_interval(interval: &Interval) -> Self {
        let finite = |value: f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
        let (succeeded, failed) = (interval.completed as f64, interval.failed as f64);
        let completed = succeeded + failed;
        Self {
            seconds: interval.duration.as_secs_f64(),
            throughput: completed / interval.duration.as_secs_f64().max(0.001),
            arrivals: interval.arrived as f64 / interval.duration.as_secs_f64().max(0.001),
            completed,
            succeeded,
            failure_ratio: failed / completed.max(1.0),
            average_time: interval.average.filter(|average| average.is_finite() && *average > 0.0),
            in_flight: finite(interval.in_flight),
            peak: interval.peak_in_flight as f64,
            saturation: finite(interval.full_ratio).min(1.0),
        }
    }

    /// Residence time of a request by Little's law. Unlike the times of completed requests, it does not lag
    /// behind a change of the limit.
    pub(super) fn residence_time(&self) -> f64 {
        if self.throughput > 0.0 { self.in_flight / self.throughput } else { self.average_time.unwrap_or(0.0) }
    }

    /// Arrivals per second minus completions per second.
    pub(super) fn inflow_excess(&self) -> f64 {
        self.arrivals - self.throughput
    }

    /// Weight of this window in a memory of this many seconds.
    pub(super) fn memory_weight(&self, memory: f64) -> f64 {
        (self.seconds / (self.seconds + memory)).clamp(0.0, 1.0)
    }

    /// Weight of this window against earlier knowledge: large, unless few completions make it noisy.
    pub(super) fn sample_weight(&self) -> f64 {
        (self.completed / (self.completed + 8.0)).min(0.5)
    }
}

/// Exponentially weighted moving average; the first sample is taken as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ewma(Option<f64>);

impl From<f64> for Ewma {
    fn from(value: f64) -> Self {
        Self(Some(value))
    }
}

impl Ewma {
    pub(super) fn add(&mut self, measured: f64, weight: f64) {
        if measured.is_finite() {
            self.0 = Some(self.0.map_or(measured, |value| value + (measured - value) * weight));
        }
    }

    pub(super) const fn value(&self) -> Option<f64> {
        self.0
    }
}

/// Response times at light load, pooled until there are enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct UnloadedSamples {
    count: f64,
    seconds: f64,
    /// True for the first pool.
    first: bool,
}

impl Default for UnloadedSamples {
    fn default() -> Self {
        Self { count: 0.0, seconds: 0.0, first: true }
    }
}

impl UnloadedSamples {
    const MIN_SAMPLES: f64 = 200.0;
    /// The first pool may be smaller: without it nothing is known.
    const MIN_FIRST_SAMPLES: f64 = 20.0;

    pub(super) fn add(&mut self, window: &Window) {
        if let Some(average) = window.average_time {
            self.count += window.succeeded;
            self.seconds += window.succeeded * average;
        }
    }

    /// Updates the estimate of the unloaded time. The first samples are averaged; later ones can only lower it.
    pub(super) fn estimate(&mut self, current: Option<f64>) -> Option<f64> {
        if self.count == 0.0 {
            return current;
        }
        let average = self.seconds / self.count;
        let is_enough = self.count >= if self.first { Self::MIN_FIRST_SAMPLES } else { Self::MIN_SAMPLES };
        let learned = match current {
            None => average,
            Some(_) if self.first => average,
            Some(known) if is_enough => known.min(known + (average - known) * 0.5),
            Some(known) => known,
        };
        if is_enough {
            *self = Self { first: false, ..Self::default() };
        }
        Some(learned)
    }

    /// Discards the samples after a better estimate was found; later pools are not the first.
    pub(super) fn reset(&mut self) {
        *self = Self { first: false, ..Self::default() };
    }
}

/// Throughput while the limit is reached: current and long-term.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ThroughputEstimate {
    current: Option<f64>,
    /// Squared relative error of the current estimate.
    variance: f64,
    long_term: f64,
    at_last_experiment: Option<f64>,
}

impl ThroughputEstimate {
    pub(super) fn add(&mut self, window: &Window) {
        let Some(now) = self.current else {
            (self.current, self.long_term) = (Some(window.throughput), window.throughput);
            self.variance = 1.0 / window.completed.max(1.0);
            return;
        };
        // A large difference is not only noise.
        let is_similar = (0.75..1.25).contains(&(window.throughput / now));
        let weight = window.sample_weight() * if is_similar { 0.5 } else { 1.0 };
        let now = now + (window.throughput - now) * weight;
        self.current = Some(now);
        self.variance = self.variance * (1.0 - weight) * (1.0 - weight) + weight * weight / window.completed.max(1.0);
        self.long_term = (self.long_term + (now - self.long_term) * 0.05).max(0.8 * now);
    }

    /// Current throughput.
    pub(super) fn current(&self) -> f64 {
        self.current.unwrap_or(0.0)
    }

    /// Equivalent number of completions that the current estimate is based on.
    pub(super) fn sample_count(&self) -> f64 {
        1.0 / self.variance.max(0.001)
    }

    /// Throughput averaged over many windows.
    pub(super) const fn long_term(&self) -> f64 {
        self.long_term
    }

    /// Throughput at the last experiment; infinite if there was none.
    pub(super) fn at_last_experiment(&self) -> f64 {
        self.at_last_experiment.unwrap_or(f64::INFINITY)
    }

    /// Marks an experiment: the current throughput becomes the long-term one.
    pub(super) fn mark_tested(&mut self) {
        self.long_term = self.current();
        self.at_last_experiment = self.current;
    }
}

/// Arrivals and completions since the limit was reached: distinguishes overload from chance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct InflowBalance {
    seconds: f64,
    arrived: f64,
    completed: f64,
}

impl InflowBalance {
    /// Share of the time at the limit above which a window counts as saturated.
    const SATURATED_RATIO: f64 = 0.75;
    /// Minimum saturated time, in seconds.
    const MIN_SECONDS: f64 = 0.3;
    /// Seconds that count in full before older data decays.
    const DECAY_SECONDS: f64 = 10.0;
    /// Number of standard deviations for clear overload.
    const CLEAR_SIGMAS: f64 = 3.0;
    /// Number of standard deviations for likely overload.
    const LIKELY_SIGMAS: f64 = 1.6;

    pub(super) fn add(&mut self, window: &Window) {
        if window.saturation < Self::SATURATED_RATIO {
            *self = Self::default();
            return;
        }
        if self.seconds > Self::DECAY_SECONDS {
            // Older data counts less and less.
            (self.seconds, self.arrived, self.completed) =
                (self.seconds / 2.0, self.arrived / 2.0, self.completed / 2.0);
        }
        self.seconds += window.seconds;
        self.arrived += window.arrivals * window.seconds;
        self.completed += window.completed;
    }

    /// Completions per second, and the number of completions it is based on.
    pub(super) fn throughput(&self) -> (f64, f64) {
        (self.completed / self.seconds.max(f64::MIN_POSITIVE), self.completed)
    }

    /// True if arrivals exceed completions by more than chance explains.
    pub(super) fn is_overload(&self) -> bool {
        self.seconds >= Self::MIN_SECONDS && self.exceeds_by_sigmas(Self::CLEAR_SIGMAS)
    }

    /// True if arrivals exceed completions by more than chance is likely to explain.
    pub(super) fn is_likely_overload(&self) -> bool {
        self.exceeds_by_sigmas(Self::LIKELY_SIGMAS)
    }

    /// True if arrivals exceed completions by this many standard deviations.
    fn exceeds_by_sigmas(&self, sigmas: f64) -> bool {
        self.arrived - self.completed >= sigmas * (self.arrived + self.completed).sqrt()
    }

    /// True if throughput is clearly below this value.
    pub(super) fn is_slower_than(&self, throughput: f64) -> bool {
        let expected = throughput * self.seconds;
        self.completed > 0.0 && self.completed < expected - Self::CLEAR_SIGMAS * expected.sqrt()
    }
}
