//! Measurements of a step: request counts by result, and the rates and latencies derived from them.
//!
//! Two times are used. Result and latency of a request belong to its scheduled send time, so that a request that
//! was sent late or got no response counts like any other. Goodput counts the good responses that arrived in the
//! measured window, whenever they were requested: an overloaded service eventually completes every request, but
//! too late.

use std::collections::BTreeMap;
use std::time::Duration;

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestResult {
    /// A response with this status, in time.
    Responded(u16),
    TimedOut,
    /// No connection could be made.
    ConnectFailed,
    /// The connection broke before the response was complete.
    Aborted,
    /// Not sent, as this machine has no free file descriptors or ports.
    Exhausted,
}

impl RequestResult {
    /// True if the service did its work. Client errors count as good.
    pub(super) fn is_good(self) -> bool {
        matches!(self, Self::Responded(status) if status < 500 && status != 429)
    }
}

/// Counts of a running step. Each worker has its own; they are added up.
#[derive(Clone, Debug, Default)]
pub(super) struct StepCounts {
    /// Requests due in the measured window.
    pub(super) due: u64,
    /// Good responses in the measured window.
    pub(super) good: u64,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) timed_out: u64,
    pub(super) connect_failed: u64,
    pub(super) aborted: u64,
    pub(super) exhausted: u64,
    /// Not sent, as too many were in flight.
    pub(super) not_sent: u64,
    /// Latencies from the scheduled send time to the end of the response: of good responses, and of requests that
    /// timed out.
    pub(super) latencies: Vec<Duration>,
    /// Send delay of each request.
    pub(super) lateness: Vec<Duration>,
}

impl StepCounts {
    /// Records the result and duration of a request that was due in the measured window.
    pub(super) fn record(&mut self, result: RequestResult, took: Duration) {
        match result {
            RequestResult::Responded(status) => *self.statuses.entry(status).or_default() += 1,
            RequestResult::TimedOut => self.timed_out += 1,
            RequestResult::ConnectFailed => self.connect_failed += 1,
            RequestResult::Aborted => self.aborted += 1,
            RequestResult::Exhausted => self.exhausted += 1,
        }
        if result.is_good() || result == RequestResult::TimedOut {
            self.latencies.push(took);
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.due += other.due;
        self.good += other.good;
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.timed_out += other.timed_out;
        self.connect_failed += other.connect_failed;
        self.aborted += other.aborted;
        self.exhausted += other.exhausted;
        self.not_sent += other.not_sent;
        self.latencies.extend(other.latencies);
        self.lateness.extend(other.lateness);
    }
}

/// A finished step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StepResult {
    /// Offered rate: requests due per second.
    pub(super) offered: f64,
    /// Good responses per second.
    pub(super) goodput: f64,
    /// Requests due in the measured window.
    pub(super) due: u64,
    /// Good responses in the measured window.
    pub(super) good: u64,
    /// Median latency; `None` without a good response.
    pub(super) p50: Option<Duration>,
    /// 99th percentile of the latency.
    pub(super) p99: Option<Duration>,
    /// 99th percentile of the send delay.
    pub(super) lateness_p99: Duration,
    /// CPU utilization of this program; 1 is the maximum.
    pub(super) cpu_utilization: Option<f64>,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) failures: FailureCounts,
}

/// Failed requests of a step by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FailureCounts {
    /// Status 429: the service has a rate limit.
    pub(super) limited: u64,
    /// Status 503.
    pub(super) unavailable: u64,
    /// Any other status of 500 or higher.
    pub(super) server_errors: u64,
    pub(super) timed_out: u64,
    pub(super) connect_failed: u64,
    pub(super) aborted: u64,
    /// Not sent, as too many were in flight.
    pub(super) not_sent: u64,
    /// Not sent, as this machine had no free file descriptors or ports.
    pub(super) exhausted: u64,
}

impl FailureCounts {
    /// Failures of the service; refusals by a limit are not included.
    pub(super) fn service_failures(&self) -> u64 {
        let status_failures = self.unavailable + self.server_errors;
        status_failures + self.timed_out + self.connect_failed + self.aborted + self.not_sent
    }

    /// All counts with their names.
    pub(super) fn by_name(&self) -> [(&'static str, u64); 8] {
        [
            ("limited", self.limited),
            ("unavailable", self.unavailable),
            ("server errors", self.server_errors),
            ("timeouts", self.timed_out),
            ("connect errors", self.connect_failed),
            ("aborted", self.aborted),
            ("not sent", self.not_sent),
            ("no file descriptors or ports", self.exhausted),
        ]
    }
}

impl StepResult {
    /// Computes the result of a step from its counts and the length of its measured window.
    pub(super) fn new(offered: f64, measured: Duration, cpu_utilization: Option<f64>, mut counts: StepCounts) -> Self {
        let count = |matches: &dyn Fn(u16) -> bool| -> u64 {
            counts.statuses.iter().filter(|(status, _)| matches(**status)).map(|(_, count)| count).sum()
        };
        let failures = FailureCounts {
            limited: count(&|status| status == 429),
            unavailable: count(&|status| status == 503),
            server_errors: count(&|status| status >= 500 && status != 503),
            timed_out: counts.timed_out,
            connect_failed: counts.connect_failed,
            aborted: counts.aborted,
            not_sent: counts.not_sent,
            exhausted: counts.exhausted,
        };
        counts.latencies.sort_unstable();
        counts.lateness.sort_unstable();
        Self {
            offered,
            goodput: counts.good as f64 / measured.as_secs_f64(),
            due: counts.due,
            good: counts.good,
            p50: quantile(&counts.latencies, 0.5),
            p99: quantile(&counts.latencies, 0.99),
            lateness_p99: quantile(&counts.lateness, 0.99).unwrap_or_default(),
            cpu_utilization,
            statuses: counts.statuses,
            failures,
        }
    }

    /// The count as a fraction of the due requests.
    pub(super) fn fraction_of_due(&self, count: u64) -> f64 {
        if self.due == 0 { 0.0 } else { count as f64 / self.due as f64 }
    }
}

/// The smallest value that this fraction of the sorted values does not exceed.
fn quantile(sorted: &[Duration], share: f64) -> Option<Duration> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measured_values() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(quantile(&times, 0.5), Some(Duration::from_millis(100)));
        assert_eq!(quantile(&times, 0.99), Some(Duration::from_millis(198)));
        assert_eq!(quantile(&times[..1], 0.99), Some(Duration::from_millis(1)));
        assert_eq!(quantile(&[], 0.99), None);
    }

    #[test]
    fn requests_are_counted_by_result() {
        let mut counts = StepCounts { due: 10, good: 4, not_sent: 1, ..StepCounts::default() };
        let ms = Duration::from_millis;
        for (result, took) in [
            (RequestResult::Responded(200), 5),
            (RequestResult::Responded(404), 6),
            (RequestResult::Responded(302), 7),
            (RequestResult::Responded(429), 1),
            (RequestResult::Responded(503), 1),
            (RequestResult::Responded(500), 1),
            (RequestResult::TimedOut, 2_000),
            (RequestResult::ConnectFailed, 1),
            (RequestResult::Aborted, 1),
        ] {
            counts.record(result, ms(took));
        }
        let mut total = StepCounts::default();
        total.add(counts);
        let step = StepResult::new(20.0, ms(500), None, total);
        assert_eq!((step.goodput, step.due), (8.0, 10));
        assert_eq!((step.p50, step.p99), (Some(ms(6)), Some(ms(2_000))), "fast failures do not lower the latency");
        let one_each = step.failures.by_name().iter().filter(|(_, count)| *count == 1).count();
        assert_eq!(one_each, 7);
        assert_eq!(step.failures.service_failures(), 6);
    }

    #[test]
    fn a_step_without_requests_is_valid() {
        let step = StepResult::new(1.0, Duration::from_secs(1), None, StepCounts::default());
        assert_eq!((step.p99, step.goodput, step.fraction_of_due(0)), (None, 0.0, 0.0));
    }
}
