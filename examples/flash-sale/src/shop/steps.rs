//! Implementation of the steps.

use sluicegate::limit;

use super::{PurchaseOutcome, Shop, Step};
use crate::cache::{BlockReason, CacheError, QueuedReservation, ReserveResult, StockLookup};
use crate::database::{SaleResult, Stock};
use crate::error::SaleError;
use crate::order::{Order, OrderState, Purchase};

/// Maximum number of cache lookups per purchase: the first, one after a rebuild, one after a check of the database, and
/// one after a concurrent change.
const MAX_CACHE_LOOKUPS: usize = 4;

impl Shop {
    /// Buys an item with the given step.
    pub async fn buy(&self, step: Step, purchase: Purchase) -> Result<PurchaseOutcome, SaleError> {
        match step {
            Step::Plain => self.buy_plain(purchase).await,
            Step::Lock => self.buy_by_version(purchase).await,
            Step::Cache => self.buy_cached(purchase).await,
            Step::Limit => self.buy_limited(purchase).await,
            Step::Queue => self.buy_queued(purchase).await,
        }
    }

    /// Reads, decides and writes in one transaction that locks the item: all buyers reach the database one by one.
    async fn buy_plain(&self, purchase: Purchase) -> Result<PurchaseOutcome, SaleError> {
        let sale = self.database.sell_locked(&purchase, self.pay_by()).await?;
        self.report_sale(&purchase, sale).await
    }

    /// Reads without a lock and writes if the version is unchanged; a buyer that loses the race must try again.
    async fn buy_by_version(&self, purchase: Purchase) -> Result<PurchaseOutcome, SaleError> {
        let sale = match self.database.read_stock(&purchase).await? {
            Ok(stock) => self.database.sell_unchanged(&purchase, stock, self.pay_by()).await?,
            Err(result) => result,
        };
        self.report_sale(&purchase, sale).await
    }

    /// The same with stock and version from the cache: after the last item is sold, no buyer reaches the database.
    async fn buy_cached(&self, purchase: Purchase) -> Result<PurchaseOutcome, SaleError> {
        let mut confirmed_unknown = false;
        for _ in 0..MAX_CACHE_LOOKUPS {
            match self.cache.lookup(&purchase, confirmed_unknown).await? {
                StockLookup::Available(stock) => return self.buy_at_version(&purchase, stock).await,
                // An earlier request of this order used the step `queue`: continue there.
                StockLookup::Reserved => return self.reserve_and_queue(purchase).await,
                StockLookup::Blocked(reason) => {
                    confirmed_unknown |= matches!(reason, BlockReason::CheckDatabase { .. });
                    if let Some(outcome) = self.resolve_block(&purchase, reason).await? {
                        return Ok(outcome);
                    }
                }
            }
        }
        Err(SaleError::LostRace)
    }

    /// Buys with the stock of the cache.
    async fn buy_at_version(&self, purchase: &Purchase, stock: Stock) -> Result<PurchaseOutcome, SaleError> {
        let sale = self.database.sell_unchanged(purchase, stock, self.pay_by()).await?;
        if matches!(sale, SaleResult::Sold(_)) {
            return self.report_sale(purchase, sale).await;
        }
        // The cache may be stale, and every buyer would lose the race until it is updated. Or an earlier request of
        // this order was faster, and its buyer did not receive the response.
        let (stock, found) = self.database.stock_and_own_order(purchase).await?;
        if let Some(order) = found {
            self.settle(&order, stock).await?;
            return self.report_sale(purchase, SaleResult::Existing(order)).await;
        }
        self.cache.update_stock(stock).await?;
        self.cache.remove_trace(purchase).await?;
        Err(SaleError::LostRace)
    }

    /// The same behind a rate limit. Without the rule, ten per second.
    #[limit("10/s", rule = "limited-sale", sluice = self.sluice)]
    async fn buy_limited(&self, purchase: Purchase) -> Result<PurchaseOutcome, SaleError> {
        self.buy_cached(purchase).await
    }

    /// Reserves an item in the cache and queues the order, behind a rate limit.
    #[limit("10/s", rule = "queued-sale", sluice = self.sluice)]
    async fn buy_queued(&self, purchase: Purchase) -> Result<PurchaseOutcome, SaleError> {
        self.reserve_and_queue(purchase).await
    }

    async fn reserve_and_queue(&self, purchase: Purchase) -> Result<PurchaseOutcome, SaleError> {
        let mut confirmed_unknown = false;
        for _ in 0..MAX_CACHE_LOOKUPS {
            match self.cache.reserve(&purchase, self.now(), confirmed_unknown).await? {
                // The process that made an existing reservation may have died before it queued the order. An order that
                // is queued twice is placed once.
                ReserveResult::New | ReserveResult::Existing => return self.queue_reserved(&purchase).await,
                ReserveResult::Expiring => return self.expire_order(&purchase).await.map(PurchaseOutcome::Existing),
                ReserveResult::Blocked(reason) => {
                    confirmed_unknown |= matches!(reason, BlockReason::CheckDatabase { .. });
                    if let Some(outcome) = self.resolve_block(&purchase, reason).await? {
                        return Ok(outcome);
                    }
                }
            }
        }
        Err(SaleError::LostRace)
    }

    /// Queues an order. It is accepted only after the cache has confirmed that the reservation is kept: if the
    /// reservation has expired meanwhile, the consumer ends the order when it leaves the queue.
    async fn queue_reserved(&self, purchase: &Purchase) -> Result<PurchaseOutcome, SaleError> {
        self.queue.put(purchase).await?;
        match self.cache.mark_queued(purchase).await? {
            QueuedReservation::Kept => Ok(PurchaseOutcome::Accepted(Order::new(purchase, OrderState::Waiting))),
            QueuedReservation::Expiring => self.expire_order(purchase).await.map(PurchaseOutcome::Existing),
            QueuedReservation::Gone => {
                let found = self.database.order(&purchase.order_id()).await?;
                Ok(found
                    .map(PurchaseOutcome::Existing)
                    .ok_or_else(|| CacheError::Lost { order: purchase.order_id() })?)
            }
        }
    }

    /// Resolves a block of the cache. Returns `None` if the lookup must be repeated.
    async fn resolve_block(
        &self,
        purchase: &Purchase,
        reason: BlockReason,
    ) -> Result<Option<PurchaseOutcome>, SaleError> {
        match reason {
            BlockReason::SoldOut => Err(SaleError::SoldOut),
            BlockReason::HasReservation(order) => Err(SaleError::HasOrder { order }),
            BlockReason::Incomplete => {
                self.rebuild_cache().await?;
                Ok(None)
            }
            BlockReason::CheckDatabase { known_order } => {
                let (stock, found) = self.database.stock_and_own_order(purchase).await?;
                if let Some(order) = found {
                    self.settle(&order, stock).await?;
                    return self.report_sale(purchase, SaleResult::Existing(order)).await.map(Some);
                }
                // The order was cancelled, but the cache was not updated.
                if let Some(order) = known_order {
                    self.cache.clear_order(purchase.buyer(), &order).await?;
                }
                Ok(None)
            }
        }
    }

    /// Converts the result of a sale, and updates the cache.
    async fn report_sale(&self, purchase: &Purchase, sale: SaleResult) -> Result<PurchaseOutcome, SaleError> {
        match sale {
            SaleResult::Sold(stock) => {
                self.update_cache(purchase, stock).await;
                Ok(PurchaseOutcome::New(Order::new(purchase, OrderState::Unpaid)))
            }
            SaleResult::Existing(order) if order.id == purchase.order_id() => Ok(PurchaseOutcome::Existing(order)),
            SaleResult::Existing(order) => Err(SaleError::HasOrder { order: order.id }),
            SaleResult::SoldOut(_) => Err(SaleError::SoldOut),
            SaleResult::LostRace => Err(SaleError::LostRace),
        }
    }
}
