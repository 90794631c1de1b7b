//! Everything that was measured, for programs. Rates are per second, times in milliseconds, shares of one.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::super::search::End;
use super::super::verdict::{Blame, Cause, Judged, Verdict};
use super::{Findings, rule};

/// The whole document.
pub(in crate::probe) fn everything(findings: &Findings) -> Value {
    let proposal = findings.proposal();
    json!({
        "target": findings.target,
        "method": findings.method,
        "ended": ended(findings.end),
        "took_ms": ms(findings.took),
        "most_p99_ms": ms(findings.most_p99),
        "peak": findings.peak().map(|peak| json!({
            "rate": peak.step.offered,
            "is_lower_bound": findings.end != End::Found,
            "p50_ms": peak.step.p50.map(ms),
            "p99_ms": peak.step.p99.map(ms),
        })),
        "beyond": findings.beyond().map(|beyond| json!({
            "rate": beyond.step.offered,
            "found": found(&beyond.verdict),
        })),
        "limit_in_force": findings.limit_in_force(),
        "proposal": proposal.map(|proposal| json!({
            "limit": proposal.limit(),
            "concurrency": proposal.at_once,
            "buffer": findings.buffer,
            "rule": rule(findings),
        })),
        "steps": findings.steps.iter().map(step).collect::<Vec<_>>(),
    })
}

fn step(judged: &Judged) -> Value {
    let (step, failures) = (&judged.step, &judged.step.failures);
    let statuses: Map<String, Value> =
        step.statuses.iter().map(|(status, many)| (status.to_string(), json!(many))).collect();
    json!({
        "offered": step.offered,
        "goodput": step.goodput,
        "due": step.due,
        "good": step.good,
        "p50_ms": step.p50.map(ms),
        "p99_ms": step.p99.map(ms),
        "late_p99_ms": ms(step.late),
        "processor": step.processor,
        "statuses": statuses,
        "failures": {
            "limited": failures.limited,
            "unavailable": failures.unavailable,
            "server_errors": failures.server_errors,
            "timed_out": failures.timed_out,
            "unconnected": failures.unconnected,
            "broken": failures.broken,
            "held_back": failures.held_back,
            "exhausted": failures.exhausted,
        },
        "found": found(&judged.verdict),
        "said": judged.verdict.to_string(),
    })
}

fn found(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "good",
        Verdict::Bad(Cause::Limited { .. }) => "limited",
        Verdict::Bad(Cause::Failures { .. }) => "failures",
        Verdict::Bad(Cause::Goodput { .. }) => "goodput",
        Verdict::Bad(Cause::Latency { .. }) => "latency",
        Verdict::Unclear(Blame::Late(_)) => "generator_late",
        Verdict::Unclear(Blame::Processor(_)) => "generator_busy",
        Verdict::Unclear(Blame::Exhausted) => "generator_exhausted",
    }
}

fn ended(end: End) -> &'static str {
    match end {
        End::Found => "found",
        End::Top => "top",
        End::Generator => "generator",
        End::Distress => "distress",
        End::NoneGood => "none_good",
        End::Time => "time",
        End::Interrupted => "interrupted",
    }
}

/// To the microsecond.
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
