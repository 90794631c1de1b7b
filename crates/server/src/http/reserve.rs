//! `POST /v1/reserve` and `POST /v1/settle`: taking what a request will probably cost, and putting it right.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use sluicegate_engine::Sluice;

use super::decide;
use super::held::{Id, Kind, Registry};
use super::problem::{self, Problem};
use super::read::{Asked, Settling};
use super::render::Document;

/// What it is called in JSON.
const NAME: &str = "reservation";

/// Takes the estimate and holds it, if it is admitted.
pub(super) async fn reserve(
    sluice: &Sluice,
    held: &Arc<Registry>,
    asked: Asked<'_>,
) -> Result<Response<Full<Bytes>>, Problem> {
    let place = held.place()?;
    let outcome = decide::decide(sluice, &asked.check).await?;
    let mut document = Document::new();
    document.held(NAME, Kind::Reservation, place, outcome, asked.ttl());
    Ok(document.answer(StatusCode::OK))
}

/// Ends it with what it really cost, or as if it had never been.
pub(super) fn settle(held: &Registry, settling: &Settling<'_>) -> Result<Response<Full<Bytes>>, Problem> {
    let outcome = Id::parse(&settling.reservation).and_then(|id| held.take(id, Kind::Reservation));
    let Some(outcome) = outcome else {
        let detail = "no such reservation: it was settled, its time was up, or it never was";
        return Err(Problem::new(problem::Kind::NotHeld, detail).at("/reservation"));
    };
    let mut document = Document::new();
    document.settled(settling.actual);
    match settling.actual {
        Some(actual) => outcome.settle_request(actual),
        None => outcome.give_back(),
    }
    Ok(document.answer(StatusCode::OK))
}
