//! `POST /v1/check`: decides one check or a list.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use sluicegate_engine::sluice::Admission;
use sluicegate_engine::{Outcome, Sluice};

use super::decide;
use super::decode::{ApiRequest, CheckRequest};
use super::problem::Problem;
use super::render::JsonDocument;

/// Handles one check or a list of checks.
pub(super) async fn handle(sluice: &Sluice, request: ApiRequest<'_>) -> Result<Response<Full<Bytes>>, Problem> {
    let mut document = JsonDocument::new();
    match (request.checks.as_slice(), request.all_or_nothing) {
        ([], _) => document.decision(&decide::decide(sluice, &request.check).await?),
        (checks, false) => decide_each(sluice, checks, &mut document).await?,
        (checks, true) => decide_all_or_nothing(sluice, checks, &mut document).await?,
    }
    Ok(document.into_response(StatusCode::OK))
}

/// Pending and decided checks; if dropped before the commit, their tokens are given back.
#[derive(Default)]
struct UncommittedChecks {
    pending: Vec<Admission>,
    decided: Vec<Outcome>,
}

impl UncommittedChecks {
    /// Keeps the tokens taken.
    fn commit(mut self) {
        self.decided.clear();
    }
}

impl Drop for UncommittedChecks {
    fn drop(&mut self) {
        // Admissions still waiting for the store give back by themselves. Reverse order: a bucket only gives back the
        // most recent take.
        let ready = self.pending.iter_mut().filter_map(Admission::take);
        self.decided.drain(..).chain(ready).rev().for_each(Outcome::give_back);
    }
}

/// Decides each check independently. Permits they take count until all are decided.
async fn decide_each(sluice: &Sluice, checks: &[CheckRequest<'_>], document: &mut JsonDocument) -> Result<(), Problem> {
    let mut uncommitted = UncommittedChecks::default();
    // All checks start before the first is awaited, so that the store receives them together.
    for (index, check) in checks.iter().enumerate() {
        uncommitted
            .pending
            .push(decide::check_now(sluice, check).map_err(|problem| problem.within(&format!("/checks/{index}")))?);
    }
    for (index, check) in checks.iter().enumerate() {
        let outcome = match uncommitted.pending[index].take() {
            Some(outcome) => outcome,
            None => (&mut uncommitted.pending[index]).await,
        };
        let has_key = decide::require_key(&outcome, check);
        uncommitted.decided.push(outcome);
        has_key.map_err(|problem| problem.within(&format!("/checks/{index}")))?;
    }
    let allowed = uncommitted.decided.iter().all(Outcome::is_admitted);
    document.results(allowed, None, &uncommitted.decided);
    uncommitted.commit();
    Ok(())
}

/// Decides all checks as one, in order, until one is refused.
async fn decide_all_or_nothing(
    sluice: &Sluice,
    checks: &[CheckRequest<'_>],
    document: &mut JsonDocument,
) -> Result<(), Problem> {
    let mut uncommitted = UncommittedChecks::default();
    for (index, check) in checks.iter().enumerate() {
        let outcome =
            decide::decide(sluice, check).await.map_err(|problem| problem.within(&format!("/checks/{index}")))?;
        let admitted = outcome.is_admitted();
        uncommitted.decided.push(outcome);
        if !admitted {
            document.results(false, Some(index), &uncommitted.decided);
            return Ok(());
        }
    }
    document.results(true, None, &uncommitted.decided);
    uncommitted.commit();
    Ok(())
}
