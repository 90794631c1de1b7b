//! The shop's books: one item with its stock, and the orders.
//!
//! The database has the last word. Whatever the cache believed and the queue delivered, an item is sold
//! by a transaction that takes it from the stock, and that transaction holds the item from its first
//! statement on. All of them lock the item first, so none waits for another crosswise.
//!
//! A bulkhead stands before the pool: buyers may use all connections but one, which stays free for those
//! who pay, ask for their order, or bring orders from the queue.

mod dialect;
mod ledger;
mod open;
mod sales;
mod session;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sluicegate::pool::LimitedClass;
use sqlx::any::Any;

pub use open::OpenError;

use dialect::Dialect;
use ledger::Ledger;

use crate::order::Order;

/// The database. Clones are of the same one.
#[derive(Clone, Debug)]
pub struct Database {
    /// For buyers.
    sale: LimitedClass<Any>,
    /// For everybody else.
    desk: LimitedClass<Any>,
    dialect: Dialect,
    ledger: Arc<Ledger>,
}

/// What is left of the item, and the how-manieth state of it this is. Every change makes the version one
/// higher, so of two readings the one with the higher version is the newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    /// Items left.
    pub left: i64,
    /// The version.
    pub version: i64,
}

impl Stock {
    /// After one more or less.
    const fn after(self, change: i64) -> Self {
        Self { left: self.left + change, version: self.version + 1 }
    }
}

/// How an attempt to sell ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sale {
    /// Sold; this is left.
    Made(Stock),
    /// The buyer has this order already: the very one, or another that lives.
    Known(Order),
    /// There was nothing left.
    SoldOut(Stock),
    /// The item had another version by then.
    LostRace,
}

/// The books, for whoever checks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Books {
    /// Items that were put on sale.
    pub items: i64,
    /// Items left.
    pub left: i64,
    /// Orders that hold an item.
    pub sold: i64,
    /// Those of them that are paid.
    pub paid: i64,
    /// Statements that reached the database, without those that read these books.
    pub statements: u64,
    /// Those of them that updated the stock.
    pub stock_updates: u64,
}

impl Books {
    /// Orders for items that do not exist.
    pub const fn oversold(&self) -> i64 {
        if self.sold > self.items { self.sold - self.items } else { 0 }
    }
}
