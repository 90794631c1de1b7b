//! Simulation report: outcomes, goodput and latency percentiles.
//!
//! Spans are in seconds. A request is attributed to its arrival time.

use std::ops::Range;

use super::{Class, SECOND};

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Response before the client timeout.
    InTime,
    /// Response after the client timeout.
    TimedOut,
    /// Refused by the admission policy.
    Refused,
    /// Still running or queued at the end of the simulation.
    Unfinished,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RequestRecord {
    pub(super) arrived_at: u64,
    /// Time from arrival to the end of the request, including queueing.
    pub(super) latency: u64,
    pub(super) class: Class,
    pub(super) outcome: RequestOutcome,
}

/// Outcome counts of the requests that arrived in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OutcomeCounts {
    /// Number of arrivals.
    pub offered: usize,
    /// Responses before the client timeout.
    pub in_time: usize,
    /// Responses after the client timeout.
    pub timed_out: usize,
    /// Refused requests.
    pub refused: usize,
    /// Mean seconds from arrival to response.
    pub mean_latency: f64,
}

/// Result of one simulation.
#[derive(Clone, Debug)]
pub struct SimReport {
    records: Vec<RequestRecord>,
    limits: Vec<(f64, f64)>,
    timeout: f64,
}

impl SimReport {
    pub(super) const fn new(records: Vec<RequestRecord>, limits: Vec<(f64, f64)>, timeout: f64) -> Self {
        Self { records, limits, timeout }
    }

    fn span(&self, span: &Range<f64>) -> &[RequestRecord] {
        let nanos = |seconds: f64| (seconds * SECOND as f64) as u64;
        let first = self.records.partition_point(|it| it.arrived_at < nanos(span.start));
        let end = self.records.partition_point(|it| it.arrived_at < nanos(span.end));
        &self.records[first..end.max(first)]
    }

    /// Outcomes of the requests that arrived in a span.
    pub fn outcomes(&self, span: Range<f64>) -> OutcomeCounts {
        self.count(self.span(&span).iter())
    }

    /// Outcomes of the requests of one class that arrived in a span.
    pub fn outcomes_of(&self, class: Class, span: Range<f64>) -> OutcomeCounts {
        self.count(self.span(&span).iter().filter(|it| it.class == class))
    }

    fn count<'a>(&self, records: impl Iterator<Item = &'a RequestRecord>) -> OutcomeCounts {
        let mut counts = OutcomeCounts::default();
        let mut seconds = 0.0;
        for record in records {
            counts.offered += 1;
            match record.outcome {
                RequestOutcome::InTime => counts.in_time += 1,
                RequestOutcome::TimedOut => counts.timed_out += 1,
                RequestOutcome::Refused => counts.refused += 1,
                RequestOutcome::Unfinished => {}
            }
            if matches!(record.outcome, RequestOutcome::InTime | RequestOutcome::TimedOut) {
                seconds += record.latency as f64 / SECOND as f64;
            }
        }
        counts.mean_latency = seconds / (counts.in_time + counts.timed_out).max(1) as f64;
        counts
    }

    /// In-time responses per second, for requests that arrived in a span.
    pub fn goodput(&self, span: Range<f64>) -> f64 {
        self.outcomes(span.clone()).in_time as f64 / (span.end - span.start)
    }

    /// Arrivals per second in a span.
    pub fn offered(&self, span: Range<f64>) -> f64 {
        self.span(&span).len() as f64 / (span.end - span.start)
    }

    /// Share of refused requests among the arrivals of a span.
    pub fn refused_share(&self, span: Range<f64>) -> f64 {
        let outcomes = self.outcomes(span);
        outcomes.refused as f64 / outcomes.offered.max(1) as f64
    }

    /// Share of in-time responses among a class's arrivals of a span.
    pub fn success_share(&self, class: Class, span: Range<f64>) -> f64 {
        let outcomes = self.outcomes_of(class, span);
        outcomes.in_time as f64 / outcomes.offered.max(1) as f64
    }

    /// Seconds from arrival to response of all admitted requests of a span, unsorted. A request that is
    /// unfinished at the end of the simulation counts with the client timeout.
    pub fn latencies(&self, span: Range<f64>) -> Vec<f64> {
        let admitted = self.span(&span).iter().filter_map(|it| match it.outcome {
            RequestOutcome::InTime | RequestOutcome::TimedOut => Some(it.latency as f64 / SECOND as f64),
            RequestOutcome::Unfinished => Some(self.timeout),
            RequestOutcome::Refused => None,
        });
        admitted.collect()
    }

    /// Latency percentile of the admitted requests of a span, in seconds; `share` is between 0 and 1.
    pub fn percentile(&self, span: Range<f64>, share: f64) -> f64 {
        percentile(self.latencies(span), share)
    }

    /// Limit over time: `(second, limit)` at every tick. Empty if the policy has no limit.
    pub fn limits(&self) -> &[(f64, f64)] {
        &self.limits
    }

    /// Average limit in a span. `None` if the policy has no limit.
    pub fn limit(&self, span: Range<f64>) -> Option<f64> {
        let limits = || self.limits.iter().filter(|it| span.contains(&it.0));
        let count = limits().count();
        (count > 0).then(|| limits().map(|it| it.1).sum::<f64>() / count as f64)
    }
}

/// Percentile of the values; `share` is between 0 and 1. Returns 0 if there are no values.
pub fn percentile(mut values: Vec<f64>, share: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let rank = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len()) - 1;
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_attributed_to_their_arrival_time() {
        let record = |second: u64, millis: u64, class, outcome| RequestRecord {
            arrived_at: second * SECOND,
            latency: millis * 1_000_000,
            class,
            outcome,
        };
        let records = vec![
            record(0, 10, Class::Normal, RequestOutcome::InTime),
            record(1, 30, Class::Normal, RequestOutcome::InTime),
            record(1, 0, Class::Background, RequestOutcome::Refused),
            record(1, 3_000, Class::Vip, RequestOutcome::TimedOut),
            record(2, 0, Class::Vip, RequestOutcome::Unfinished),
        ];
        let report = SimReport::new(records, vec![(0.0, 10.0), (1.0, 20.0), (1.5, 40.0)], 2.0);
        assert_eq!(report.goodput(0.0..2.0), 1.0);
        assert_eq!(report.offered(1.0..2.0), 3.0);
        assert_eq!(report.refused_share(1.0..2.0), 1.0 / 3.0);
        assert_eq!(report.success_share(Class::Vip, 0.0..3.0), 0.0);
        assert_eq!(report.percentile(0.0..3.0, 0.5), 0.03);
        assert_eq!(report.percentile(2.0..3.0, 0.99), 2.0);
        assert_eq!(report.limit(1.0..2.0), Some(30.0));
        assert_eq!(report.limit(5.0..6.0), None);
    }
}
