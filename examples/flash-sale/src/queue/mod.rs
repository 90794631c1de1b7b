//! The queue between the door and the books.
//!
//! A buyer who got a reservation is told `202` once the order is *surely* in the queue: synced to the journal's
//! disk, confirmed by RabbitMQ, or added to the stream of Redis. The consumer takes orders out at its own pace and
//! says that one is done only after the database has it. So an order can come twice, after a crash, and is never
//! lost; the second time the database knows it by its id.

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

/// Why an order did not get into the queue, or out of it.
#[derive(Debug, Error)]
pub enum QueueError {
    /// Not a place this shop knows.
    #[error("queue `{0}`: write journal:FILE, amqp://HOST:PORT/VHOST or redis://HOST:PORT")]
    Unknown(String),
    /// Another process has the journal.
    #[error("the journal {0} is in use by another process: each needs its own, or a queue they can share")]
    InUse(PathBuf),
    /// The journal cannot be read or written.
    #[error("the journal {path}: {error}")]
    Journal {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// RabbitMQ does not answer, or not as it should.
    #[error("RabbitMQ: {0}")]
    RabbitMq(#[from] lapin::Error),
    /// RabbitMQ did not take a message.
    #[error("RabbitMQ did not confirm the order")]
    NotConfirmed,
    /// Redis does not answer, or not as it should.
    #[error("the stream in Redis: {0}")]
    Redis(#[from] redis::RedisError),
    /// Nobody answers.
    #[error("the queue did not answer within {0:?}")]
    TimedOut(Duration),
    /// The source ended, as when a broker closes the connection.
    #[error("the queue has closed the connection")]
    Closed,
}

/// The queue. Clones are of the same one.
#[derive(Clone)]
pub enum OrderQueue {
    /// In this process, with a journal on disk.
    Journal(Journal),
    /// In RabbitMQ.
    RabbitMq(RabbitQueue),
    /// In a stream of Redis.
    Stream(StreamQueue),
}

/// An order on its way out. Dropped without [`Delivery::done`], it will come again.
pub struct Delivery {
    /// What is wanted; `None` if the message makes no sense, and is only to be put away.
    pub purchase: Option<Purchase>,
    receipt: Receipt,
}

/// By what a queue knows the message.
enum Receipt {
    Journal(Journal),
    RabbitMq(Box<lapin::message::Delivery>),
    Stream(Box<StreamQueue>, String),
}

impl OrderQueue {
    /// The queue at this place. `claim_after` is how long the stream of Redis waits for a consumer that has
    /// gone silent before its messages are given to another.
    pub async fn open(place: &str, claim_after: Duration) -> Result<Self, QueueError> {
        if let Some(file) = place.strip_prefix("journal:") {
            return Ok(Self::Journal(Journal::open(Path::new(file))?));
        }
        match place {
            url if url.starts_with("amqp://") => Ok(Self::RabbitMq(RabbitQueue::open(url).await?)),
            url if url.starts_with("redis://") => Ok(Self::Stream(StreamQueue::open(url, claim_after).await?)),
            other => Err(QueueError::Unknown(other.to_owned())),
        }
    }

    /// Puts an order into the queue. It is there when this answers; if it fails, it may be there.
    pub async fn put(&self, purchase: &Purchase) -> Result<(), QueueError> {
        match self {
            Self::Journal(journal) => journal.put(purchase).await,
            Self::RabbitMq(queue) => queue.put(purchase).await,
            Self::Stream(queue) => queue.put(purchase).await,
        }
    }

    /// Orders as they come out. After an error, ask for another stream.
    pub async fn deliveries(&self) -> Result<BoxStream<'static, Result<Delivery, QueueError>>, QueueError> {
        match self {
            Self::Journal(journal) => Ok(journal.deliveries()),
            Self::RabbitMq(queue) => queue.deliveries().await,
            Self::Stream(queue) => queue.deliveries().await,
        }
    }

    /// Orders that are in the queue now, as far as this process can know: of a broker nobody can ask that.
    pub fn waiting(&self) -> Vec<Purchase> {
        match self {
            Self::Journal(journal) => journal.waiting(),
            Self::RabbitMq(_) | Self::Stream(_) => Vec::new(),
        }
    }
}

impl Delivery {
    /// The database has decided: it need not come again.
    pub async fn done(self) -> Result<(), QueueError> {
        match (self.receipt, self.purchase) {
            (Receipt::Journal(journal), Some(purchase)) => journal.done(purchase).await,
            (Receipt::Journal(_), None) => Ok(()),
            (Receipt::RabbitMq(delivery), _) => rabbitmq::done(&delivery).await,
            (Receipt::Stream(queue, id), _) => queue.done(&id).await,
        }
    }
}
