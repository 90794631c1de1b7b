//! The stock cache: what keeps most buyers away from the database.
//!
//! It holds four things:
//!
//! - the item's stock, with the version the database gave it: of two writers the one with the higher version
//!   wins, so an old reading never overwrites a newer one;
//! - the reservations, which are orders that passed the door and are on their way through the queue;
//! - who has an order, so that nobody is given two;
//! - traces. An order leaves one before it goes to the database, and the cache never again answers for the
//!   database whoever comes with its key. So a buyer whose shop was killed before it could say what was sold finds the
//!   order, also when everything else is sold.
//!
//! What can be had is the stock less the reservations. The cache may be wrong for a moment, on either
//! side, and may be lost: then it is rebuilt from the database, which sells nothing that is not there. Until that
//! is done it is not *whole*, and lets nobody through.

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
    /// It was there a moment ago.
    #[error("the stock cache lost the reservation of {order} while the order was put into the queue")]
    Lost {
        /// Which.
        order: String,
    },
}

/// The cache, in this process or in Redis. Clones are of the same one.
#[derive(Clone)]
pub enum StockCache {
    /// In this process.
    Local(LocalCache),
    /// In Redis, for several processes.
    Redis(RedisCache),
}

/// What somebody finds who wants to buy at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// This can be bought. The order has left its trace.
    Open(Stock),
    /// An item is reserved for this very order.
    Reserved,
    /// Nobody is let through.
    Shut(Shut),
}

/// How an attempt to reserve ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// An item is reserved for this order.
    Taken,
    /// One was reserved for this very order before. It is as fresh as if it had been made now.
    Before,
    /// One was reserved for this very order, for too long: it is being given back.
    Ending,
    /// Nobody is let through.
    Shut(Shut),
}

/// Why nobody is let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shut {
    /// An item is reserved for another order of the buyer's, which is this.
    Has(String),
    /// The database has to be asked what it knows of this order, or of the one that the buyer seems to have.
    Unsure {
        /// That one.
        has: Option<String>,
    },
    /// There is nothing to be had.
    SoldOut,
    /// The cache has to be rebuilt.
    NotWhole,
}

/// What has become of a reservation whose order is in the queue by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// It stays until the order comes out. Or the order came out already, and has its item.
    Kept,
    /// It is being given back.
    Ending,
    /// It is not there any more.
    Gone,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Whose.
    pub purchase: Purchase,
    /// How far it has come.
    pub stage: Stage,
}

/// How far a reservation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Made, or asked for again, at this moment in milliseconds of Unix time. Its order may be in the queue, or not.
    Since(i64),
    /// Its order is surely in the queue.
    Queued,
    /// It was made too long ago, and is being given back: nobody may be told any more that it holds.
    Ending,
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

    /// What can be bought at once. With `asked`, the database was asked about this order and does not know it.
    pub async fn look(&self, purchase: &Purchase, asked: bool) -> Result<Look, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.look(purchase, asked)),
            Self::Redis(cache) => cache.look(purchase, asked).await,
        }
    }

    /// Somebody who had a look bought nothing, and the database does not know the order: its trace is taken back.
    pub async fn bought_nothing(&self, purchase: &Purchase) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.bought_nothing(purchase),
            Self::Redis(cache) => cache.bought_nothing(purchase).await?,
        }
        Ok(())
    }

    /// Reserves an item, if there is one and the buyer has no order. `asked` as for [`StockCache::look`].
    pub async fn reserve(&self, purchase: &Purchase, now: i64, asked: bool) -> Result<Reserved, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.reserve(purchase, now, asked)),
            Self::Redis(cache) => cache.reserve(purchase, now, asked).await,
        }
    }

    /// The order is surely in the queue: its reservation stays until it comes out, if it is still there.
    pub async fn queued(&self, purchase: &Purchase) -> Result<Queued, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.queued(purchase)),
            Self::Redis(cache) => cache.queued(purchase).await,
        }
    }

    /// An order is in the queue since before the cache can remember: it has its reservation, whatever is left.
    pub async fn remember(&self, purchase: &Purchase) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.remember(purchase),
            Self::Redis(cache) => cache.remember(purchase).await?,
        }
        Ok(())
    }

    /// Begins to give back a reservation, if nobody has asked for it again after this moment and its order is not surely
    /// in the queue. Answers whether it does.
    pub async fn begin_end(&self, purchase: &Purchase, stale: i64) -> Result<bool, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.begin_end(purchase, stale)),
            Self::Redis(cache) => cache.begin_end(purchase, stale).await,
        }
    }

    /// The stock has been seen like this.
    pub async fn seen(&self, stock: Stock) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.seen(stock),
            Self::Redis(cache) => cache.seen(stock).await?,
        }
        Ok(())
    }

    /// The database has decided on an order, and this is the stock then or later: an earlier one would count the item
    /// of the order as left. A reservation for it is over.
    pub async fn settled(&self, purchase: &Purchase, lives: bool, stock: Stock) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.settled(purchase, lives, stock),
            Self::Redis(cache) => cache.settled(purchase, lives, stock).await?,
        }
        Ok(())
    }

    /// The order that the buyer seemed to have does not live in the database.
    pub async fn has_no_more(&self, buyer: &str, order: &str) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.has_no_more(buyer, order),
            Self::Redis(cache) => cache.has_no_more(buyer, order).await?,
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

    /// The version of the stock, if one is known.
    pub async fn version(&self) -> Result<Option<i64>, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.version()),
            Self::Redis(cache) => cache.version().await,
        }
    }

    /// Everything that the database knows has been told, and this stock was seen: buyers are let through.
    pub async fn declare_whole(&self, stock: Stock) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.declare_whole(stock),
            Self::Redis(cache) => cache.declare_whole(stock).await?,
        }
        Ok(())
    }

    /// Forgets everything: it has to be rebuilt.
    pub async fn forget(&self) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.forget(),
            Self::Redis(cache) => cache.forget().await?,
        }
        Ok(())
    }

    /// Forgets everything but this stock, which is that of a new sale.
    pub async fn begin_anew(&self, stock: Stock) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.begin_anew(stock),
            Self::Redis(cache) => cache.begin_anew(stock).await?,
        }
        Ok(())
    }
}
