//! Text report with its summary.

use super::super::criteria::{Bottleneck, StepVerdict};
use super::super::format::{latency_or_none, percent, rate};
use super::super::search::SearchEnd;
use super::super::step::StepResult;
use super::{Findings, chart, rule, table};

/// Width and heights of the plot.
const PLOT_COLUMNS: usize = 78;
const PLOT_LINES: [usize; 2] = [10, 7];

/// Renders the report: steps, plot, summary, rule.
pub(crate) fn report(findings: &Findings) -> String {
    let mut text = format!("{} {}\n\n", findings.method, findings.target);
    if !findings.steps.is_empty() {
        text.push_str(&table(&findings.steps));
        text.push('\n');
        text.push_str(&chart(&findings.steps, findings.max_p99, PLOT_COLUMNS, PLOT_LINES));
        text.push('\n');
    }
    for line in lines(findings) {
        text.push_str(&line);
        text.push('\n');
    }
    if let Some(rule) = rule(findings) {
        text.push('\n');
        text.push_str(&rule);
    }
    text
}

/// Sentences of the summary.
pub(super) fn lines(findings: &Findings) -> Vec<String> {
    let mut lines = vec![peak(findings), end_reason(findings)];
    if let Some(limit) = findings.existing_limit() {
        lines.push(format!(
            "A limit of about {}/s is already in force (status 429): the capacity of the service itself was not measured.",
            rate(limit)
        ));
    }
    if let Some(status) = findings.unexpected_status() {
        lines.push(format!("Most responses had status {status}: check the request."));
    }
    if let Some(proposal) = findings.proposal() {
        lines.push(format!(
            "Proposed limit, {} below: {}, with a concurrency of about {}.",
            percent(findings.buffer),
            proposal.limit(),
            proposal.concurrency
        ));
    }
    if findings.is_local() {
        lines.push("The target is on this machine and shared the CPU with the load generator.".to_owned());
    }
    lines
}

fn peak(findings: &Findings) -> String {
    let Some(peak) = findings.peak() else {
        return "No peak: no rate was sustained.".to_owned();
    };
    let StepResult { offered, p50, p99, .. } = &peak.step;
    let prefix = if findings.end == SearchEnd::Found { "" } else { "at least " };
    format!("Peak: {prefix}{}/s, with p50 {}, p99 {}.", rate(*offered), latency_or_none(*p50), latency_or_none(*p99))
}

fn end_reason(findings: &Findings) -> String {
    let above_peak = findings.above_peak();
    let at = |suffix: &str| match above_peak {
        Some(judged) => {
            format!("At {}/s: {}{suffix}", rate(judged.step.offered), verdict_text(&judged.verdict, &judged.step))
        }
        None => suffix.trim_start_matches([';', ' ']).to_owned(),
    };
    match findings.end {
        SearchEnd::Found => at("; not good twice."),
        SearchEnd::Top => {
            "This is the maximum rate of the test (--to); the capacity of the service may be higher.".to_owned()
        }
        SearchEnd::Generator => {
            at(". The load generator could not keep up, so this is not the peak of the service: use another machine.")
        }
        SearchEnd::Distress => at(". More than half of the requests failed, so the test was stopped."),
        SearchEnd::NoneGood => at("."),
        SearchEnd::Time => match above_peak {
            Some(_) => at("; the test then reached --max-time."),
            None => "The test reached --max-time before a rate failed.".to_owned(),
        },
        SearchEnd::Interrupted => match above_peak {
            Some(_) => at("; the test was then interrupted."),
            None => "The test was interrupted before a rate failed.".to_owned(),
        },
    }
}

/// A verdict with all failure counts.
fn verdict_text(verdict: &StepVerdict, step: &StepResult) -> String {
    let failed: Vec<String> = step
        .failures
        .by_name()
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    let verdict = match verdict {
        StepVerdict::Unclear(bottleneck @ Bottleneck::SentLate(_)) => format!("{bottleneck} (p99)"),
        StepVerdict::Unclear(bottleneck) => bottleneck.to_string(),
        StepVerdict::Good | StepVerdict::Bad(_) => verdict.to_string(),
    };
    if failed.is_empty() { verdict } else { format!("{verdict} ({})", failed.join(", ")) }
}
