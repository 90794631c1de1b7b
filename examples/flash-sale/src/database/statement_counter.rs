//! Counter of the statements sent to the database.

use std::sync::atomic::{AtomicU64, Ordering};

/// Prefix of every statement that updates the stock.
const STOCK_UPDATE_PREFIX: &str = "UPDATE flash_sale_item";

/// Counts statements, including those that begin and end transactions.
#[derive(Debug, Default)]
pub(super) struct StatementCounter {
    statements: AtomicU64,
    stock_updates: AtomicU64,
}

impl StatementCounter {
    /// Counts a statement before it is sent.
    pub(super) fn record(&self, statement: &str) {
        self.statements.fetch_add(1, Ordering::Relaxed);
        if statement.starts_with(STOCK_UPDATE_PREFIX) {
            self.stock_updates.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of statements and of stock updates.
    pub(super) fn read(&self) -> (u64, u64) {
        (self.statements.load(Ordering::Relaxed), self.stock_updates.load(Ordering::Relaxed))
    }

    /// Resets the counts.
    pub(super) fn clear(&self) {
        self.statements.store(0, Ordering::Relaxed);
        self.stock_updates.store(0, Ordering::Relaxed);
    }
}
