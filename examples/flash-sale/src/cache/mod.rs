//! The stock cache: what keeps most buyers away from the database.
//!
//! It holds three things. The item's stock, with the version the database gave it: of two writers the one
//! with the higher version wins, so an old reading never overwrites a newer one. The reservations, which
//! are orders that passed the door and are on their way through the queue. And who has an order, so that
//! somebody who asks twice is answered without the database.
//!
//! What can be had is the stock less the reservations. The cache may be wrong for a moment, on either
//! side, and may be lost: then it is rebuilt from the database, which sells nothing that is not there.

mod local;
mod redis;

use thiserror::Error;

use crate::database::Stock;
use crate::order::Purchase;
use local::LocalCache;
use redis::RedisCache;

/// Why the cache cannot be used.
#[derive(Debug, Error)]
pub enum CacheError {
    /// Not a place this shop knows.
    #[error("cache `{0}`: write `memory`, or redis://HOST:PORT")]
    Unknown(String),
    /// Redis does not answer, or not as it should.
    #[error("the stock cache: {0}")]
    Redis(#[from] ::redis::RedisError),
}

/// The cache, in this process or in Redis. Clones are of the same one.
#[derive(Clone)]
pub enum StockCache {
    /// In this process.
    Local(LocalCache),
    /// In Redis, for several processes.
    Redis(RedisCache),
}

/// What a look tells a buyer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    /// The stock, as last heard from the database.
    pub stock: Stock,
    /// How many of it are reserved.
    pub reserved: i64,
    /// The buyer's order.
    pub order: Option<Known>,
}

/// An order in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its id.
    pub order: String,
    /// Whether it holds an item, or has one reserved.
    pub lives: bool,
}

/// How an attempt to reserve ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// An item is reserved for this order.
    Taken,
    /// One was reserved for this very order before, and it is on its way.
    Before,
    /// The buyer has this order.
    Known(Known),
    /// There is nothing to be had.
    SoldOut,
    /// The cache knows of no stock: it has to be rebuilt.
    Empty,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Whose.
    pub purchase: Purchase,
    /// When it was made, in milliseconds of Unix time; `None` once the order is surely in the queue.
    pub since: Option<i64>,
}

impl StockCache {
    /// The cache at this place: `memory`, or a Redis.
    pub async fn open(place: &str) -> Result<Self, CacheError> {
        match place {
            "memory" => Ok(Self::Local(LocalCache::default())),
            url if url.starts_with("redis://") => Ok(Self::Redis(RedisCache::connect(url).await?)),
            other => Err(CacheError::Unknown(other.to_owned())),
        }
    }

    /// What a buyer sees. `None` if the cache has to be rebuilt.
    pub async fn glance(&self, buyer: &str) -> Result<Option<Glance>, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.glance(buyer)),
            Self::Redis(cache) => cache.glance(buyer).await,
        }
    }

    /// Reserves an item, if there is one and the buyer has no order.
    pub async fn reserve(&self, purchase: &Purchase, now: i64) -> Result<Reserved, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.reserve(purchase, now)),
            Self::Redis(cache) => cache.reserve(purchase, now).await,
        }
    }

    /// An order is in the queue since before anybody here can remember: it has its reservation, whatever is left.
    pub async fn remember(&self, purchase: &Purchase) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.remember(purchase),
            Self::Redis(cache) => cache.remember(purchase).await?,
        }
        Ok(())
    }

    /// The order is surely in the queue: its reservation stays until it comes out.
    pub async fn queued(&self, purchase: &Purchase) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.queued(purchase),
            Self::Redis(cache) => cache.queued(purchase).await?,
        }
        Ok(())
    }

    /// The stock has been seen like this.
    pub async fn seen(&self, stock: Stock) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.seen(stock),
            Self::Redis(cache) => cache.seen(stock).await?,
        }
        Ok(())
    }

    /// The database has decided on an order, and left this stock. A reservation for it is over.
    pub async fn settled(&self, purchase: &Purchase, lives: bool, stock: Stock) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.settled(purchase, lives, stock),
            Self::Redis(cache) => cache.settled(purchase, lives, stock).await?,
        }
        Ok(())
    }

    /// All reservations.
    pub async fn reservations(&self) -> Result<Vec<Reservation>, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.reservations()),
            Self::Redis(cache) => cache.reservations().await,
        }
    }

    /// Whether an item is reserved for this order.
    pub async fn is_reserved(&self, order: &str) -> Result<bool, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.is_reserved(order)),
            Self::Redis(cache) => cache.is_reserved(order).await,
        }
    }

    /// Forgets everything but this stock.
    pub async fn begin_anew(&self, stock: Stock) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.begin_anew(stock),
            Self::Redis(cache) => cache.begin_anew(stock).await?,
        }
        Ok(())
    }
}
