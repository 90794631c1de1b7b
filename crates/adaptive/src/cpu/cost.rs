//! CPU cost per request, from CPU time and completed requests of the last seconds.
//!
//! The span is two seconds, and up to ten if it holds too few requests. CPU time is attributed to requests only
//! while there are some: the CPU use of an idle process would make a few requests look expensive, and on a busy
//! process it is too small to matter.
//!
//! CPU time is spent before a request completes. While a backlog grows, completions are too few for the CPU
//! time, and while it drains, too many. Small changes are compensated: a third of the increase in requests in
//! flight counts as completed. That is between none, as in a queue, and half, as with processor sharing. For
//! larger changes samples are merged until the number in flight is about the same as at the start: over the
//! merged span the cost is right again. Meanwhile the open span gives bounds: the cost is no less than if all
//! arrivals were completed, and no more than if none of those in flight had used CPU time.

use std::collections::VecDeque;

/// Length of the span in seconds, if it holds enough requests.
const MIN_SPAN_SECONDS: f64 = 2.0;
/// Maximum length of the span.
const MAX_SPAN_SECONDS: f64 = 10.0;
/// Number of requests that are enough.
const MIN_REQUESTS: f64 = 20.0;
/// Samples with less CPU use, in cores, are not attributed to requests.
const IDLE_CORES: f64 = 0.02;

/// Maximum change of requests in flight over a span, relative to its completions.
const MAX_IN_FLIGHT_CHANGE: f64 = 0.6;
/// Share of the work that counts as done for a request in flight.
const IN_FLIGHT_PROGRESS: f64 = 1.0 / 3.0;
/// Maximum length of a merged span in seconds.
const MAX_MERGED_SECONDS: f64 = 3.0;

/// Measurements of one interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CostSample {
    /// Duration in seconds.
    pub(super) seconds: f64,
    /// CPU time used, in seconds.
    pub(super) cpu: f64,
    /// Completed requests.
    pub(super) completed: f64,
    /// Cores used by other processes, if known. Negative if both were not measured over the same time.
    pub(super) other_cores: f64,
}

impl CostSample {
    /// Merges two samples.
    fn merge(self, other: Self) -> Self {
        let seconds = self.seconds + other.seconds;
        let others = self.other_cores * self.seconds + other.other_cores * other.seconds;
        Self {
            seconds,
            cpu: self.cpu + other.cpu,
            completed: self.completed + other.completed,
            other_cores: if seconds > 0.0 { others / seconds } else { 0.0 },
        }
    }
}

/// Samples of the last seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct CostTracker {
    samples: VecDeque<CostSample>,
    /// Span being merged, and the number of requests in flight at its start.
    open_span: Option<(CostSample, f64)>,
    in_flight: f64,
}

/// Estimate from the last seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CostEstimate {
    /// CPU seconds per request.
    pub(super) cost: f64,
    /// Cores used by other processes.
    pub(super) other_cores: f64,
}

impl CostTracker {
    /// Records a sample with the number of requests in flight at its end.
    pub(super) fn record(&mut self, sample: CostSample, in_flight: f64) {
        let before = std::mem::replace(&mut self.in_flight, in_flight);
        if self.open_span.is_none() && sample.cpu < IDLE_CORES * sample.seconds && sample.completed <= 0.0 {
            return;
        }
        let (span, in_flight_at_start) = self.open_span.take().unwrap_or((CostSample::default(), before));
        let mut span = span.merge(sample);
        let change = in_flight - in_flight_at_start;
        if change.abs() > MAX_IN_FLIGHT_CHANGE * span.completed && span.seconds < MAX_MERGED_SECONDS {
            self.open_span = Some((span, in_flight_at_start));
            return;
        }
        span.completed = (span.completed + IN_FLIGHT_PROGRESS * change).max(0.0);
        self.samples.push_front(span);
        let mut seconds = 0.0;
        self.samples.retain(|sample| {
            seconds += sample.seconds;
            seconds - sample.seconds < MAX_SPAN_SECONDS
        });
    }

    /// Returns the estimate. `None` if there is too little data.
    pub(super) fn estimate(&self) -> Option<CostEstimate> {
        let mut all = CostSample::default();
        for sample in &self.samples {
            if all.seconds >= MIN_SPAN_SECONDS && all.completed >= MIN_REQUESTS {
                break;
            }
            all = all.merge(*sample);
        }
        let known = all.completed >= 1.0 && all.cpu > 0.0 && all.seconds > 0.0;
        known.then(|| CostEstimate {
            cost: self.bound_by_open_span(all.cpu / all.completed),
            other_cores: all.other_cores.max(0.0),
        })
    }

    /// Bounds the cost by the open span.
    fn bound_by_open_span(&self, cost: f64) -> f64 {
        let Some((span, in_flight_at_start)) = self.open_span.filter(|(span, _)| span.cpu > 0.0) else { return cost };
        let change = self.in_flight - in_flight_at_start;
        let (min_completed, max_completed) = (span.completed + change.min(0.0), span.completed + change.max(0.0));
        let cost = if max_completed > 0.0 { cost.max(span.cpu / max_completed) } else { cost };
        if min_completed > 0.0 { cost.min(span.cpu / min_completed) } else { cost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cpu: f64, done: f64) -> CostSample {
        CostSample { seconds: 0.25, cpu, completed: done, other_cores: 0.0 }
    }

    fn cost(costs: &CostTracker) -> Option<f64> {
        costs.estimate().map(|estimate| (estimate.cost * 1e9).round() / 1e9)
    }

    #[test]
    fn cost_uses_the_last_two_seconds_if_they_hold_enough_requests() {
        let mut costs = CostTracker::default();
        assert_eq!(cost(&costs), None);
        (0..40).for_each(|_| costs.record(sample(0.2, 100.0), 0.0));
        assert_eq!(cost(&costs), Some(0.002));
        (0..8).for_each(|_| costs.record(sample(0.4, 100.0), 0.0));
        assert_eq!(cost(&costs), Some(0.004), "older samples do not count");
    }

    #[test]
    fn few_requests_extend_the_span() {
        let mut costs = CostTracker::default();
        (0..40).for_each(|index| costs.record(sample(if index % 2 == 0 { 0.1 } else { 0.3 }, 1.0), 0.0));
        assert_eq!(cost(&costs), Some(0.2));
        // At most ten seconds are stored.
        (0..400).for_each(|_| costs.record(sample(0.1, 1.0), 0.0));
        assert!(costs.samples.len() <= 41);
    }

    #[test]
    fn a_backlog_and_its_drain_count_as_one_span() {
        let mut costs = CostTracker::default();
        (0..40).for_each(|_| costs.record(sample(0.4, 100.0), 10.0));
        assert_eq!(cost(&costs), Some(0.004));
        // The CPU is saturated and a backlog grows.
        (1..=4).for_each(|index| costs.record(sample(0.5, 25.0), 300.0 * f64::from(index)));
        assert_eq!(cost(&costs), Some(0.004));
        // Then the backlog drains.
        (1..=4).for_each(|index| costs.record(sample(0.5, 225.0), 1_200.0 - 297.5 * f64::from(index)));
        let estimate = cost(&costs).unwrap();
        assert!((0.003..0.005).contains(&estimate), "{estimate}");
        (0..8).for_each(|_| costs.record(sample(0.4, 100.0), 10.0));
        // If a backlog never drains, a part of it counts as completed.
        (1..=12).for_each(|index| costs.record(sample(0.5, 25.0), 10.0 + 75.0 * f64::from(index)));
        assert_eq!(cost(&costs), Some(0.01));
    }

    #[test]
    fn idle_samples_are_ignored() {
        let mut costs = CostTracker::default();
        (0..20).for_each(|_| costs.record(sample(0.2, 100.0), 0.0));
        (0..400).for_each(|_| costs.record(sample(0.001, 0.0), 0.0));
        assert_eq!(cost(&costs), Some(0.002));
    }
}
