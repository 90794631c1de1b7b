//! Settings of a shop: backends and time windows.

use std::time::Duration;

use sluicegate::LimitError;
use thiserror::Error;

use crate::cache::CacheError;
use crate::database::OpenError;
use crate::error::SaleError;
use crate::queue::QueueError;

/// Settings of a shop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShopSettings {
    /// Database: `sqlite:FILE`, or `mysql://...` for MariaDB and MySQL.
    pub database: String,
    /// Stock cache: `memory`, or `redis://...`.
    pub cache: String,
    /// Order queue: `journal:FILE`, `amqp://...` or `redis://...`.
    pub queue: String,
    /// Rate limit of the consumer, in the syntax of a rule: `20/s`.
    pub consumer_rate: String,
    /// Time a buyer has to pay.
    pub payment_window: Duration,
    /// Time a reservation is kept while its order is not known to be in the queue.
    pub reservation_window: Duration,
    /// Idle time after which the orders of a consumer of the Redis stream are claimed by another one.
    pub claim_after: Duration,
}

/// Startup error of a shop.
#[derive(Debug, Error)]
pub enum ShopError {
    /// Database error.
    #[error(transparent)]
    Database(#[from] OpenError),
    /// Cache error.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Queue error.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Invalid rate of the consumer.
    #[error("consumer rate: {0}")]
    ConsumerRate(#[from] LimitError),
    /// The cache could not be rebuilt from the database.
    #[error("rebuilding the stock cache: {0}")]
    RebuildCache(#[from] SaleError),
}
