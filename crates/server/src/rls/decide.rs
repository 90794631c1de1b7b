//! Deciding a request, at once where nothing is waited for.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::time::Timestamp;

use super::Shared;
use super::answer::Answer;
use super::bad_request::BadRequest;
use super::case::Case;
use super::proto::{RateLimitRequest, RateLimitResponse};

/// A request that was asked about.
pub(super) enum Decided {
    /// The answer.
    Now(RateLimitResponse),
    /// The store, a pause or hits that go back come first.
    Later(Later),
}

/// A request whose answer takes a while.
pub(super) struct Later {
    case: Case,
    until: Option<Timestamp>,
}

/// Asks about a checked request. `until` is when its client stops waiting.
pub(super) fn decide(
    rls: &Arc<Shared>,
    request: RateLimitRequest,
    until: Option<Timestamp>,
) -> Result<Decided, BadRequest> {
    let case = Case::open(rls, request)?;
    if case.is_settled() {
        let answer = Answer::to(&case, &rls.renderer, rls.patience(until));
        if answer.pause.is_zero() {
            case.end(&answer);
            return Ok(Decided::Now(answer.response));
        }
    }
    Ok(Decided::Later(Later { case, until }))
}

impl Later {
    /// The answer, when it is due. Dropped before, everything goes back.
    pub(super) async fn answer(self) -> Result<RateLimitResponse, BadRequest> {
        let Self { mut case, until } = self;
        let rls = Arc::clone(&case.rls);
        case.settle().await;
        let patience = rls.patience(until);
        let mut answer = Answer::to(&case, &rls.renderer, patience);
        if !answer.pause.is_zero() {
            rls.sluice.clock().sleep(answer.pause).await;
        }
        // Last, as it cannot be undone. By the same patience, so that nothing is late now that was not before.
        if case.has_returns() {
            case.give_back(!answer.is_admitted)?;
            case.settle().await;
            answer = Answer::to(&case, &rls.renderer, patience);
        }
        case.end(&answer);
        Ok(answer.response)
    }
}

impl Shared {
    /// How long a client waits that does so until then.
    fn patience(&self, until: Option<Timestamp>) -> Option<Duration> {
        until.map(|until| until.saturating_since(self.sluice.clock().now()))
    }
}
