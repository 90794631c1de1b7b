//! Database with the stock of one item and the orders.
//!
//! The database is the source of truth: regardless of cache and queue, an item is sold by a transaction that takes it
//! from the stock. All write transactions lock the item with their first statement, so they cannot deadlock.
//!
//! A bulkhead protects the connection pool: buyers may use all connections except one, which stays free for payments,
//! order queries and orders from the queue.

mod dialect;
mod open;
mod orders;
mod session;
mod statement_counter;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sluicegate::bulkhead::ClassPool;
use sqlx::any::Any;

pub use crate::stock::Stock;
pub use open::OpenError;

use dialect::Dialect;
use statement_counter::StatementCounter;

use crate::order::Order;

/// Database; clones share the connection pool.
#[derive(Clone, Debug)]
pub struct Database {
    /// Pool class of buyers.
    sale: ClassPool<Any>,
    /// Pool class of all other work.
    other: ClassPool<Any>,
    dialect: Dialect,
    counter: Arc<StatementCounter>,
}

/// Result of a sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaleResult {
    /// Sold; contains the remaining stock.
    Sold(Stock),
    /// The buyer already has this order or another live order.
    Existing(Order),
    /// No item was left.
    SoldOut(Stock),
    /// The version of the item has changed.
    LostRace,
}

/// Totals of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleTotals {
    /// Items at the start of the sale.
    pub items: i64,
    /// Items left.
    pub left: i64,
    /// Orders that hold an item.
    pub sold: i64,
    /// Paid orders.
    pub paid: i64,
    /// Statements sent to the database, without those that read the totals.
    pub statements: u64,
    /// Statements that updated the stock.
    pub stock_updates: u64,
}

impl SaleTotals {
    /// Orders in excess of the items.
    pub const fn oversold(&self) -> i64 {
        if self.sold > self.items { self.sold - self.items } else { 0 }
    }
}
