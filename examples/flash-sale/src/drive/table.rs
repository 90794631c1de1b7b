//! Text table of the reports.

use std::time::Duration;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use super::SaleReport;

const HEAD: [&str; 12] = [
    "step",
    "bought",
    "oversold",
    "SQL statements",
    "stock updates",
    "original",
    "p50",
    "p99",
    "limited (429)",
    "sold out",
    "lost race",
    "other",
];

/// Formats the reports as a table.
pub fn table(reports: &[SaleReport]) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(HEAD);
    for report in reports {
        table.add_row([
            report.scenario.to_string(),
            report.bought.to_string(),
            report.totals.oversold().to_string(),
            report.totals.statements.to_string(),
            report.totals.stock_updates.to_string(),
            report.reference_updates().map_or_else(String::new, |updates| updates.to_string()),
            milliseconds(report.p50),
            milliseconds(report.p99),
            report.limited.to_string(),
            report.sold_out.to_string(),
            report.lost_race.to_string(),
            report.other.len().to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn milliseconds(wait: Duration) -> String {
    format!("{:.1} ms", wait.as_secs_f64() * 1e3)
}
