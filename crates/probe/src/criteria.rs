//! Pass criteria of a step, and the bottleneck if they are not met.
//!
//! A step is good if the service handles the offered load (97 %), fast enough (p99), and without failures (0.1
//! %). Otherwise the load generator may be the cause: requests sent late look like a slow service. Then the step
//! is *unclear*, and no peak is derived from it.

use std::fmt;
use std::time::Duration;

use super::format::{latency, percent, rate};
use super::step::StepResult;

/// Minimum goodput of a good step, as a fraction of the offered load.
const MIN_GOODPUT_FRACTION: f64 = 0.97;
/// Requests that may be missing at the edges of the measured window.
const EDGE_TOLERANCE_REQUESTS: f64 = 2.0;
/// Maximum failure fraction of a good step.
const MAX_FAILURE_FRACTION: f64 = 0.001;
/// Failure fraction above which the service is in distress and the test stops.
const DISTRESS_FAILURE_FRACTION: f64 = 0.5;
/// Maximum p99 as a multiple of the unloaded one, ...
const P99_FACTOR: u32 = 3;
/// ... but never below this.
const MIN_P99_LIMIT: Duration = Duration::from_millis(10);
/// Number of lowest-rate steps that define the unloaded latency.
const BASELINE_STEPS: usize = 3;
/// CPU utilization above which the load generator is saturated.
const MAX_GENERATOR_CPU: f64 = 0.9;

/// Pass criteria of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Criteria {
    /// Maximum p99 set by the user; derived from the steps if not set.
    pub(super) p99: Option<Duration>,
    /// Maximum p99 of the send delay before the load generator is the bottleneck.
    pub(super) max_lateness: Duration,
}

/// Verdict on a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum StepVerdict {
    Good,
    Bad(FailedCriterion),
    /// Not good, but the load generator may be the cause.
    Unclear(Bottleneck),
}

/// The criterion that was not met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FailedCriterion {
    /// This fraction of the due requests was refused with status 429.
    Limited { share: f64 },
    /// This fraction of the due requests failed.
    Failures { share: f64 },
    /// Too few good responses per second.
    Goodput { goodput: f64, offered: f64 },
    /// The p99 exceeds its maximum.
    Latency { p99: Duration, max: Duration },
}

/// Bottleneck of the load generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bottleneck {
    /// Requests were sent late: the p99 of the delay.
    SentLate(Duration),
    /// CPU utilization.
    Cpu(f64),
    /// This machine had no free file descriptors or ports.
    Exhausted,
}

/// A step with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JudgedStep {
    pub(super) step: StepResult,
    pub(super) verdict: StepVerdict,
}

/// Judges all steps by the unloaded latency of all of them.
pub(super) fn judge(steps: &[StepResult], criteria: Criteria) -> Vec<JudgedStep> {
    let max = max_p99(steps, criteria);
    steps
        .iter()
        .map(|step| JudgedStep { step: step.clone(), verdict: judge_step(step, max, criteria.max_lateness) })
        .collect()
}

/// Maximum p99 of a good step: the user's, or three times the median of the three lowest-rate steps, at least 10
/// ms.
pub(super) fn max_p99(steps: &[StepResult], criteria: Criteria) -> Duration {
    if let Some(max) = criteria.p99 {
        return max;
    }
    // The latency of a step that was sent late measures the load generator.
    let timely = steps.iter().filter(|step| step.lateness_p99 <= criteria.max_lateness);
    let mut latencies: Vec<(f64, Duration)> = timely.filter_map(|step| Some((step.offered, step.p99?))).collect();
    latencies.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let mut unloaded: Vec<Duration> = latencies.into_iter().take(BASELINE_STEPS).map(|(_, p99)| p99).collect();
    unloaded.sort_unstable();
    let median = unloaded.get(unloaded.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    (median * P99_FACTOR).max(MIN_P99_LIMIT)
}

fn judge_step(step: &StepResult, max_p99: Duration, max_lateness: Duration) -> StepVerdict {
    let failures = &step.failures;
    let (limited, failed) = (step.fraction_of_due(failures.limited), step.fraction_of_due(failures.service_failures()));
    // Refusals can be caused by bursts of a late load generator. Server errors are caused by the service only.
    if step.fraction_of_due(failures.server_errors) >= MAX_FAILURE_FRACTION {
        return StepVerdict::Bad(FailedCriterion::Failures { share: failed });
    }
    let missing = step.due as f64 * MIN_GOODPUT_FRACTION - EDGE_TOLERANCE_REQUESTS - step.good as f64;
    let cause = if limited >= MAX_FAILURE_FRACTION && limited >= failed {
        FailedCriterion::Limited { share: limited }
    } else if failed >= MAX_FAILURE_FRACTION {
        FailedCriterion::Failures { share: failed }
    } else if missing > 0.0 {
        FailedCriterion::Goodput { goodput: step.goodput, offered: step.offered }
    } else {
        match step.p99 {
            Some(p99) if p99 > max_p99 => FailedCriterion::Latency { p99, max: max_p99 },
            _ if failures.exhausted > 0 => return StepVerdict::Unclear(Bottleneck::Exhausted),
            _ => return StepVerdict::Good,
        }
    };
    match step.cpu_utilization {
        _ if failures.exhausted > 0 => StepVerdict::Unclear(Bottleneck::Exhausted),
        _ if step.lateness_p99 > max_lateness => StepVerdict::Unclear(Bottleneck::SentLate(step.lateness_p99)),
        Some(share) if share >= MAX_GENERATOR_CPU => StepVerdict::Unclear(Bottleneck::Cpu(share)),
        _ => StepVerdict::Bad(cause),
    }
}

/// True if so many requests fail that the test must stop. Refusals by a limit do not count, nor do timeouts
/// caused by a stalled load generator.
pub(super) fn is_distress(JudgedStep { step, verdict }: &JudgedStep) -> bool {
    matches!(verdict, StepVerdict::Bad(_))
        && step.fraction_of_due(step.failures.service_failures()) > DISTRESS_FAILURE_FRACTION
}

impl fmt::Display for StepVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => f.write_str("good"),
            Self::Bad(cause) => write!(f, "{cause}"),
            Self::Unclear(bottleneck) => write!(f, "unclear: {bottleneck}"),
        }
    }
}

impl fmt::Display for FailedCriterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Limited { share } => write!(f, "{} refused with 429", percent(share)),
            Self::Failures { share } => write!(f, "{} failed", percent(share)),
            Self::Goodput { goodput, offered } => {
                write!(f, "{} good responses/s of {}/s", rate(goodput), rate(offered))
            }
            Self::Latency { p99, max } => write!(f, "p99 {} exceeds {}", latency(p99), latency(max)),
        }
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SentLate(late) => write!(f, "requests sent {} late", latency(late)),
            Self::Cpu(share) => write!(f, "the load generator used {} of the CPU", percent(share)),
            Self::Exhausted => f.write_str("no free file descriptors or ports"),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::step::FailureCounts;
    use super::*;

    pub(crate) const CRITERIA: Criteria = Criteria { p99: None, max_lateness: Duration::from_millis(10) };

    /// A good step of 4 seconds.
    pub(crate) fn good_step(offered: f64, p99_ms: u64) -> StepResult {
        let due = (offered * 4.0) as u64;
        StepResult {
            offered,
            goodput: offered,
            due,
            good: due,
            p50: Some(Duration::from_millis(p99_ms / 2)),
            p99: Some(Duration::from_millis(p99_ms)),
            lateness_p99: Duration::from_millis(1),
            cpu_utilization: Some(0.2),
            statuses: [(200, due)].into(),
            failures: FailureCounts::default(),
        }
    }

    /// A step of 4 seconds above the capacity.
    pub(crate) fn overloaded_step(offered: f64, goodput: f64) -> StepResult {
        StepResult { goodput, good: (goodput * 4.0) as u64, ..good_step(offered, 8) }
    }

    fn judged(step: StepResult) -> JudgedStep {
        judge(&[good_step(10.0, 4), good_step(15.0, 4), good_step(22.0, 5), step], CRITERIA).pop().unwrap()
    }

    fn verdict_of(step: StepResult) -> StepVerdict {
        judged(step).verdict
    }

    #[test]
    fn each_criterion_is_checked() {
        assert_eq!(verdict_of(good_step(100.0, 12)), StepVerdict::Good);
        let max = Duration::from_millis(12);
        let p99 = Duration::from_millis(13);
        assert_eq!(verdict_of(good_step(100.0, 13)), StepVerdict::Bad(FailedCriterion::Latency { p99, max }));
        assert_eq!(
            verdict_of(overloaded_step(100.0, 96.75)),
            StepVerdict::Good,
            "requests at the edges of the window are tolerated"
        );
        assert_eq!(
            verdict_of(overloaded_step(100.0, 96.0)),
            StepVerdict::Bad(FailedCriterion::Goodput { goodput: 96.0, offered: 100.0 })
        );
        let failures = FailureCounts { timed_out: 4, ..FailureCounts::default() };
        assert_eq!(
            verdict_of(StepResult { failures, ..good_step(1_000.0, 5) }),
            StepVerdict::Bad(FailedCriterion::Failures { share: 0.001 })
        );
        let failures = FailureCounts { timed_out: 3, ..FailureCounts::default() };
        assert_eq!(verdict_of(StepResult { failures, ..good_step(1_000.0, 5) }), StepVerdict::Good);
    }

    #[test]
    fn baseline_latency_sets_the_p99_limit() {
        let ms = Duration::from_millis;
        assert_eq!(max_p99(&[good_step(10.0, 1)], CRITERIA), ms(10), "the minimum");
        let steps = [good_step(10.0, 300), good_step(15.0, 40), good_step(22.0, 50), good_step(33.0, 9_000)];
        assert_eq!(max_p99(&steps, CRITERIA), ms(150), "a cold start is ignored");
        assert_eq!(max_p99(&steps, Criteria { p99: Some(ms(7)), ..CRITERIA }), ms(7));
        assert_eq!(max_p99(&[], CRITERIA), ms(10));
        let late = StepResult { lateness_p99: ms(2_000), ..good_step(5.0, 2_100) };
        assert_eq!(
            max_p99(&[late, good_step(10.0, 20)], CRITERIA),
            ms(60),
            "a slow load generator is not a slow service"
        );
    }

    #[test]
    fn a_late_generator_is_not_blamed_on_the_service() {
        let late = Duration::from_millis(30);
        assert_eq!(
            verdict_of(StepResult { lateness_p99: late, ..good_step(100.0, 5) }),
            StepVerdict::Good,
            "the load was handled anyway"
        );
        assert_eq!(
            verdict_of(StepResult { lateness_p99: late, ..overloaded_step(100.0, 80.0) }),
            StepVerdict::Unclear(Bottleneck::SentLate(late))
        );
        assert_eq!(
            verdict_of(StepResult { lateness_p99: late, ..good_step(100.0, 50) }),
            StepVerdict::Unclear(Bottleneck::SentLate(late))
        );
        let busy = StepResult { cpu_utilization: Some(0.97), ..overloaded_step(100.0, 80.0) };
        assert_eq!(verdict_of(busy), StepVerdict::Unclear(Bottleneck::Cpu(0.97)));
        let failures = FailureCounts { exhausted: 1, ..FailureCounts::default() };
        assert_eq!(
            verdict_of(StepResult { failures, ..good_step(100.0, 5) }),
            StepVerdict::Unclear(Bottleneck::Exhausted)
        );
        let failures = FailureCounts { limited: 40, ..FailureCounts::default() };
        let verdict = verdict_of(StepResult { lateness_p99: late, failures, ..good_step(100.0, 5) });
        assert_eq!(
            verdict,
            StepVerdict::Unclear(Bottleneck::SentLate(late)),
            "late requests are sent in bursts, which a limit refuses"
        );
        let failures = FailureCounts { server_errors: 40, ..FailureCounts::default() };
        let verdict = verdict_of(StepResult { lateness_p99: late, failures, ..good_step(100.0, 5) });
        assert_eq!(
            verdict,
            StepVerdict::Bad(FailedCriterion::Failures { share: 0.1 }),
            "server errors are caused by the service"
        );
    }

    #[test]
    fn an_existing_limit_is_distinguished_from_failures() {
        let failures = FailureCounts { limited: 300, unavailable: 4, ..FailureCounts::default() };
        let limited = judged(StepResult { failures, ..overloaded_step(100.0, 24.0) });
        assert_eq!(limited.verdict, StepVerdict::Bad(FailedCriterion::Limited { share: 0.75 }));
        assert!(!is_distress(&limited), "refusals by a limit are not distress");
        let failures = FailureCounts { unavailable: 300, ..FailureCounts::default() };
        assert!(is_distress(&judged(StepResult { failures, ..overloaded_step(100.0, 24.0) })));
    }

    /// Regression: a machine that stalled the program for seconds made a healthy service look distressed, since every
    /// request had timed out before it was sent.
    #[test]
    fn a_stalled_generator_is_not_distress() {
        let failures = FailureCounts { timed_out: 390, ..FailureCounts::default() };
        let stalled = StepResult { lateness_p99: Duration::from_secs(4), failures, ..overloaded_step(100.0, 0.0) };
        assert!(!is_distress(&judged(stalled.clone())));
        assert!(is_distress(&judged(StepResult { lateness_p99: Duration::ZERO, ..stalled })));
    }
}
