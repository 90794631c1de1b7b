//! What it comes to, in a few sentences, and the whole report for people.

use super::super::figures::{latency_or_none, percent, rate};
use super::super::search::End;
use super::super::step::Step;
use super::super::verdict::{Blame, Verdict};
use super::{Findings, chart, rule, table};

/// How wide and high the plot of a report is.
const COLUMNS: usize = 78;
const HEIGHTS: [usize; 2] = [10, 7];

/// The report: steps, plot, sentences, rule.
pub(in crate::probe) fn report(findings: &Findings) -> String {
    let mut text = format!("{} {}\n\n", findings.method, findings.target);
    if !findings.steps.is_empty() {
        text.push_str(&table(&findings.steps));
        text.push('\n');
        text.push_str(&chart(&findings.steps, findings.most_p99, COLUMNS, HEIGHTS));
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

/// The sentences.
pub(super) fn lines(findings: &Findings) -> Vec<String> {
    let mut lines = vec![peak(findings), why(findings)];
    if let Some(limit) = findings.limit_in_force() {
        lines.push(format!(
            "A limit of about {}/s is already in force: it answers 429. What the service itself can do lies behind it.",
            rate(limit)
        ));
    }
    if let Some(status) = findings.odd_status() {
        lines.push(format!("Most answers had status {status}: is this the request that was meant?"));
    }
    if let Some(proposal) = findings.proposal() {
        lines.push(format!(
            "Proposed limit, {} below: {}, which is about {} under way at once.",
            percent(findings.buffer),
            proposal.limit(),
            proposal.at_once
        ));
    }
    if findings.is_here() {
        lines.push("The target is this machine, so it shared the processor with the load generator.".to_owned());
    }
    lines
}

fn peak(findings: &Findings) -> String {
    let Some(peak) = findings.peak() else {
        return "No peak: there is no rate that was borne.".to_owned();
    };
    let Step { offered, p50, p99, .. } = &peak.step;
    let least = if findings.end == End::Found { "" } else { "at least " };
    format!("Peak: {least}{}/s, with p50 {}, p99 {}.", rate(*offered), latency_or_none(*p50), latency_or_none(*p99))
}

fn why(findings: &Findings) -> String {
    let beyond = findings.beyond();
    let at = |told: &str| match beyond {
        Some(beyond) => format!("At {}/s: {}{told}", rate(beyond.step.offered), said(&beyond.verdict, &beyond.step)),
        None => told.trim_start_matches([';', ' ']).to_owned(),
    };
    match findings.end {
        End::Found => at("; not good twice."),
        End::Top => "That is the highest rate that was to be tried (--to); the service may do more.".to_owned(),
        End::Generator => {
            at(". The load generator could not keep up, so this is no peak of the service: load it from elsewhere.")
        }
        End::Distress => at(". More than half of the requests failed, so the service was left alone."),
        End::NoneGood => at("."),
        End::Time => match beyond {
            Some(_) => at("; then the time was up (--max-time)."),
            None => "The time was up (--max-time) before anything gave.".to_owned(),
        },
        End::Interrupted => match beyond {
            Some(_) => at("; then it was interrupted."),
            None => "It was interrupted before anything gave.".to_owned(),
        },
    }
}

/// A verdict with everything that failed.
fn said(verdict: &Verdict, step: &Step) -> String {
    let failed: Vec<String> = step
        .failures
        .named()
        .iter()
        .filter(|(_, many)| *many > 0)
        .map(|(name, many)| format!("{many} {name}"))
        .collect();
    let verdict = match verdict {
        Verdict::Unclear(blame @ Blame::Late(_)) => format!("{blame} (p99)"),
        Verdict::Unclear(blame) => blame.to_string(),
        Verdict::Good | Verdict::Bad(_) => verdict.to_string(),
    };
    if failed.is_empty() { verdict } else { format!("{verdict} ({})", failed.join(", ")) }
}
