//! CPU-based rate limit: keeps CPU use at a target.
//!
//! The CPU cost of a request is measured: CPU time divided by completed requests. So the rate for the target is
//! known at once, `cores x target / cost`, and need not be searched for while the CPU is saturated. A small
//! correction makes up for varying costs and other processes: it moves slowly towards the target, within 0.5 to
//! 1.25.
//!
//! **A backlog** from before the limit applied is detected: more requests are in flight than that rate would
//! leave at unloaded response times, while the CPU is saturated. It is drained within a second or two by
//! admitting less, down to a fifth, instead of staying saturated. The correction pauses during that time, or it
//! would learn from the backlog.
//!
//! **Entry and exit.** The limit applies while CPU use is above `threshold`, work waits for a CPU nearly all the
//! time, or a quota is exhausted in one period of four. It applies at once if an interval was saturated and
//! arrivals exceed the capacity of all cores: waiting for clearer signals builds up a backlog. It ends after a
//! second without refusals if none of that holds: then it made no difference. It also ends if CPU use is far
//! below the target for two seconds: then it refused only bursts.
//!
//! **CPU used by other processes** is subtracted, but at least half of the target remains: otherwise a process
//! that takes all CPU would be granted all of it.
//!
//! **Without core counts or CPU time** the current throughput is scaled by target over use.
//!
//! ```
//! use sluicegate_adaptive::control_law::{ControlLaw, HostInfo, Observation};
//! use sluicegate_adaptive::{cpu::CpuLimiter, readings::Readings};
//! use sluicegate_engine::{Timestamp, overload::{Gate, Throughput}, rule::{CpuGuard, Signal}};
//!
//! let mut law = CpuLimiter::new(CpuGuard { target: 0.8, threshold: 0.85 });
//! let mut readings = Readings::UNKNOWN;
//! readings.set(Signal::Cpu, Some(1.0));
//! let throughput = Throughput { arrivals: 500.0, responses: 100.0, ..Throughput::default() };
//! let (now, host) = (Timestamp::ZERO, HostInfo::default());
//! let adjustment = law.step(&Observation { now, throughput, readings: &readings, host }, &mut Gate::default());
//! assert_eq!(adjustment.notice.reason, "cpu 100% > 85%: at most 80 per 1s");
//! ```

mod cost;

use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::overload::{GateLimits, Interval, OverloadNotice, Throughput, VariableRate};
use sluicegate_engine::rule::{CpuGuard, Signal, SignalUnit};

use crate::control_law::{Adjustment, ControlLaw, HostInfo, IntervalSource, Observation};
use crate::display;
use crate::readings::Readings;
use cost::{CostEstimate, CostSample, CostTracker};

const SIGNALS: [Signal; 3] = [Signal::Cpu, Signal::CpuPressure, Signal::CpuThrottled];

/// CPU pressure above which there is overload, and below which it ends. High: with two cores, some task
/// waits half of the time at three quarters of CPU use.
const PRESSURE_THRESHOLDS: (f64, f64) = (0.9, 0.7);
/// Share of throttled quota periods above which there is overload, and below which it ends.
const THROTTLED_THRESHOLDS: (f64, f64) = (0.25, 0.1);
/// Gain of the correction per second and unit of error.
const CORRECTION_GAIN: f64 = 0.2;
/// Bounds of the correction.
const MIN_TRIM: f64 = 0.5;
const MAX_TRIM: f64 = 1.25;
/// Error assumed while the CPU is short for other reasons.
const SHORTAGE_ERROR: f64 = 0.1;
/// Share of the target that other processes cannot take.
const MIN_TARGET_SHARE: f64 = 0.5;
/// Minimum share of the rate while a backlog drains.
const MIN_DRAIN_RATIO: f64 = 0.2;
/// A backlog below this share of a second's rate is noise.
const BACKLOG_NOISE: f64 = 0.2;
/// Weight of one interval without a rate in the unloaded time.
const UNLOADED_WEIGHT: f64 = 0.1;
/// Margin below the target, and duration, after which the limit ends in any case.
const EXIT_MARGIN: f64 = 0.15;
const EXIT_DELAY: Duration = Duration::from_secs(2);
/// An unchanged reading counts as new after this time.
const MAX_READING_AGE: Duration = Duration::from_secs(1);

/// Control law of a [`CpuGuard`].
#[derive(Debug)]
pub struct CpuLimiter {
    rule: CpuGuard,
    costs: CostTracker,
    last_reading: Option<(Timestamp, f64)>,
    trim: f64,
    state: CpuLimiterState,
    /// Response time with spare CPU, in seconds.
    unloaded_time: Option<f64>,
    /// Cores used in the last interval.
    used_cores: Option<f64>,
}

/// A rate and the estimate it is based on.
#[derive(Clone, Copy, Debug)]
struct RateEstimate {
    per_second: f64,
    /// Backlog of requests in flight, in seconds of the rate.
    backlog: f64,
    basis: Option<(CostEstimate, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum CpuLimiterState {
    /// No limit applies.
    Closed,
    /// A rate applies; `below_since` is the time since which CPU use is far below the target.
    Limited { below_since: Option<Timestamp> },
}

/// CPU signals of one reading.
#[derive(Clone, Copy, Debug)]
struct CpuSignals {
    cpu: Option<f64>,
    pressure: Option<f64>,
    throttled: Option<f64>,
}

impl CpuSignals {
    fn of(readings: &Readings) -> Self {
        Self {
            cpu: readings.get(Signal::Cpu),
            pressure: readings.get(Signal::CpuPressure),
            throttled: readings.get(Signal::CpuThrottled),
        }
    }

    /// True if work waits for a CPU or a quota is exhausted; `entering` selects the higher thresholds.
    fn is_cpu_short(&self, entering: bool) -> bool {
        let beyond = |reading: Option<f64>, (enter, exit): (f64, f64)| {
            reading.is_some_and(|reading| reading > if entering { enter } else { exit })
        };
        beyond(self.pressure, PRESSURE_THRESHOLDS) || beyond(self.throttled, THROTTLED_THRESHOLDS)
    }
}

impl CpuLimiter {
    /// Creates the law of this guard.
    pub fn new(rule: CpuGuard) -> Self {
        Self {
            rule,
            costs: CostTracker::default(),
            last_reading: None,
            trim: 1.0,
            state: CpuLimiterState::Closed,
            unloaded_time: None,
            used_cores: None,
        }
    }

    /// True if the CPU time is a new reading. It stays the same if no CPU is used.
    fn is_new_reading(&self, observation: &Observation<'_>) -> bool {
        let Some((at, seconds)) = self.last_reading else { return true };
        observation.host.cpu_seconds != Some(seconds) || observation.now - at >= MAX_READING_AGE
    }

    /// Records CPU time and completions since the last reading. Returns the duration in seconds.
    fn record(&mut self, observation: &Observation<'_>, cpu: Option<f64>, interval: &Interval) -> f64 {
        let Observation { now, host, throughput, .. } = *observation;
        let last = self.last_reading;
        self.used_cores = None;
        self.last_reading = host.cpu_seconds.map(|seconds| (now, seconds));
        let interval_seconds = interval.duration.as_secs_f64();
        let (Some((before, used_before)), Some(used)) = (last, host.cpu_seconds) else { return interval_seconds };
        let seconds = (now - before).as_secs_f64();
        if seconds <= 0.0 || used < used_before {
            return interval_seconds;
        }
        let completed = interval.completed + interval.failed;
        // If completions are not reported, admitted requests are used instead. They are never in flight.
        let unreported = completed == 0 && throughput.in_flight == 0;
        let completed = if unreported { interval.arrived.saturating_sub(interval.refused) } else { completed };
        let used = used - used_before;
        self.used_cores = Some(used / seconds);
        let used_by_all = cpu.zip(host.cores).map(|(share, cores)| share * cores);
        let other_cores = used_by_all.map_or(0.0, |all| all - used / seconds);
        let sample = CostSample { seconds, cpu: used, completed: completed as f64, other_cores };
        self.costs.record(sample, throughput.in_flight as f64);
        seconds
    }

    /// True if the last interval was saturated and arrivals exceed the capacity of all cores.
    fn is_overrun(&self, host: HostInfo, throughput: &Throughput) -> bool {
        let (Some(used), Some(cores), Some(estimate)) = (self.used_cores, host.cores, self.costs.estimate()) else {
            return false;
        };
        used > self.rule.threshold * cores && throughput.arrivals * estimate.cost > cores
    }

    fn next_state(&self, observation: &Observation<'_>, signals: CpuSignals) -> CpuLimiterState {
        let Observation { now, throughput, host, .. } = *observation;
        let above = signals.cpu.is_some_and(|cpu| cpu > self.rule.threshold);
        match self.state {
            CpuLimiterState::Closed if above || signals.is_cpu_short(true) || self.is_overrun(host, &throughput) => {
                CpuLimiterState::Limited { below_since: None }
            }
            CpuLimiterState::Closed => CpuLimiterState::Closed,
            CpuLimiterState::Limited { below_since } => {
                let well_below = signals.cpu.is_some_and(|cpu| cpu < self.rule.target - EXIT_MARGIN);
                let below_since = (well_below && !signals.is_cpu_short(false)).then(|| below_since.unwrap_or(now));
                let idle = throughput.refusals <= 0.0 && !above && !signals.is_cpu_short(false);
                if idle || below_since.is_some_and(|since| now - since >= EXIT_DELAY) {
                    CpuLimiterState::Closed
                } else {
                    CpuLimiterState::Limited { below_since }
                }
            }
        }
    }

    /// Moves the correction towards the target.
    fn adjust_trim(&mut self, signals: CpuSignals, is_refusing: bool, seconds: f64) {
        let Some(cpu) = signals.cpu else { return };
        let mut error = self.rule.target - cpu;
        if signals.is_cpu_short(false) {
            error = error.min(-SHORTAGE_ERROR);
        }
        // CPU use without refusals does not show that the rate is too low.
        if error > 0.0 && !is_refusing {
            return;
        }
        self.trim = (self.trim + CORRECTION_GAIN * error * seconds.min(1.0)).clamp(MIN_TRIM, MAX_TRIM);
    }

    /// Records the response time with spare CPU. While a rate applies, only lower values: some completed
    /// requests come from the backlog.
    fn record_unloaded_time(&mut self, signals: CpuSignals, throughput: &Throughput) {
        let Some(time) = throughput.average.filter(|_| signals.cpu.is_some_and(|cpu| cpu < self.rule.threshold)) else {
            return;
        };
        let unloaded = self.unloaded_time.unwrap_or(time);
        self.unloaded_time = Some(match self.state {
            CpuLimiterState::Closed => unloaded + (time - unloaded) * UNLOADED_WEIGHT,
            CpuLimiterState::Limited { .. } => unloaded.min(time),
        });
    }

    /// Computes the rate for the target.
    fn compute_rate(&self, host: HostInfo, signals: CpuSignals, throughput: &Throughput) -> Option<RateEstimate> {
        let measured = self.costs.estimate().zip(host.cores).filter(|(_, cores)| *cores > 0.0);
        let Some((estimate, cores)) = measured else {
            let cpu = signals.cpu.filter(|cpu| *cpu > 0.0)?;
            let per_second = throughput.responses * self.rule.target / cpu * self.trim;
            return (per_second > 0.0).then_some(RateEstimate { per_second, backlog: 0.0, basis: None });
        };
        let target = cores * self.rule.target;
        let available = (target - estimate.other_cores).max(target * MIN_TARGET_SHARE);
        let per_second = available / estimate.cost * self.trim;
        let expected_in_flight = self.unloaded_time.map(|time| per_second * time);
        let excess = expected_in_flight.map_or(0.0, |expected| (throughput.in_flight as f64 - expected) / per_second);
        // With spare CPU, requests in flight wait for something else.
        let saturated = signals.cpu.is_some_and(|cpu| cpu > self.rule.threshold) || self.is_overrun(host, throughput);
        let backlog = if saturated && excess > BACKLOG_NOISE { excess } else { 0.0 };
        let per_second = per_second * (1.0 - backlog).max(MIN_DRAIN_RATIO);
        Some(RateEstimate { per_second, backlog, basis: Some((estimate, cores)) })
    }

    fn describe_signals(&self, signals: CpuSignals) -> String {
        let limits = [self.rule.threshold, PRESSURE_THRESHOLDS.0, THROTTLED_THRESHOLDS.0];
        let values = [signals.cpu, signals.pressure, signals.throttled];
        let mut parts = Vec::new();
        for ((signal, value), limit) in SIGNALS.into_iter().zip(values).zip(limits) {
            if let Some(value) = value.filter(|value| *value > limit || signal == Signal::Cpu) {
                let comparison = if value > limit { format!(" > {}", signal.format(limit)) } else { String::new() };
                parts.push(format!("{} {}{comparison}", signal.name(), signal.format(value)));
            }
        }
        parts.join(", ")
    }
}

impl ControlLaw for CpuLimiter {
    fn step(&mut self, observation: &Observation<'_>, intervals: &mut dyn IntervalSource) -> Adjustment {
        let Observation { throughput, readings, host, .. } = *observation;
        let signals = CpuSignals::of(readings);
        // The host is read less often than this runs: CPU use is the difference of two readings.
        let seconds = if self.is_new_reading(observation) {
            self.record(observation, signals.cpu, &intervals.take())
        } else {
            0.0
        };
        self.record_unloaded_time(signals, &throughput);
        let previous_state = self.state;
        self.state = self.next_state(observation, signals);
        let estimate = match self.state {
            CpuLimiterState::Limited { .. } => self.compute_rate(host, signals, &throughput),
            CpuLimiterState::Closed => None,
        };
        if previous_state == CpuLimiterState::Closed {
            // Earlier CPU use by other processes does not lower the initial rate.
            self.trim = 1.0;
        } else if estimate.is_none_or(|estimate| estimate.backlog <= 0.0) {
            self.adjust_trim(signals, throughput.refusals > 0.0, seconds);
        }
        let rate = estimate
            .map(|estimate| VariableRate { count: estimate.per_second.max(1.0), window: Duration::from_secs(1) });
        let values = SIGNALS.map(|signal| (signal, readings.get(signal)));
        let (state, reason) = match (self.state, rate, estimate) {
            (CpuLimiterState::Closed, ..) if readings.is_unreadable(Signal::Cpu) => {
                ("closed", "cpu cannot be read".to_owned())
            }
            (CpuLimiterState::Closed, ..) => ("closed", String::new()),
            (CpuLimiterState::Limited { .. }, Some(rate), Some(RateEstimate { basis: Some((cost, cores)), .. })) => {
                let cost = SignalUnit::Seconds.format(cost.cost);
                let basis = format!("{cost} CPU per request, {} cores", SignalUnit::Number.format(cores));
                ("limited", format!("{}, {basis}: {}", self.describe_signals(signals), display::format_rate(rate)))
            }
            (CpuLimiterState::Limited { .. }, Some(rate), _) => {
                ("limited", format!("{}: {}", self.describe_signals(signals), display::format_rate(rate)))
            }
            // An unknown rate does not limit.
            (CpuLimiterState::Limited { .. }, None, _) => {
                ("learning", format!("{}, CPU cost per request not known yet", self.describe_signals(signals)))
            }
        };
        let notice = OverloadNotice { state, reason, readings: values.into() };
        Adjustment { limits: GateLimits { rate, ..GateLimits::OPEN }, notice }
    }
}
