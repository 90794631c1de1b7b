//! Brings the store back: connects, probes, and closes the breaker.

use std::sync::Arc;
use std::time::Instant;

use tokio::time::sleep;

use super::batch::Batch;
use super::jitter;
use super::shared::Shared;
use crate::error::{StoreError, Weight};
use crate::link::Alarm;

impl<B: Batch> Shared<B> {
    /// Makes the first connection, then mends it whenever the breaker opens. One attempt at a time.
    pub(super) async fn recover(self: Arc<Self>) {
        let weak = self.this.clone();
        let alarm: Alarm = Arc::new(move |error: &StoreError| {
            if let Some(shared) = weak.upgrade() {
                shared.failed(error);
            }
        });
        if let Err(error) = self.first(&alarm).await {
            self.failed_with(&error, Weight::Decides);
        }
        loop {
            self.opened.notified().await;
            let mut attempt = 0;
            while self.is_degraded() {
                sleep(jitter::wait(attempt, jitter::random())).await;
                match self.attempt(attempt, &alarm).await {
                    Ok(sent) => self.recovered(sent),
                    Err(error) => self.counters.failed(&error),
                }
                attempt = attempt.saturating_add(1);
            }
        }
    }

    async fn first(&self, alarm: &Alarm) -> Result<(), StoreError> {
        self.link.connect(alarm).await?;
        // Nobody waits for this one alone, so it may take longer than a decision.
        let sent = Instant::now();
        self.probe(sent + self.deadline.saturating_mul(10)).await?;
        self.recovered(sent);
        Ok(())
    }

    /// Probes over the connection there is; if that is lost or stays silent, over a new one. When the probe that
    /// passed was sent.
    async fn attempt(&self, attempt: u32, alarm: &Alarm) -> Result<Instant, StoreError> {
        if attempt > 0 || !self.link.is_up() {
            self.link.connect(alarm).await?;
        }
        let sent = Instant::now();
        self.probe(sent + self.deadline).await?;
        Ok(sent)
    }
}
