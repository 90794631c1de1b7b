//! Recovery: connects, probes, and closes the breaker.

use std::sync::Arc;
use std::time::Instant;

use tokio::time::sleep;

use super::batch::Batch;
use super::jitter;
use super::state::StoreClientState;
use crate::connection::OnDisconnect;
use crate::error::{BreakerEffect, StoreError};

impl<B: Batch> StoreClientState<B> {
    /// Makes the first connection, then reconnects whenever the breaker opens. One attempt at a time.
    pub(super) async fn recover(self: Arc<Self>) {
        let weak = self.this.clone();
        let on_disconnect: OnDisconnect = Arc::new(move |error: &StoreError| {
            if let Some(shared) = weak.upgrade() {
                shared.record_failure(error);
            }
        });
        if let Err(error) = self.connect_first(&on_disconnect).await {
            self.record_failure_as(&error, BreakerEffect::Trip);
        }
        loop {
            self.breaker_opened.notified().await;
            let mut attempt = 0;
            while self.is_degraded() {
                sleep(jitter::backoff(attempt)).await;
                match self.reconnect(attempt, &on_disconnect).await {
                    Ok(sent) => self.close_breaker(sent),
                    Err(error) => self.counters.record_failure(&error),
                }
                attempt = attempt.saturating_add(1);
            }
        }
    }

    async fn connect_first(&self, on_disconnect: &OnDisconnect) -> Result<(), StoreError> {
        self.connection.connect(on_disconnect).await?;
        // No caller waits for this probe, so it may take longer than a decision.
        let sent = Instant::now();
        self.probe(sent + self.deadline.saturating_mul(10)).await?;
        self.close_breaker(sent);
        Ok(())
    }

    /// Probes over the current connection, or over a new one if that is lost or silent. Returns the send time
    /// of the successful probe.
    async fn reconnect(&self, attempt: u32, on_disconnect: &OnDisconnect) -> Result<Instant, StoreError> {
        if attempt > 0 || !self.connection.is_up() {
            self.connection.connect(on_disconnect).await?;
        }
        let sent = Instant::now();
        self.probe(sent + self.deadline).await?;
        Ok(sent)
    }
}
