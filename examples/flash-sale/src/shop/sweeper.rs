//! Sweeper: cancels unpaid orders and releases stale reservations.

use std::time::Duration;

use super::{Shop, milliseconds};
use crate::cache::{Reservation, ReservationStage};
use crate::error::SaleError;
use crate::order::{Order, OrderState, Purchase};

/// Minimum and maximum interval between two sweeps.
const SWEEP_INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

impl Shop {
    /// Sweeps periodically; never returns.
    pub async fn run_sweeper(self) {
        let [min, max] = SWEEP_INTERVALS;
        let interval = (self.payment_window.min(self.reservation_window) / 4).clamp(min, max);
        loop {
            self.clock.sleep(interval).await;
            if let Err(error) = self.sweep().await {
                tracing::warn!("sweep failed, retrying: {error}");
            }
        }
    }

    /// Cancels unpaid orders, expires reservations whose order never reached the queue, and corrects a stale cache.
    /// Several processes may sweep concurrently: the database ends each order once.
    pub async fn sweep(&self) -> Result<(), SaleError> {
        self.cancel_overdue().await?;
        let stale = self.now().saturating_sub(milliseconds(self.reservation_window));
        for Reservation { purchase, stage } in self.cache.reservations().await? {
            let expires = match stage {
                ReservationStage::Expiring => true,
                // The list may be stale: the cache checks the age again.
                ReservationStage::Since(since) => since <= stale && self.cache.begin_expiry(&purchase, stale).await?,
                ReservationStage::Queued => false,
            };
            if expires {
                self.expire_order(&purchase).await?;
            } else {
                self.settle_known(&purchase).await?;
            }
        }
        Ok(())
    }

    /// Cancels unpaid orders in the database first, then updates the cache: if that fails, the next sweep updates it.
    async fn cancel_overdue(&self) -> Result<(), SaleError> {
        let now = self.now();
        let (mut stock, mut due) = self.database.overdue(now).await?;
        let mut cancelled = Vec::new();
        while !due.is_empty() {
            for id in due {
                if self.database.cancel(&id, now).await? {
                    cancelled.push(Order { id, state: OrderState::Cancelled });
                }
            }
            // `overdue` returns a limited number of orders: repeat until none is left.
            (stock, due) = self.database.overdue(now).await?;
        }
        self.cache.update_stock(stock).await?;
        for order in cancelled {
            self.settle(&order, stock).await?;
        }
        Ok(())
    }

    /// Ends an order whose reservation is [expiring](ReservationStage::Expiring), unless it has been placed. If it
    /// leaves the queue later, the consumer finds it ended. Any process may complete an expiry that another one began.
    pub(super) async fn expire_order(&self, purchase: &Purchase) -> Result<Order, SaleError> {
        self.database.insert_ended(purchase, OrderState::Expired).await?;
        let order = self.settle_known(purchase).await?;
        order.ok_or_else(|| SaleError::NoOrder { order: purchase.order_id() })
    }
}
