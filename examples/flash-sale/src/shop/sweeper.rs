//! The sweeper: what nobody wants any more goes back on sale.

use std::time::Duration;

use super::{Shop, milliseconds};
use crate::error::SaleError;
use crate::order::{Purchase, State};

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

    /// Gives back items that were not paid in time, and reservations whose order never got into the queue. Several
    /// processes may do so at once: the database lets each order end once.
    pub async fn sweep(&self) -> Result<(), SaleError> {
        let now = self.now();
        for id in self.database.due(now).await? {
            let Some(stock) = self.database.cancel(&id, now).await? else { continue };
            if let Ok(purchase) = Purchase::of_order(&id) {
                self.cache.settled(&purchase, false, stock).await?;
            }
        }
        let stale = now.saturating_sub(milliseconds(self.reservation_window));
        for reservation in self.cache.reservations().await? {
            if reservation.since.is_some_and(|since| since <= stale) {
                // If its order comes after all, it finds that it has ended.
                self.database.write_ended(&reservation.purchase, State::Expired).await?;
                self.settle_known(&reservation.purchase).await?;
            }
        }
        Ok(())
    }
}
