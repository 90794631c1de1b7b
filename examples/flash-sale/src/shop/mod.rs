//! The shop: one item, many buyers.
//!
//! A purchase comes in by one of the [steps](Step), each of which keeps more buyers away from the database than the
//! one before. Behind them all stand the same books, so steps can be mixed and nothing is ever sold twice.
//!
//! ```text
//! plain    ------------------------------------------------> lock the item, decide, write
//! lock     ------------------------------------------------> write if the version is still what was read
//! cache    -> sold out?  ----------------------------------> the same, with the version from the cache
//! limit    -> #[limit] -> sold out?  ----------------------> the same
//! queue    -> #[limit] -> reserve -> queue -> paced consumer -> lock the item, decide, write
//! ```
//!
//! Beside the buyers two tasks run: [`Shop::consume`] brings orders from the queue to the database, and
//! [`Shop::sweep_for_ever`] gives back what was not paid in time and reservations that came to nothing.

mod consumer;
mod settings;
mod step;
mod steps;
mod sweeper;

use std::time::Duration;

use sluicegate::clock::ClockHandle;
use sluicegate::{Limiter, Sluice};

pub use settings::{ShopError, ShopSettings};
pub use step::{Step, UnknownStep};

use crate::cache::StockCache;
use crate::database::{Books, Database, Stock};
use crate::error::SaleError;
use crate::order::{Order, Purchase, State};
use crate::queue::OrderQueue;

/// A shop. Clones are of the same one.
#[derive(Clone)]
pub struct Shop {
    database: Database,
    cache: StockCache,
    queue: OrderQueue,
    /// The rules by which the steps `limit` and `queue` let buyers in.
    sluice: Sluice,
    /// The pace of the consumer.
    pace: Limiter,
    clock: ClockHandle,
    payment_window: Duration,
    reservation_window: Duration,
}

/// What a buyer is told who is not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Bought.
    New(Order),
    /// This order was made before: here it is.
    Again(Order),
    /// Accepted. Ask later what has become of it.
    Later(Order),
}

impl Shop {
    /// Opens the shop: connects to everything, and brings the cache in line with the database. The clock is that of
    /// the sluice.
    pub async fn open(settings: &ShopSettings, sluice: Sluice) -> Result<Self, ShopError> {
        let clock = sluice.clock().clone();
        let shop = Self {
            database: Database::open(&settings.database).await?,
            cache: StockCache::open(&settings.cache).await?,
            queue: OrderQueue::open(&settings.queue, settings.claim_after).await?,
            pace: Limiter::builder().limit(settings.pace.parse()?).clock(clock.clone()).build()?,
            payment_window: settings.payment_window,
            reservation_window: settings.reservation_window,
            sluice,
            clock,
        };
        shop.rebuild_cache().await?;
        Ok(shop)
    }

    /// Begins a new sale of so many items, with no orders. For when nothing is under way.
    pub async fn restock(&self, items: u32) -> Result<(), SaleError> {
        // First: if this is all that happens, the next buyer rebuilds it.
        self.cache.forget().await?;
        let stock = self.database.restock(items).await?;
        Ok(self.cache.begin_anew(stock).await?)
    }

    /// The books as they stand.
    pub async fn books(&self) -> Result<Books, SaleError> {
        self.database.books().await
    }

    /// What has become of an order.
    pub async fn order(&self, id: &str) -> Result<Order, SaleError> {
        // Whoever waits and asks again and again does not reach the database.
        if self.cache.is_reserved(id).await? {
            return Ok(Order { id: id.to_owned(), state: State::Waiting });
        }
        self.database.order(id).await?.ok_or_else(|| SaleError::NoOrder { order: id.to_owned() })
    }

    /// Pays an order, which must be unpaid and in time. Paying twice is paying once.
    pub async fn pay(&self, id: &str) -> Result<Order, SaleError> {
        if self.database.pay(id, self.now()).await? {
            return Ok(Order { id: id.to_owned(), state: State::Paid });
        }
        // The cache may not have heard yet that the order is out of the queue.
        let order = match self.database.order(id).await? {
            Some(order) => order,
            None => self.order(id).await?,
        };
        if order.state == State::Paid {
            return Ok(order);
        }
        Err(SaleError::NotPayable { order: order.id, state: order.state })
    }

    /// Brings the cache in line with the database. Reservations stay if their order is still to come.
    async fn rebuild_cache(&self) -> Result<(), SaleError> {
        let cached = self.cache.version().await?;
        // Of one moment: with a stock from before one of the orders was sold, its item would be counted as left.
        let (stock, orders) = self.database.everything().await?;
        // Read before the database and yet newer: it is of another database.
        if cached.is_some_and(|version| version > stock.version) {
            self.cache.forget().await?;
        }
        for order in orders {
            self.settle(&order, stock).await?;
        }
        for purchase in self.queue.waiting() {
            self.cache.remember(&purchase).await?;
        }
        for reservation in self.cache.reservations().await? {
            self.settle_known(&reservation.purchase).await?;
        }
        Ok(self.cache.declare_whole(stock).await?)
    }

    /// Ends the reservation of an order that the database knows, and answers how the order stands.
    async fn settle_known(&self, purchase: &Purchase) -> Result<Option<Order>, SaleError> {
        let Some(order) = self.database.order(&purchase.order()).await? else { return Ok(None) };
        self.settle(&order, self.database.stock().await?).await?;
        Ok(Some(order))
    }

    /// Tells the cache of an order in the database, with the stock that was seen together with it, or later.
    async fn settle(&self, order: &Order, stock: Stock) -> Result<(), SaleError> {
        if let Ok(purchase) = Purchase::of_order(&order.id) {
            self.cache.settled(&purchase, order.state.holds_an_item(), stock).await?;
        }
        Ok(())
    }

    /// Tells the cache what the database has just sold. It need not hear of it: it finds out by itself when it is
    /// wrong, it has the order's trace if it let the buyer through, and the buyer has bought either way.
    async fn tell_cache(&self, purchase: &Purchase, stock: Stock) {
        if let Err(error) = self.cache.settled(purchase, true, stock).await {
            tracing::warn!("{error}");
        }
    }

    /// Milliseconds of Unix time.
    fn now(&self) -> i64 {
        i64::try_from(self.clock.now().to_unix().as_millis()).unwrap_or(i64::MAX)
    }

    /// Until when an order that is made now must be paid.
    fn pay_by(&self) -> i64 {
        self.now().saturating_add(milliseconds(self.payment_window))
    }
}

fn milliseconds(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
