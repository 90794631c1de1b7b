//! Shop with one item and many buyers.
//!
//! Every [step](Step) handles a purchase with less load on the database than the one before. All steps use the same
//! database, so they can be mixed, and no item is sold twice.
//!
//! ```text
//! plain    ------------------------------------------------> lock the item, decide, write
//! lock     ------------------------------------------------> write if the version is unchanged
//! cache    -> sold out?  ----------------------------------> the same, with the version from the cache
//! limit    -> #[limit] -> sold out?  ----------------------> the same
//! queue    -> #[limit] -> reserve -> queue -> rate-limited consumer -> lock the item, decide, write
//! ```
//!
//! Two background tasks run: [`Shop::consume`] moves orders from the queue to the database, and [`Shop::run_sweeper`]
//! cancels unpaid orders and releases stale reservations.

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
use crate::database::{Database, SaleTotals, Stock};
use crate::error::SaleError;
use crate::order::{Order, OrderState, Purchase};
use crate::queue::OrderQueue;

/// Shop; clones share its state.
#[derive(Clone)]
pub struct Shop {
    database: Database,
    cache: StockCache,
    queue: OrderQueue,
    /// Rules of the steps `limit` and `queue`.
    sluice: Sluice,
    /// Rate limit of the consumer.
    consumer_rate: Limiter,
    clock: ClockHandle,
    payment_window: Duration,
    reservation_window: Duration,
}

/// Result of a purchase that is not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurchaseOutcome {
    /// New order.
    New(Order),
    /// Existing order of an earlier request with the same key.
    Existing(Order),
    /// Order in the queue; its result comes later.
    Accepted(Order),
}

impl Shop {
    /// Opens the shop: connects to all backends and rebuilds the cache from the database. Uses the clock of the sluice.
    pub async fn open(settings: &ShopSettings, sluice: Sluice) -> Result<Self, ShopError> {
        let clock = sluice.clock().clone();
        let shop = Self {
            database: Database::open(&settings.database).await?,
            cache: StockCache::open(&settings.cache).await?,
            queue: OrderQueue::open(&settings.queue, settings.claim_after).await?,
            consumer_rate: Limiter::builder().limit(settings.consumer_rate.parse()?).clock(clock.clone()).build()?,
            payment_window: settings.payment_window,
            reservation_window: settings.reservation_window,
            sluice,
            clock,
        };
        shop.rebuild_cache().await?;
        Ok(shop)
    }

    /// Starts a new sale: sets the number of items and deletes all orders. No purchase may be in flight.
    pub async fn restock(&self, items: u32) -> Result<(), SaleError> {
        // Clear the cache first: after a crash at this point, the next purchase rebuilds it.
        self.cache.clear().await?;
        let stock = self.database.restock(items).await?;
        Ok(self.cache.start_sale(stock).await?)
    }

    /// Totals of the sale.
    pub async fn totals(&self) -> Result<SaleTotals, SaleError> {
        self.database.totals().await
    }

    /// Returns an order with its state.
    pub async fn order(&self, id: &str) -> Result<Order, SaleError> {
        // Polling for a queued order does not reach the database.
        if self.cache.is_reserved(id).await? {
            return Ok(Order { id: id.to_owned(), state: OrderState::Waiting });
        }
        self.database.order(id).await?.ok_or_else(|| SaleError::NoOrder { order: id.to_owned() })
    }

    /// Pays an unpaid order within its payment window. Payment is idempotent.
    pub async fn pay(&self, id: &str) -> Result<Order, SaleError> {
        if self.database.pay(id, self.now()).await? {
            return Ok(Order { id: id.to_owned(), state: OrderState::Paid });
        }
        // The cache may still contain the reservation of an order that has left the queue: check the database first.
        let order = match self.database.order(id).await? {
            Some(order) => order,
            None => self.order(id).await?,
        };
        if order.state == OrderState::Paid {
            return Ok(order);
        }
        Err(SaleError::NotPayable { order: order.id, state: order.state })
    }

    /// Rebuilds the cache from the database. Keeps reservations of orders that are still in the queue.
    async fn rebuild_cache(&self) -> Result<(), SaleError> {
        let cached = self.cache.version().await?;
        // One statement for both: a stock older than one of the orders would count its item as available.
        let (stock, orders) = self.database.stock_and_orders().await?;
        // The cached version was read first. If it is newer, the cache belongs to another database.
        if cached.is_some_and(|version| version > stock.version) {
            self.cache.clear().await?;
        }
        for order in orders {
            self.settle(&order, stock).await?;
        }
        for purchase in self.queue.pending() {
            self.cache.restore_reservation(&purchase).await?;
        }
        for reservation in self.cache.reservations().await? {
            self.settle_known(&reservation.purchase).await?;
        }
        Ok(self.cache.mark_complete(stock).await?)
    }

    /// Removes the reservation of an order that exists in the database, and returns the order.
    async fn settle_known(&self, purchase: &Purchase) -> Result<Option<Order>, SaleError> {
        let Some(order) = self.database.order(&purchase.order_id()).await? else { return Ok(None) };
        self.settle(&order, self.database.stock().await?).await?;
        Ok(Some(order))
    }

    /// Records an order of the database in the cache. `stock` must not be older than the order.
    async fn settle(&self, order: &Order, stock: Stock) -> Result<(), SaleError> {
        if let Ok(purchase) = Purchase::from_order_id(&order.id) {
            self.cache.settle_order(&purchase, order.state.holds_item(), stock).await?;
        }
        Ok(())
    }

    /// Records a sale in the cache. A failure is only logged: the sale is in the database, the cache has a trace of the
    /// order, and a stale stock is detected at the next purchase.
    async fn update_cache(&self, purchase: &Purchase, stock: Stock) {
        if let Err(error) = self.cache.settle_order(purchase, true, stock).await {
            tracing::warn!("cannot update the stock cache: {error}");
        }
    }

    /// Unix time in milliseconds.
    fn now(&self) -> i64 {
        i64::try_from(self.clock.now().to_unix().as_millis()).unwrap_or(i64::MAX)
    }

    /// Payment deadline of a new order.
    fn pay_by(&self) -> i64 {
        self.now().saturating_add(milliseconds(self.payment_window))
    }
}

fn milliseconds(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
