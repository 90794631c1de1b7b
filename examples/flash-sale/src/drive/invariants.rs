//! Invariants of a sale at any load.

use super::{SaleReport, Scenario};
use crate::shop::Step;

/// Maximum number of unsuccessful stock updates with a limit.
const MAX_WASTED_UPDATES: u64 = 2;

/// Returns a description of each violated invariant; empty if all hold.
pub fn violated_invariants(report: &SaleReport) -> Vec<String> {
    let SaleReport { scenario, totals, bought, .. } = report;
    let mut violations = Vec::new();
    let mut require = |holds: bool, violation: String| {
        if !holds {
            violations.push(format!("{scenario}: {violation}"));
        }
    };
    require(totals.oversold() == 0, format!("{} items oversold", totals.oversold()));
    require(
        totals.left + totals.sold == totals.items,
        format!("{} left and {} sold of {} items", totals.left, totals.sold, totals.items),
    );
    require(
        i64::from(*bought) == totals.sold,
        format!("{bought} buyers with a confirmed item, but {} orders", totals.sold),
    );
    require(
        report.sold_out == 0 || totals.left == 0,
        format!("{} sold-out responses, but {} items left", report.sold_out, totals.left),
    );
    require(report.other.is_empty(), format!("unexpected responses: {}", report.other.join(", ")));
    let sold = u64::try_from(totals.sold).unwrap_or_default();
    let updates = totals.stock_updates;
    match scenario {
        Scenario::Shop(Step::Limit) | Scenario::Gateway => {
            require(updates <= sold + MAX_WASTED_UPDATES, format!("{updates} stock updates for {sold} items"));
        }
        Scenario::Shop(Step::Plain | Step::Queue) => {
            require(updates == sold, format!("{updates} stock updates for {sold} items"));
        }
        Scenario::Shop(Step::Lock | Step::Cache) => {}
    }
    violations
}
