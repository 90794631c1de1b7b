//! The steps as rows.

use super::super::figures::{latency, latency_or_none, percent, rate};
use super::super::verdict::Judged;
use crate::table::{self, Rows};

pub(super) const COLUMNS: [&str; 7] = ["offered/s", "good/s", "p50", "p99", "failed", "left late", "found"];

/// The cells of a step.
pub(super) fn cells(judged: &Judged) -> [String; 7] {
    let step = &judged.step;
    let failed = step.failures.of_service() + step.failures.limited + step.failures.exhausted;
    [
        rate(step.offered),
        rate(step.goodput),
        latency_or_none(step.p50),
        latency_or_none(step.p99),
        percent(step.share(failed)),
        latency(step.late),
        judged.verdict.to_string(),
    ]
}

/// All of these steps.
pub(in crate::probe) fn table(steps: &[Judged]) -> String {
    table::draw(Rows::Plain, COLUMNS, steps.iter().map(cells).collect())
}

/// A step in one line, for where there is no terminal.
pub(in crate::probe) fn line(judged: &Judged) -> String {
    let [offered, good, p50, p99, failed, late, found] = cells(judged);
    format!("offered {offered}/s, good {good}/s, p50 {p50}, p99 {p99}, failed {failed}, left {late} late: {found}")
}
