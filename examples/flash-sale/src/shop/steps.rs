//! What each step does with a purchase.

use sluicegate::limit;

use super::{Answer, Shop, Step};
use crate::cache::{CacheError, Look, Queued, Reserved, Shut};
use crate::database::{Sale, Stock};
use crate::error::SaleError;
use crate::order::{Order, Purchase, State};

/// How often the cache is asked by one buyer: once, and again when it was rebuilt, when the database was asked, and once
/// more if somebody came in between.
const LOOKS: usize = 4;

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
        let mut asked = false;
        for _ in 0..LOOKS {
            match self.cache.look(&purchase, asked).await? {
                Look::Open(stock) => return self.buy_seen(&purchase, stock).await,
                // It came by the step with the queue before, and stays on that way.
                Look::Reserved => return self.reserve_and_queue(purchase).await,
                Look::Shut(shut) => {
                    asked |= matches!(shut, Shut::Unsure { .. });
                    if let Some(answer) = self.clear_the_way(&purchase, shut).await? {
                        return Ok(answer);
                    }
                }
            }
        }
        Err(SaleError::LostRace)
    }

    /// Buys by a stock that the cache has shown.
    async fn buy_seen(&self, purchase: &Purchase, stock: Stock) -> Result<Answer, SaleError> {
        let sale = self.database.sell_unchanged(purchase, stock, self.pay_by()).await?;
        if matches!(sale, Sale::Made(_)) {
            return self.told(purchase, sale).await;
        }
        // Perhaps the cache is behind, and then everybody would lose until somebody looks. And perhaps it was this very
        // order that was faster: its buyer was not told, and asks again.
        let (stock, found) = self.database.standing(purchase).await?;
        if let Some(order) = found {
            self.settle(&order, stock).await?;
            return self.told(purchase, Sale::Known(order)).await;
        }
        self.cache.seen(stock).await?;
        self.cache.bought_nothing(purchase).await?;
        Err(SaleError::LostRace)
    }

    /// The same, for as many as the rule lets in. Without the rule, ten a second.
    #[limit("10/s", rule = "limited-sale", sluice = self.sluice)]
    async fn buy_limited(&self, purchase: Purchase) -> Result<Answer, SaleError> {
        self.buy_cached(purchase).await
    }

    /// For as many as the rule lets in, an item is reserved in the cache, and the order goes into the queue.
    #[limit("10/s", rule = "queued-sale", sluice = self.sluice)]
    async fn buy_queued(&self, purchase: Purchase) -> Result<Answer, SaleError> {
        self.reserve_and_queue(purchase).await
    }

    async fn reserve_and_queue(&self, purchase: Purchase) -> Result<Answer, SaleError> {
        let mut asked = false;
        for _ in 0..LOOKS {
            match self.cache.reserve(&purchase, self.now(), asked).await? {
                // It may have been reserved by a process that was killed before it could queue the order. An order that
                // is queued twice is placed once.
                Reserved::Taken | Reserved::Before => return self.queue_reserved(&purchase).await,
                Reserved::Ending => return self.expire(&purchase).await.map(Answer::Again),
                Reserved::Shut(shut) => {
                    asked |= matches!(shut, Shut::Unsure { .. });
                    if let Some(answer) = self.clear_the_way(&purchase, shut).await? {
                        return Ok(answer);
                    }
                }
            }
        }
        Err(SaleError::LostRace)
    }

    /// Puts an order into the queue. Nobody is told to wait before the cache has said that the reservation stays: it may have
    /// been given back meanwhile, and then the order ends when it comes out of the queue.
    async fn queue_reserved(&self, purchase: &Purchase) -> Result<Answer, SaleError> {
        self.queue.put(purchase).await?;
        match self.cache.queued(purchase).await? {
            Queued::Kept => Ok(Answer::Later(Order::new(purchase, State::Waiting))),
            Queued::Ending => self.expire(purchase).await.map(Answer::Again),
            Queued::Gone => {
                let found = self.database.order(&purchase.order()).await?;
                Ok(found.map(Answer::Again).ok_or_else(|| CacheError::Lost { order: purchase.order() })?)
            }
        }
    }

    /// Puts right what the cache is not sure of. `None` if it is to be asked again.
    async fn clear_the_way(&self, purchase: &Purchase, shut: Shut) -> Result<Option<Answer>, SaleError> {
        match shut {
            Shut::SoldOut => Err(SaleError::SoldOut),
            Shut::Has(order) => Err(SaleError::HasOrder { order }),
            Shut::NotWhole => {
                self.rebuild_cache().await?;
                Ok(None)
            }
            Shut::Unsure { has } => {
                let (stock, found) = self.database.standing(purchase).await?;
                if let Some(order) = found {
                    self.settle(&order, stock).await?;
                    return self.told(purchase, Sale::Known(order)).await.map(Some);
                }
                // Whoever took it back could not say so to the cache.
                if let Some(order) = has {
                    self.cache.has_no_more(purchase.buyer(), &order).await?;
                }
                Ok(None)
            }
        }
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
}
