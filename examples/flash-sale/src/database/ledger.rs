//! How many statements reach the database: what the whole example is about.

use std::sync::atomic::{AtomicU64, Ordering};

/// What every statement on the stock begins with.
const OF_THE_STOCK: &str = "UPDATE flash_sale_item";

/// Counts statements as they are sent, those that begin and end transactions too.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    statements: AtomicU64,
    stock_updates: AtomicU64,
}

impl Ledger {
    /// This statement is about to be sent.
    pub(super) fn note(&self, statement: &str) {
        self.statements.fetch_add(1, Ordering::Relaxed);
        if statement.starts_with(OF_THE_STOCK) {
            self.stock_updates.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All statements so far, and how many of them were updates of the stock.
    pub(super) fn read(&self) -> (u64, u64) {
        (self.statements.load(Ordering::Relaxed), self.stock_updates.load(Ordering::Relaxed))
    }

    /// Counts from zero again.
    pub(super) fn clear(&self) {
        self.statements.store(0, Ordering::Relaxed);
        self.stock_updates.store(0, Ordering::Relaxed);
    }
}
