//! Table of the steps.

use sluicegate_terminal::table::{self, RowStyle};

use super::super::criteria::JudgedStep;
use super::super::format::{latency, latency_or_none, percent, rate};

pub(super) const COLUMNS: [&str; 7] = ["offered/s", "good/s", "p50", "p99", "failed", "send delay", "verdict"];

/// Cells of a step.
pub(super) fn cells(judged: &JudgedStep) -> [String; 7] {
    let step = &judged.step;
    let failed = step.failures.service_failures() + step.failures.limited + step.failures.exhausted;
    [
        rate(step.offered),
        rate(step.goodput),
        latency_or_none(step.p50),
        latency_or_none(step.p99),
        percent(step.fraction_of_due(failed)),
        latency(step.lateness_p99),
        judged.verdict.to_string(),
    ]
}

/// Table of these steps.
pub(crate) fn table(steps: &[JudgedStep]) -> String {
    table::draw(RowStyle::Plain, COLUMNS, steps.iter().map(cells).collect())
}

/// A step as one line, for output without a terminal.
pub(crate) fn line(judged: &JudgedStep) -> String {
    let [offered, good, p50, p99, failed, delay, verdict] = cells(judged);
    format!("offered {offered}/s, good {good}/s, p50 {p50}, p99 {p99}, failed {failed}, send delay {delay}: {verdict}")
}
