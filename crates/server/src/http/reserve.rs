//! `POST /v1/reserve` and `POST /v1/settle`: reserve an estimated cost, then settle it to the actual cost.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use sluicegate_engine::Sluice;

use super::decide;
use super::decode::{ApiRequest, Settlement};
use super::problem::{self, Problem};
use super::render::JsonDocument;
use super::reservations::{ReservationId, ReservationKind, ReservationStore};

/// Takes the estimated cost and stores the reservation, if admitted.
pub(super) async fn reserve(
    sluice: &Sluice,
    reservations: &Arc<ReservationStore>,
    request: ApiRequest<'_>,
) -> Result<Response<Full<Bytes>>, Problem> {
    let slot = reservations.reserve_slot()?;
    let outcome = decide::decide(sluice, &request.check).await?;
    let mut document = JsonDocument::new();
    document.decision_with_reservation(ReservationKind::Reservation, slot, outcome, request.ttl());
    Ok(document.into_response(StatusCode::OK))
}

/// Ends a reservation with its actual cost, or cancels it.
pub(super) fn settle(
    reservations: &ReservationStore,
    settlement: &Settlement<'_>,
) -> Result<Response<Full<Bytes>>, Problem> {
    let outcome = ReservationId::parse(&settlement.reservation)
        .and_then(|id| reservations.take(id, ReservationKind::Reservation));
    let Some(outcome) = outcome else {
        let detail = "unknown reservation: it was settled, has expired or never existed";
        return Err(Problem::new(problem::ApiErrorKind::UnknownReservation, detail).at("/reservation"));
    };
    let mut document = JsonDocument::new();
    document.settled(settlement.actual);
    match settlement.actual {
        Some(actual) => outcome.settle_request(actual),
        None => outcome.give_back(),
    }
    Ok(document.into_response(StatusCode::OK))
}
