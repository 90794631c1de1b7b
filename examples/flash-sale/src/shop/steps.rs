//! What each step does with a purchase.

use sluicegate::limit;

use super::{Answer, Shop, Step};
use crate::cache::{Glance, Known, Reserved};
use crate::database::Sale;
use crate::error::SaleError;
use crate::order::{Order, Purchase, State};

impl Shop {
    /// Buys by one of the steps.
    pub async fn buy(&self, step: Step, purchase: Purchase) -> Result<Answer, SaleError> {
        match step {
            Step::Plain => self.buy_plain(purchase).await,
            Step::Lock => self.buy_by_version(purchase).await,
            Step::Cache => self.buy_cached(purchase).await,
            Step::Limit => self.buy_limited(purchase).await,
            Step::Queue => self.buy_queued(purchase).await,
        }
    }

    /// Read, decide and write in one transaction that locks: everybody reaches the database, one after the other.
    async fn buy_plain(&self, purchase: Purchase) -> Result<Answer, SaleError> {
        let sale = self.database.sell_locked(&purchase, self.pay_by()).await?;
        self.told(&purchase, sale).await
    }

    /// Read without a lock, write if nobody else has: who comes too late is told to try again.
    async fn buy_by_version(&self, purchase: Purchase) -> Result<Answer, SaleError> {
        let sale = match self.database.look(&purchase).await? {
            Ok(seen) => self.database.sell_unchanged(&purchase, seen, self.pay_by()).await?,
            Err(ended) => ended,
        };
        self.told(&purchase, sale).await
    }

    /// The same, with the stock and its version from the cache: once it is sold out, nobody reaches the database.
    async fn buy_cached(&self, purchase: Purchase) -> Result<Answer, SaleError> {
        let Glance { stock, reserved, order } = self.glance(&purchase).await?;
        if let Some(known) = order.filter(|known| known.lives || known.order == purchase.order()) {
            return self.known(&purchase, known).await;
        }
        if stock.left <= reserved {
            return Err(SaleError::SoldOut);
        }
        let sale = self.database.sell_unchanged(&purchase, stock, self.pay_by()).await?;
        if sale == Sale::LostRace {
            // Perhaps the cache is behind, and then everybody would lose until somebody looks.
            self.cache.seen(self.database.stock().await?).await?;
        }
        self.told(&purchase, sale).await
    }

    /// The same, for as many as the rule lets in. Without the rule, ten a second.
    #[limit("10/s", rule = "limited-sale", sluice = self.sluice)]
    async fn buy_limited(&self, purchase: Purchase) -> Result<Answer, SaleError> {
        self.buy_cached(purchase).await
    }

    /// For as many as the rule lets in, an item is reserved in the cache, and the order goes into the queue.
    #[limit("10/s", rule = "queued-sale", sluice = self.sluice)]
    async fn buy_queued(&self, purchase: Purchase) -> Result<Answer, SaleError> {
        let reserved = match self.cache.reserve(&purchase, self.now()).await? {
            Reserved::Empty => {
                self.rebuild_cache().await?;
                self.cache.reserve(&purchase, self.now()).await?
            }
            reserved => reserved,
        };
        match reserved {
            // It may have been reserved by a process that was killed before it could queue the order. An order that is
            // queued twice is placed once.
            Reserved::Taken | Reserved::Before => {}
            Reserved::Known(known) => return self.known(&purchase, known).await,
            Reserved::SoldOut | Reserved::Empty => return Err(SaleError::SoldOut),
        }
        self.queue.put(&purchase).await?;
        if let Err(error) = self.cache.queued(&purchase).await {
            tracing::warn!("{error}");
        }
        Ok(Answer::Later(Order::new(&purchase, State::Waiting)))
    }

    /// What the cache shows, which is rebuilt if it was lost.
    async fn glance(&self, purchase: &Purchase) -> Result<Glance, SaleError> {
        if let Some(glance) = self.cache.glance(purchase.buyer()).await? {
            return Ok(glance);
        }
        self.rebuild_cache().await?;
        self.cache.glance(purchase.buyer()).await?.ok_or(SaleError::SoldOut)
    }

    /// How a sale is told to the buyer, and to the cache.
    async fn told(&self, purchase: &Purchase, sale: Sale) -> Result<Answer, SaleError> {
        match sale {
            Sale::Made(stock) => {
                self.tell_cache(purchase, stock).await;
                Ok(Answer::New(Order::new(purchase, State::Unpaid)))
            }
            Sale::Known(order) if order.id == purchase.order() => Ok(Answer::Again(order)),
            Sale::Known(order) => Err(SaleError::HasOrder { order: order.id }),
            Sale::SoldOut(_) => Err(SaleError::SoldOut),
            Sale::LostRace => Err(SaleError::LostRace),
        }
    }

    /// What a buyer is told of whom the cache knows an order.
    async fn known(&self, purchase: &Purchase, known: Known) -> Result<Answer, SaleError> {
        if known.order != purchase.order() {
            return Err(SaleError::HasOrder { order: known.order });
        }
        let order = self.order(&known.order).await?;
        Ok(if order.state == State::Waiting { Answer::Later(order) } else { Answer::Again(order) })
    }
}
