//! JSON report with all measurements. Rates are per second, times in milliseconds, shares between 0 and 1.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::super::criteria::{Bottleneck, FailedCriterion, JudgedStep, StepVerdict};
use super::super::search::SearchEnd;
use super::{Findings, rule};

/// Builds the document.
pub(crate) fn document(findings: &Findings) -> Value {
    let proposal = findings.proposal();
    json!({
        "target": findings.target,
        "method": findings.method,
        "ended": end_name(findings.end),
        "took_ms": ms(findings.took),
        "max_p99_ms": ms(findings.max_p99),
        "peak": findings.peak().map(|peak| json!({
            "rate": peak.step.offered,
            "is_lower_bound": findings.end != SearchEnd::Found,
            "p50_ms": peak.step.p50.map(ms),
            "p99_ms": peak.step.p99.map(ms),
        })),
        "above_peak": findings.above_peak().map(|judged| json!({
            "rate": judged.step.offered,
            "verdict": verdict_name(&judged.verdict),
        })),
        "existing_limit": findings.existing_limit(),
        "proposal": proposal.map(|proposal| json!({
            "limit": proposal.limit(),
            "concurrency": proposal.concurrency,
            "buffer": findings.buffer,
            "rule": rule(findings),
        })),
        "steps": findings.steps.iter().map(step).collect::<Vec<_>>(),
    })
}

fn step(judged: &JudgedStep) -> Value {
    let (step, failures) = (&judged.step, &judged.step.failures);
    let statuses: Map<String, Value> =
        step.statuses.iter().map(|(status, count)| (status.to_string(), json!(count))).collect();
    json!({
        "offered": step.offered,
        "goodput": step.goodput,
        "due": step.due,
        "good": step.good,
        "p50_ms": step.p50.map(ms),
        "p99_ms": step.p99.map(ms),
        "send_delay_p99_ms": ms(step.lateness_p99),
        "cpu": step.cpu_utilization,
        "statuses": statuses,
        "failures": {
            "limited": failures.limited,
            "unavailable": failures.unavailable,
            "server_errors": failures.server_errors,
            "timed_out": failures.timed_out,
            "connect_failed": failures.connect_failed,
            "aborted": failures.aborted,
            "not_sent": failures.not_sent,
            "exhausted": failures.exhausted,
        },
        "verdict": verdict_name(&judged.verdict),
        "verdict_text": judged.verdict.to_string(),
    })
}

fn verdict_name(verdict: &StepVerdict) -> &'static str {
    match verdict {
        StepVerdict::Good => "good",
        StepVerdict::Bad(FailedCriterion::Limited { .. }) => "limited",
        StepVerdict::Bad(FailedCriterion::Failures { .. }) => "failures",
        StepVerdict::Bad(FailedCriterion::Goodput { .. }) => "goodput",
        StepVerdict::Bad(FailedCriterion::Latency { .. }) => "latency",
        StepVerdict::Unclear(Bottleneck::SentLate(_)) => "generator_late",
        StepVerdict::Unclear(Bottleneck::Cpu(_)) => "generator_busy",
        StepVerdict::Unclear(Bottleneck::Exhausted) => "generator_exhausted",
    }
}

fn end_name(end: SearchEnd) -> &'static str {
    match end {
        SearchEnd::Found => "found",
        SearchEnd::Top => "max_rate",
        SearchEnd::Generator => "generator",
        SearchEnd::Distress => "distress",
        SearchEnd::NoneGood => "none_good",
        SearchEnd::Time => "max_time",
        SearchEnd::Interrupted => "interrupted",
    }
}

/// Milliseconds, exact to the microsecond.
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
