//! Where the parts of a shop are, and how long things may take.

use std::time::Duration;

use sluicegate::LimitError;
use thiserror::Error;

use crate::cache::CacheError;
use crate::database::OpenError;
use crate::error::SaleError;
use crate::queue::QueueError;

/// What a shop is told when it opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShopSettings {
    /// `sqlite:FILE`, or `mysql://...` for MariaDB and MySQL.
    pub database: String,
    /// `memory`, or `redis://...`.
    pub cache: String,
    /// `journal:FILE`, `amqp://...` or `redis://...`.
    pub queue: String,
    /// How many orders the consumer brings to the database, as in a rule: `20/s`.
    pub pace: String,
    /// How long a buyer may take to pay.
    pub payment_window: Duration,
    /// How long a reservation is kept whose order is not surely in the queue.
    pub reservation_window: Duration,
    /// How long a consumer of the stream in Redis may be silent before its orders go to another.
    pub claim_after: Duration,
}

/// Why a shop cannot open.
#[derive(Debug, Error)]
pub enum ShopError {
    /// No database.
    #[error(transparent)]
    Database(#[from] OpenError),
    /// No cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// No queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// No such pace.
    #[error("the pace of the consumer: {0}")]
    Pace(#[from] LimitError),
    /// The cache could not be brought in line with the database.
    #[error("at the start: {0}")]
    Start(#[from] SaleError),
}
