//! Order queue between the reservation and the database.
//!
//! The shop responds with `202` after the queue has confirmed the order: after the sync of the journal, the publisher
//! confirm of RabbitMQ, or the addition to the Redis stream. The consumer acknowledges an order after the database has
//! it. Delivery is therefore at least once; the database recognizes a repeated order by its id.

mod journal;
mod rabbitmq;
mod redis_stream;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::stream::BoxStream;
use thiserror::Error;

use crate::order::Purchase;
use journal::Journal;
use rabbitmq::RabbitQueue;
use redis_stream::StreamQueue;

/// Error of the order queue.
#[derive(Debug, Error)]
pub enum QueueError {
    /// Unknown kind of queue.
    #[error("queue `{0}`: write journal:FILE, amqp://HOST:PORT/VHOST or redis://HOST:PORT")]
    Unknown(String),
    /// Another process uses the journal.
    #[error("the journal {0} is in use by another process: use one journal per process, or a shared queue")]
    InUse(PathBuf),
    /// The journal cannot be read or written.
    #[error("journal {path}: {error}")]
    Journal {
        /// Path of the journal.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// RabbitMQ error.
    #[error("RabbitMQ: {0}")]
    RabbitMq(#[from] lapin::Error),
    /// RabbitMQ did not confirm a message.
    #[error("RabbitMQ did not confirm the order")]
    NotConfirmed,
    /// Redis error.
    #[error("Redis stream: {0}")]
    Redis(#[from] redis::RedisError),
    /// The queue did not respond in time.
    #[error("the queue did not respond within {0:?}")]
    TimedOut(Duration),
    /// The stream of deliveries ended, for example because the broker closed the connection.
    #[error("the queue has closed the connection")]
    Closed,
}

/// Order queue; clones share its state.
#[derive(Clone)]
pub enum OrderQueue {
    /// In this process, with a journal on disk.
    Journal(Journal),
    /// In RabbitMQ.
    RabbitMq(RabbitQueue),
    /// In a Redis stream.
    Stream(StreamQueue),
}

/// Delivered order. Without [`Delivery::acknowledge`], it is delivered again.
pub struct Delivery {
    /// The purchase; `None` if the message is invalid and must be discarded.
    pub purchase: Option<Purchase>,
    tag: DeliveryTag,
}

/// Backend-specific reference to the message.
enum DeliveryTag {
    Journal(Journal),
    RabbitMq(Box<lapin::message::Delivery>),
    Stream(Box<StreamQueue>, String),
}

impl OrderQueue {
    /// Opens the queue at this address. `claim_after` is the idle time after which pending messages of a consumer of
    /// the Redis stream are claimed by another one.
    pub async fn open(address: &str, claim_after: Duration) -> Result<Self, QueueError> {
        if let Some(file) = address.strip_prefix("journal:") {
            return Ok(Self::Journal(Journal::open(Path::new(file))?));
        }
        match address {
            url if url.starts_with("amqp://") => Ok(Self::RabbitMq(RabbitQueue::open(url).await?)),
            url if url.starts_with("redis://") => Ok(Self::Stream(StreamQueue::open(url, claim_after).await?)),
            other => Err(QueueError::Unknown(other.to_owned())),
        }
    }

    /// Queues an order. After success the order is in the queue; after an error its state is unknown.
    pub async fn put(&self, purchase: &Purchase) -> Result<(), QueueError> {
        match self {
            Self::Journal(journal) => journal.put(purchase).await,
            Self::RabbitMq(queue) => queue.put(purchase).await,
            Self::Stream(queue) => queue.put(purchase).await,
        }
    }

    /// Returns a stream of deliveries. After an error, call it again for a new stream.
    pub async fn deliveries(&self) -> Result<BoxStream<'static, Result<Delivery, QueueError>>, QueueError> {
        match self {
            Self::Journal(journal) => Ok(journal.deliveries()),
            Self::RabbitMq(queue) => queue.deliveries().await,
            Self::Stream(queue) => queue.deliveries().await,
        }
    }

    /// Orders that are in the queue now. The content of a broker cannot be listed; it returns nothing then.
    pub fn pending(&self) -> Vec<Purchase> {
        match self {
            Self::Journal(journal) => journal.pending(),
            Self::RabbitMq(_) | Self::Stream(_) => Vec::new(),
        }
    }
}

impl Delivery {
    /// Acknowledges the order after the database has it.
    pub async fn acknowledge(self) -> Result<(), QueueError> {
        match (self.tag, self.purchase) {
            (DeliveryTag::Journal(journal), Some(purchase)) => journal.acknowledge(purchase).await,
            (DeliveryTag::Journal(_), None) => Ok(()),
            (DeliveryTag::RabbitMq(delivery), _) => rabbitmq::acknowledge(&delivery).await,
            (DeliveryTag::Stream(queue, id), _) => queue.acknowledge(&id).await,
        }
    }
}
