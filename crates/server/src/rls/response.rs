//! RLS response: combines the results of all descriptors.

use std::time::Duration;

use prost_types::Struct;
use sluicegate_engine::Outcome;
use sluicegate_http_adapter::Renderer;
use smallvec::SmallVec;

use super::descriptor_check::DescriptorCheck;
use super::descriptor_status::DescriptorResult;
use super::headers::ResponseOverrides;
use super::metadata;
use super::proto::{Code, RateLimitResponse};
use super::request::RlsRequest;

/// A response and the delay before it is sent.
pub(super) struct RlsResponse {
    pub(super) response: RateLimitResponse,
    /// True if the request is admitted.
    pub(super) is_admitted: bool,
    /// Delay before the response is sent.
    pub(super) delay: Duration,
    /// Indexes of the checks whose delay exceeds the client's deadline.
    pub(super) timed_out: Vec<usize>,
}

impl RlsResponse {
    /// Builds the response of a decided request. `max_delay` is the time until the client's deadline.
    pub(super) fn new(request: &RlsRequest, renderer: &Renderer, max_delay: Option<Duration>) -> Self {
        let results: SmallVec<[DescriptorResult<'_>; 2]> =
            request.checks.iter().map(|check| DescriptorResult::new(check, max_delay)).collect();
        let is_admitted = !results.iter().any(|result| result.refuses_request);
        let delay = if is_admitted { results.iter().map(DescriptorResult::delay).max() } else { None };
        let is_timed_out = |(check, result): (&DescriptorCheck, &DescriptorResult<'_>)| {
            check.outcome().is_some_and(Outcome::is_admitted) && !result.verdict.is_admitted()
        };
        let timed_out = request.checks.iter().zip(&results).map(is_timed_out);
        let timed_out =
            timed_out.enumerate().filter(|(_, is_timed_out)| *is_timed_out).map(|(index, _)| index).collect();
        let decisive = results
            .iter()
            // An exhausted quota is not reported to the client while the request proceeds.
            .filter(|result| if is_admitted { result.verdict.is_admitted() } else { result.refuses_request })
            .filter(|result| result.has_decision())
            // Shadow limits have the lowest priority.
            .min_by_key(|result| (result.verdict.is_admitted(), result.shadow, result.remaining));
        let ResponseOverrides { headers, body } =
            decisive.map(|decisive| ResponseOverrides::new(renderer, decisive)).unwrap_or_default();
        let mut fields = decisive.map(metadata::decision_fields).unwrap_or_default();
        metadata::add_configured(&mut fields, &request.request, &request.checks, &results);
        let response = RateLimitResponse {
            overall_code: if is_admitted { Code::Ok } else { Code::OverLimit }.into(),
            statuses: results.into_iter().map(DescriptorResult::into_status).collect(),
            response_headers_to_add: headers,
            request_headers_to_add: Vec::new(),
            raw_body: body,
            dynamic_metadata: (!fields.is_empty()).then_some(Struct { fields }),
        };
        Self { response, is_admitted, delay: delay.unwrap_or_default(), timed_out }
    }
}
