//! The sales side by side, in letters.

use std::time::Duration;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use super::Tally;

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

/// One table of all sales.
pub fn table(tallies: &[Tally]) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(HEAD);
    for tally in tallies {
        table.add_row([
            tally.scene.to_string(),
            tally.bought.to_string(),
            tally.books.oversold().to_string(),
            tally.books.statements.to_string(),
            tally.books.stock_updates.to_string(),
            tally.original().map_or_else(String::new, |updates| updates.to_string()),
            milliseconds(tally.p50),
            milliseconds(tally.p99),
            tally.limited.to_string(),
            tally.sold_out.to_string(),
            tally.lost_race.to_string(),
            tally.other.len().to_string(),
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
