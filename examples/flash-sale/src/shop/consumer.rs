//! The consumer: orders from the queue to the database, at a pace the database likes.

use std::time::Duration;

use futures_util::StreamExt;
use sluicegate::stream::StreamLimits;
use tokio::time::sleep;

use super::Shop;
use crate::database::Sale;
use crate::error::SaleError;
use crate::order::{Purchase, State};
use crate::queue::{Delivery, QueueError};

/// How long to wait before what failed is tried again.
const BREATH: Duration = Duration::from_millis(200);

impl Shop {
    /// Brings orders from the queue to the database, for ever.
    pub async fn consume(self) {
        loop {
            if let Err(error) = self.consume_until_it_breaks().await {
                tracing::warn!("orders stay in the queue for now: {error}");
            }
            sleep(BREATH).await;
        }
    }

    async fn consume_until_it_breaks(&self) -> Result<(), QueueError> {
        let mut paced = self.queue.deliveries().await?.paced(&self.pace);
        while let Some(delivery) = paced.next().await {
            self.handle(delivery?).await?;
        }
        Err(QueueError::Closed)
    }

    /// An order is done when database and cache have it. Until then the queue keeps it.
    async fn handle(&self, delivery: Delivery) -> Result<(), QueueError> {
        match &delivery.purchase {
            Some(purchase) => {
                while let Err(error) = self.place(purchase).await {
                    tracing::warn!("order {} is tried again: {error}", purchase.order());
                    sleep(BREATH).await;
                }
            }
            None => tracing::warn!("a message in the queue is no order, and was put away"),
        }
        delivery.done().await
    }

    /// Decides on an order. However often it comes, it is decided on once.
    async fn place(&self, purchase: &Purchase) -> Result<(), SaleError> {
        match self.database.place(purchase, self.pay_by()).await? {
            Sale::Made(stock) => self.cache.settled(purchase, true, stock).await?,
            Sale::Known(order) if order.id == purchase.order() => {
                self.settle_known(purchase).await?;
            }
            Sale::Known(_) | Sale::SoldOut(_) => {
                self.database.write_ended(purchase, State::Refused).await?;
                self.settle_known(purchase).await?;
            }
            Sale::LostRace => return Err(SaleError::LostRace),
        }
        Ok(())
    }
}
