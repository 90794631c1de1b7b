//! Deadline for the start of a response.
//!
//! The server's time starts when it has received the whole request. While the client is still sending, the body
//! timeout applies, so an upload may take as long as its parts arrive in time. A deadline that is reached is
//! therefore extended if parts have arrived meanwhile, or if the next one is awaited from the client.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_net::LazyTimer;

use crate::request_body::BodyStatus;

/// Deadline for the head of a response.
pub(crate) struct ResponseDeadline {
    at: Timestamp,
    timeout: Duration,
    /// Status of the request body, if there is one.
    body_status: Option<Arc<BodyStatus>>,
    /// Bytes forwarded at the last check.
    bytes_seen: u64,
}

impl ResponseDeadline {
    /// A deadline `timeout` after now, or after the request body has arrived.
    pub(crate) fn new(now: Timestamp, timeout: Duration, body_status: Option<Arc<BodyStatus>>) -> Self {
        Self { at: now + timeout, timeout, body_status, bytes_seen: 0 }
    }

    /// The current deadline.
    pub(crate) const fn at(&self) -> Timestamp {
        self.at
    }

    /// True if the client caused the failure.
    pub(crate) fn is_client_error(&self) -> bool {
        self.body_status.as_ref().is_some_and(|body_status| body_status.is_client_error())
    }

    /// Ready once the deadline has passed.
    pub(crate) fn poll_expired(&mut self, timer: &mut LazyTimer, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(timer.poll_due(self.at, context));
            let Some(status) = &self.body_status else { return Poll::Ready(()) };
            let before = std::mem::replace(&mut self.bytes_seen, status.bytes());
            if self.bytes_seen == before && !status.is_waiting_for_client() {
                return Poll::Ready(());
            }
            self.at = timer.now() + self.timeout;
        }
    }
}
