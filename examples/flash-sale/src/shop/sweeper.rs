//! The sweeper: what nobody wants any more goes back on sale.

use std::time::Duration;

use super::{Shop, milliseconds};
use crate::cache::{Reservation, Stage};
use crate::error::SaleError;
use crate::order::{Order, Purchase, State};

/// The shortest and longest time between two rounds.
const ROUNDS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

impl Shop {
    /// Sweeps every now and then, for ever.
    pub async fn sweep_for_ever(self) {
        let [shortest, longest] = ROUNDS;
        let every = (self.payment_window.min(self.reservation_window) / 4).clamp(shortest, longest);
        loop {
            self.clock.sleep(every).await;
            if let Err(error) = self.sweep().await {
                tracing::warn!("not everything could be given back: {error}");
            }
        }
    }

    /// Gives back items that were not paid in time, and reservations whose order never got into the queue. And puts right
    /// what the cache did not hear because it, or whoever had to tell it, was away. Several processes may do so at once:
    /// the database lets each order end once.
    pub async fn sweep(&self) -> Result<(), SaleError> {
        self.cancel_due().await?;
        let stale = self.now().saturating_sub(milliseconds(self.reservation_window));
        for Reservation { purchase, stage } in self.cache.reservations().await? {
            let ends = match stage {
                Stage::Ending => true,
                // What was read may be old by now: the cache itself decides whether it still is so.
                Stage::Since(since) => since <= stale && self.cache.begin_end(&purchase, stale).await?,
                Stage::Queued => false,
            };
            if ends {
                self.expire(&purchase).await?;
            } else {
                self.settle_known(&purchase).await?;
            }
        }
        Ok(())
    }

    /// First all in the database, then the cache: if that is away, the next round tells it the stock.
    async fn cancel_due(&self) -> Result<(), SaleError> {
        let now = self.now();
        let (mut stock, mut due) = self.database.due(now).await?;
        let mut cancelled = Vec::new();
        while !due.is_empty() {
            for id in due {
                if self.database.cancel(&id, now).await? {
                    cancelled.push(Order { id, state: State::Cancelled });
                }
            }
            // None of these is due again. There may be more than are read at once.
            (stock, due) = self.database.due(now).await?;
        }
        self.cache.seen(stock).await?;
        for order in cancelled {
            self.settle(&order, stock).await?;
        }
        Ok(())
    }

    /// Ends an order whose reservation is [ending](Stage::Ending), unless it has been placed. If it comes out of the queue
    /// later, it finds that it has ended. Whoever began this may be gone: anybody may go on with it.
    pub(super) async fn expire(&self, purchase: &Purchase) -> Result<Order, SaleError> {
        self.database.write_ended(purchase, State::Expired).await?;
        let order = self.settle_known(purchase).await?;
        order.ok_or_else(|| SaleError::NoOrder { order: purchase.order() })
    }
}
