//! `/v1/permits`: leave to work, given back when it is done or its time is up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use sluicegate_engine::{Outcome, Sluice};

use super::decide;
use super::held::{Id, Kind, Registry};
use super::problem::{self, Problem};
use super::read::{Asked, Check};
use super::render::Document;

/// What it is called in JSON.
const NAME: &str = "permit";

/// Acquires a permit, waiting for it as long as was said. Dropped meanwhile, it leaves the line.
pub(super) async fn acquire(
    sluice: &Sluice,
    held: &Arc<Registry>,
    asked: Asked<'_>,
) -> Result<Response<Full<Bytes>>, Problem> {
    let place = held.place()?;
    let outcome = match asked.wait {
        Duration::ZERO => decide::decide(sluice, &asked.check).await?,
        longest => wait(sluice, &asked.check, longest).await?,
    };
    let mut document = Document::new();
    let kept = document.held(NAME, Kind::Permit, place, outcome, asked.ttl());
    let Some(id) = kept else { return Ok(document.answer(StatusCode::OK)) };
    let mut answer = document.answer(StatusCode::CREATED);
    if let Ok(location) = HeaderValue::try_from(format!("/v1/permits/{id}")) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    Ok(answer)
}

/// Stands in line for so long. Then it is decided at once: by those who stand in line still, if by nothing else.
async fn wait(sluice: &Sluice, check: &Check<'_>, longest: Duration) -> Result<Outcome, Problem> {
    let mut admission = decide::admit(sluice, check)?;
    let outcome = match admission.take() {
        Some(outcome) => outcome,
        None => tokio::select! {
            biased;
            outcome = &mut admission => outcome,
            () = sluice.clock().sleep(longest) => {
                drop(admission);
                return decide::decide(sluice, check).await;
            }
        },
    };
    decide::countable(&outcome, check)?;
    Ok(outcome)
}

/// Holds a permit on.
pub(super) fn renew(held: &Registry, id: &str, ttl: Option<Duration>) -> Result<Response<Full<Bytes>>, Problem> {
    let kept = Id::parse(id).and_then(|id| held.renew(id, ttl)).ok_or_else(gone)?;
    let mut document = Document::new();
    document.renewed(NAME, kept);
    Ok(document.answer(StatusCode::OK))
}

/// Gives a permit back.
pub(super) fn release(held: &Registry, id: &str) -> Result<Response<Full<Bytes>>, Problem> {
    drop(Id::parse(id).and_then(|id| held.take(id, Kind::Permit)).ok_or_else(gone)?);
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    Ok(answer)
}

fn gone() -> Problem {
    Problem::new(problem::Kind::NotHeld, "no such permit: it was released, its time was up, or it never was")
}
