//! Decides RLS requests, without waiting if possible.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::time::Timestamp;

use super::RlsState;
use super::bad_request::BadRequest;
use super::proto::{RateLimitRequest, RateLimitResponse};
use super::request::RlsRequest;
use super::response::RlsResponse;

/// Result of starting a decision.
pub(super) enum DecideResult {
    /// The response.
    Ready(RateLimitResponse),
    /// Waits for the store, a delay, or a refund.
    Pending(PendingDecision),
}

/// A request whose response is pending.
pub(super) struct PendingDecision {
    request: RlsRequest,
    deadline: Option<Timestamp>,
}

/// Decides a validated request. `deadline` is the client's.
pub(super) fn decide(
    rls: &Arc<RlsState>,
    request: RateLimitRequest,
    deadline: Option<Timestamp>,
) -> Result<DecideResult, BadRequest> {
    let request = RlsRequest::open(rls, request)?;
    if request.is_decided() {
        let response = RlsResponse::new(&request, &rls.renderer, rls.time_left(deadline));
        if response.delay.is_zero() {
            request.finish(&response);
            return Ok(DecideResult::Ready(response.response));
        }
    }
    Ok(DecideResult::Pending(PendingDecision { request, deadline }))
}

impl PendingDecision {
    /// Waits for the response. If dropped, everything is given back.
    pub(super) async fn wait(self) -> Result<RateLimitResponse, BadRequest> {
        let Self { mut request, deadline } = self;
        let rls = Arc::clone(&request.rls);
        request.wait_for_store().await;
        let max_delay = rls.time_left(deadline);
        let mut response = RlsResponse::new(&request, &rls.renderer, max_delay);
        if !response.delay.is_zero() {
            rls.sluice.clock().sleep(response.delay).await;
        }
        // Last, as it cannot be undone. With the same maximum delay, so that no further check times out.
        if request.has_refunds() {
            request.give_back(!response.is_admitted)?;
            request.wait_for_store().await;
            response = RlsResponse::new(&request, &rls.renderer, max_delay);
        }
        request.finish(&response);
        Ok(response.response)
    }
}

impl RlsState {
    /// Time until the client's deadline.
    fn time_left(&self, deadline: Option<Timestamp>) -> Option<Duration> {
        deadline.map(|until| until.saturating_since(self.sluice.clock().now()))
    }
}
