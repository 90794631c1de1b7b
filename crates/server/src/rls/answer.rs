//! What is answered to a request: everything that its claims say, put together.

use std::time::Duration;

use prost_types::Struct;
use sluicegate_engine::Outcome;
use sluicegate_http::Renderer;
use smallvec::SmallVec;

use super::case::Case;
use super::claim::Claim;
use super::headers::Told;
use super::metadata;
use super::proto::{Code, RateLimitResponse};
use super::standing::Standing;

/// An answer, and what comes before it is sent.
pub(super) struct Answer {
    pub(super) response: RateLimitResponse,
    /// Whether the request is admitted.
    pub(super) is_admitted: bool,
    /// How long the answer is held.
    pub(super) pause: Duration,
    /// The claims that would have had to pause for too long, by position.
    pub(super) late: Vec<usize>,
}

impl Answer {
    /// To a case that is settled. `patience` is how long its client waits.
    pub(super) fn to(case: &Case, renderer: &Renderer, patience: Option<Duration>) -> Self {
        let standings: SmallVec<[Standing<'_>; 2]> =
            case.claims.iter().map(|claim| Standing::of(claim, patience)).collect();
        let is_admitted = !standings.iter().any(|standing| standing.refuses);
        let pause = if is_admitted { standings.iter().map(Standing::pause).max() } else { None };
        let is_late = |(claim, standing): (&Claim, &Standing<'_>)| {
            claim.outcome().is_some_and(Outcome::is_admitted) && !standing.verdict.is_admitted()
        };
        let lateness = case.claims.iter().zip(&standings).map(is_late);
        let late = lateness.enumerate().filter(|(_, is_late)| *is_late).map(|(index, _)| index).collect();
        let decisive = standings
            .iter()
            // A quota that is used up is none of the client's business while the request goes on.
            .filter(|standing| if is_admitted { standing.verdict.is_admitted() } else { standing.refuses })
            .filter(|standing| standing.is_told())
            // What only watches has least to say.
            .min_by_key(|standing| (standing.verdict.is_admitted(), standing.shadow, standing.remaining));
        let Told { headers, body } = decisive.map(|decisive| Told::of(renderer, decisive)).unwrap_or_default();
        let mut fields = decisive.map(metadata::decided).unwrap_or_default();
        metadata::configured(&mut fields, &case.request, &case.claims, &standings);
        let response = RateLimitResponse {
            overall_code: if is_admitted { Code::Ok } else { Code::OverLimit }.into(),
            statuses: standings.into_iter().map(Standing::into_status).collect(),
            response_headers_to_add: headers,
            request_headers_to_add: Vec::new(),
            raw_body: body,
            dynamic_metadata: (!fields.is_empty()).then_some(Struct { fields }),
        };
        Self { response, is_admitted, pause: pause.unwrap_or_default(), late }
    }
}
