//! `/v1/permits`: concurrency permits, released by the client or on expiry.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use sluicegate_engine::{Outcome, Sluice};

use super::decide;
use super::decode::{ApiRequest, CheckRequest};
use super::problem::{self, Problem};
use super::render::JsonDocument;
use super::reservations::{ReservationId, ReservationKind, ReservationStore};

/// Acquires a permit, waiting up to the requested time. Dropping the future leaves the queue.
pub(super) async fn acquire(
    sluice: &Sluice,
    reservations: &Arc<ReservationStore>,
    request: ApiRequest<'_>,
) -> Result<Response<Full<Bytes>>, Problem> {
    let slot = reservations.reserve_slot()?;
    let outcome = match request.wait {
        Duration::ZERO => decide::decide(sluice, &request.check).await?,
        max_wait => wait_for_permit(sluice, &request.check, max_wait).await?,
    };
    let mut document = JsonDocument::new();
    let permit = document.decision_with_reservation(ReservationKind::Permit, slot, outcome, request.ttl());
    let Some(id) = permit else { return Ok(document.into_response(StatusCode::OK)) };
    let mut response = document.into_response(StatusCode::CREATED);
    if let Ok(location) = HeaderValue::try_from(format!("/v1/permits/{id}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Queues for at most `max_wait`, then decides without queueing: the requests still queued are counted against
/// it.
async fn wait_for_permit(sluice: &Sluice, check: &CheckRequest<'_>, max_wait: Duration) -> Result<Outcome, Problem> {
    let mut admission = decide::admit(sluice, check)?;
    let outcome = match admission.take() {
        Some(outcome) => outcome,
        None => tokio::select! {
            biased;
            outcome = &mut admission => outcome,
            () = sluice.clock().sleep(max_wait) => {
                drop(admission);
                return decide::decide(sluice, check).await;
            }
        },
    };
    decide::require_key(&outcome, check)?;
    Ok(outcome)
}

/// Renews a permit.
pub(super) fn renew(
    reservations: &ReservationStore,
    id: &str,
    ttl: Option<Duration>,
) -> Result<Response<Full<Bytes>>, Problem> {
    let permit = ReservationId::parse(id).and_then(|id| reservations.renew(id, ttl)).ok_or_else(unknown_permit)?;
    let mut document = JsonDocument::new();
    document.renewed(permit);
    Ok(document.into_response(StatusCode::OK))
}

/// Releases a permit.
pub(super) fn release(reservations: &ReservationStore, id: &str) -> Result<Response<Full<Bytes>>, Problem> {
    drop(
        ReservationId::parse(id)
            .and_then(|id| reservations.take(id, ReservationKind::Permit))
            .ok_or_else(unknown_permit)?,
    );
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

fn unknown_permit() -> Problem {
    Problem::new(
        problem::ApiErrorKind::UnknownReservation,
        "unknown permit: it was released, has expired or never existed",
    )
}
