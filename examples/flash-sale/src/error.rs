//! Why a buyer gets nothing, this time or for good.

use sluicegate::Limited;
use thiserror::Error;

use crate::cache::CacheError;
use crate::queue::QueueError;

/// Why there is no order.
#[derive(Debug, Error)]
pub enum SaleError {
    /// Every item is sold or reserved.
    #[error("sold out")]
    SoldOut,
    /// Somebody else was faster at the same item.
    #[error("another buyer was faster: try again")]
    LostRace,
    /// One order per buyer.
    #[error("this buyer has the order {order}: one for each")]
    HasOrder {
        /// That order.
        order: String,
    },
    /// Over the limit of a rule.
    #[error(transparent)]
    Limited(#[from] Limited),
    /// The order is not one that can be paid now.
    #[error("the order {order} is {state}: only an unpaid order can be paid, and only in time")]
    NotPayable {
        /// The order.
        order: String,
        /// How it stands.
        state: crate::State,
    },
    /// No such order.
    #[error("there is no order {order}")]
    NoOrder {
        /// What was asked for.
        order: String,
    },
    /// The database has no place for it, or cannot be reached.
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    /// The database says something that it never should.
    #[error("the database holds {0}, which this shop did not write: is it another program's table?")]
    Foreign(String),
    /// The stock cache cannot be reached.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The queue took no order, or did not say so. The reservation is kept a while for another try.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
