//! Errors of a purchase.

use sluicegate::Limited;
use thiserror::Error;

use crate::cache::CacheError;
use crate::queue::QueueError;

/// Error of a purchase, a payment or an order query.
#[derive(Debug, Error)]
pub enum SaleError {
    /// Every item is sold or reserved.
    #[error("sold out")]
    SoldOut,
    /// Another buyer has updated the item at the same time.
    #[error("another buyer was faster: try again")]
    LostRace,
    /// The buyer has another order; the maximum is one.
    #[error("this buyer has order {order}: the maximum is one order per buyer")]
    HasOrder {
        /// The existing order.
        order: String,
    },
    /// A rule refused the request.
    #[error(transparent)]
    Limited(#[from] Limited),
    /// The order cannot be paid.
    #[error("order {order} is {state}: only an unpaid order can be paid, and only within the payment window")]
    NotPayable {
        /// The order.
        order: String,
        /// State of the order.
        state: crate::OrderState,
    },
    /// Unknown order.
    #[error("unknown order {order}")]
    NoOrder {
        /// The requested order.
        order: String,
    },
    /// The database is busy or unreachable.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// A row of the database is invalid.
    #[error("database: unexpected {0}: do the tables belong to another program?")]
    InvalidRow(String),
    /// The stock cache is unreachable.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The queue did not confirm the order. The reservation is kept for a while, so that the buyer can try again.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
