//! Stock cache: keeps most requests away from the database.
//!
//! It contains:
//!
//! - the stock of the item with its version: an update with a lower version is ignored, so an old value never
//!   overwrites a newer one;
//! - reservations: orders that are in the queue or about to be queued;
//! - the live order of each buyer: the maximum is one;
//! - traces: an order leaves a trace before it is sent to the database, and the cache always refers later requests with
//!   the same key to the database. A buyer whose request was interrupted by a crash therefore finds the order, even
//!   after the sale is sold out.
//!
//! The number of available items is the stock minus the reservations. The cache may be stale for a moment, and it may
//! be lost. Then it is rebuilt from the database, which never oversells. Until the rebuild it is *incomplete* and
//! blocks all purchases.

mod local;
mod redis;

use thiserror::Error;

use crate::order::Purchase;
use crate::stock::Stock;
use local::LocalCache;
use redis::RedisCache;

/// Error of the stock cache.
#[derive(Debug, Error)]
pub enum CacheError {
    /// Unknown kind of cache.
    #[error("cache `{0}`: write `memory`, or redis://HOST:PORT")]
    Unknown(String),
    /// Redis error.
    #[error("stock cache: {0}")]
    Redis(#[from] ::redis::RedisError),
    /// The reservation disappeared while its order was queued.
    #[error("stock cache: the reservation of {order} was lost while the order was queued")]
    Lost {
        /// Order id.
        order: String,
    },
}

/// Stock cache in this process or in Redis; clones share its state.
#[derive(Clone)]
pub enum StockCache {
    /// In this process.
    Local(LocalCache),
    /// In Redis, for several processes.
    Redis(RedisCache),
}

/// Result of a lookup for an immediate purchase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StockLookup {
    /// An item is available. The order has left a trace.
    Available(Stock),
    /// An item is reserved for this order.
    Reserved,
    /// The purchase is blocked.
    Blocked(BlockReason),
}

/// Result of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReserveResult {
    /// An item is now reserved for this order.
    New,
    /// An item was already reserved for this order; its age starts again.
    Existing,
    /// The reservation of this order is expiring.
    Expiring,
    /// The purchase is blocked.
    Blocked(BlockReason),
}

/// Reason for a blocked purchase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockReason {
    /// The buyer has a reservation for another order, which is this one.
    HasReservation(String),
    /// The state of this order, or of another order of the buyer, must be read from the database.
    CheckDatabase {
        /// Live order of the buyer in the cache.
        known_order: Option<String>,
    },
    /// No item is available.
    SoldOut,
    /// The cache must be rebuilt.
    Incomplete,
}

/// Reservation of an order that has been queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuedReservation {
    /// Kept until the order leaves the queue, or the order has already been placed.
    Kept,
    /// The reservation is expiring.
    Expiring,
    /// The reservation no longer exists.
    Gone,
}

/// Reservation of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Purchase that holds the reservation.
    pub purchase: Purchase,
    /// Stage of the reservation.
    pub stage: ReservationStage,
}

/// Stage of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationStage {
    /// Made or renewed at this Unix time in milliseconds. It is not known whether the order is in the queue.
    Since(i64),
    /// The order is in the queue.
    Queued,
    /// The reservation is being released and must not be confirmed to a buyer any more.
    Expiring,
}

impl StockCache {
    /// Opens the cache at this address: `memory`, or the URL of a Redis server.
    pub async fn open(address: &str) -> Result<Self, CacheError> {
        match address {
            "memory" => Ok(Self::Local(LocalCache::default())),
            url if url.starts_with("redis://") => Ok(Self::Redis(RedisCache::connect(url).await?)),
            other => Err(CacheError::Unknown(other.to_owned())),
        }
    }

    /// Looks up the stock for an immediate purchase and leaves a trace. `confirmed_unknown` means that the database has
    /// no such order.
    pub async fn lookup(&self, purchase: &Purchase, confirmed_unknown: bool) -> Result<StockLookup, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.lookup(purchase, confirmed_unknown)),
            Self::Redis(cache) => cache.lookup(purchase, confirmed_unknown).await,
        }
    }

    /// Removes one trace of an order that was not placed.
    pub async fn remove_trace(&self, purchase: &Purchase) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.remove_trace(purchase),
            Self::Redis(cache) => cache.remove_trace(purchase).await?,
        }
        Ok(())
    }

    /// Reserves an item if one is available and the buyer has no order. `confirmed_unknown` as in
    /// [`StockCache::lookup`].
    pub async fn reserve(
        &self,
        purchase: &Purchase,
        now: i64,
        confirmed_unknown: bool,
    ) -> Result<ReserveResult, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.reserve(purchase, now, confirmed_unknown)),
            Self::Redis(cache) => cache.reserve(purchase, now, confirmed_unknown).await,
        }
    }

    /// Records that the order is in the queue: its reservation is kept until the order leaves the queue.
    pub async fn mark_queued(&self, purchase: &Purchase) -> Result<QueuedReservation, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.mark_queued(purchase)),
            Self::Redis(cache) => cache.mark_queued(purchase).await,
        }
    }

    /// Restores the reservation of a queued order after the cache was lost, regardless of the stock.
    pub async fn restore_reservation(&self, purchase: &Purchase) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.restore_reservation(purchase),
            Self::Redis(cache) => cache.restore_reservation(purchase).await?,
        }
        Ok(())
    }

    /// Begins to release a reservation if it was made or renewed no later than `stale` and its order is not known to be
    /// in the queue. Returns true if the expiry has begun.
    pub async fn begin_expiry(&self, purchase: &Purchase, stale: i64) -> Result<bool, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.begin_expiry(purchase, stale)),
            Self::Redis(cache) => cache.begin_expiry(purchase, stale).await,
        }
    }

    /// Updates the stock, unless a newer version is known.
    pub async fn update_stock(&self, stock: Stock) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.update_stock(stock),
            Self::Redis(cache) => cache.update_stock(stock).await?,
        }
        Ok(())
    }

    /// Records an order of the database and removes its reservation. `stock` must not be older than the order: an older
    /// one would count the item of the order as available.
    pub async fn settle_order(&self, purchase: &Purchase, is_live: bool, stock: Stock) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.settle_order(purchase, is_live, stock),
            Self::Redis(cache) => cache.settle_order(purchase, is_live, stock).await?,
        }
        Ok(())
    }

    /// Removes a live order of the buyer that does not exist in the database.
    pub async fn clear_order(&self, buyer: &str, order: &str) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.clear_order(buyer, order),
            Self::Redis(cache) => cache.clear_order(buyer, order).await?,
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

    /// True if an item is reserved for this order.
    pub async fn is_reserved(&self, order: &str) -> Result<bool, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.is_reserved(order)),
            Self::Redis(cache) => cache.is_reserved(order).await,
        }
    }

    /// Version of the stock, if known.
    pub async fn version(&self) -> Result<Option<i64>, CacheError> {
        match self {
            Self::Local(cache) => Ok(cache.version()),
            Self::Redis(cache) => cache.version().await,
        }
    }

    /// Marks the cache as complete after a rebuild and updates the stock: purchases are no longer blocked.
    pub async fn mark_complete(&self, stock: Stock) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.mark_complete(stock),
            Self::Redis(cache) => cache.mark_complete(stock).await?,
        }
        Ok(())
    }

    /// Deletes everything: the cache must be rebuilt.
    pub async fn clear(&self) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.clear(),
            Self::Redis(cache) => cache.clear().await?,
        }
        Ok(())
    }

    /// Deletes everything and sets the stock of a new sale.
    pub async fn start_sale(&self, stock: Stock) -> Result<(), CacheError> {
        match self {
            Self::Local(cache) => cache.start_sale(stock),
            Self::Redis(cache) => cache.start_sale(stock).await?,
        }
        Ok(())
    }
}
