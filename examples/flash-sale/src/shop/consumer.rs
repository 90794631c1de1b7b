//! Consumer: moves orders from the queue to the database at a limited rate.

use std::time::Duration;

use futures_util::StreamExt;
use sluicegate::stream::StreamRateLimitExt;
use tokio::time::sleep;

use super::Shop;
use crate::database::SaleResult;
use crate::error::SaleError;
use crate::order::{OrderState, Purchase};
use crate::queue::{Delivery, QueueError};

/// Delay before a retry.
const RETRY_DELAY: Duration = Duration::from_millis(200);

impl Shop {
    /// Moves orders from the queue to the database; never returns.
    pub async fn consume(self) {
        loop {
            if let Err(error) = self.consume_until_error().await {
                tracing::warn!("cannot consume orders, retrying: {error}");
            }
            sleep(RETRY_DELAY).await;
        }
    }

    async fn consume_until_error(&self) -> Result<(), QueueError> {
        let mut deliveries = self.queue.deliveries().await?.rate_limit(&self.consumer_rate);
        while let Some(delivery) = deliveries.next().await {
            self.handle(delivery?).await?;
        }
        Err(QueueError::Closed)
    }

    /// Handles a delivery and acknowledges it after database and cache contain the order.
    async fn handle(&self, delivery: Delivery) -> Result<(), QueueError> {
        match &delivery.purchase {
            Some(purchase) => {
                while let Err(error) = self.place_order(purchase).await {
                    tracing::warn!("cannot place order {}, retrying: {error}", purchase.order_id());
                    sleep(RETRY_DELAY).await;
                }
            }
            None => tracing::warn!("discarded an invalid message in the queue"),
        }
        delivery.acknowledge().await
    }

    /// Places or refuses an order. Repeated deliveries have no further effect.
    async fn place_order(&self, purchase: &Purchase) -> Result<(), SaleError> {
        match self.database.place_queued(purchase, self.pay_by()).await? {
            SaleResult::Sold(stock) => self.cache.settle_order(purchase, true, stock).await?,
            SaleResult::Existing(order) if order.id == purchase.order_id() => {
                self.settle_known(purchase).await?;
            }
            SaleResult::Existing(_) | SaleResult::SoldOut(_) => {
                self.database.insert_ended(purchase, OrderState::Refused).await?;
                self.settle_known(purchase).await?;
            }
            SaleResult::LostRace => return Err(SaleError::LostRace),
        }
        Ok(())
    }
}
