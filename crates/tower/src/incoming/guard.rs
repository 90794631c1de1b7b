//! Request guard: holds permits and reservations until the response has been sent.

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response};
use sluicegate_engine::Outcome;
use sluicegate_engine::overload::Completion;
use sluicegate_engine::sluice::Meters;
use sluicegate_http_adapter::{CostMeter, classify_status};

use super::body::ActualCost;

/// An outcome that holds resources, and the measured cost of the request. Settles on drop.
#[derive(Debug)]
pub(super) struct RequestGuard {
    outcome: Option<Outcome>,
    /// True if the completion class has been recorded.
    is_recorded: bool,
    cost_meter: Option<CostMeter>,
    actual_cost: Option<ActualCost>,
}

impl RequestGuard {
    /// Guard of an admitted request with these headers.
    pub(super) fn new(outcome: Outcome, headers: &HeaderMap) -> Box<Self> {
        let mut cost_meter = CostMeter::for_outcome(&outcome);
        // The service reads the body; its length is only known if declared.
        if let (Some(meter), Some(length)) = (&mut cost_meter, content_length(headers)) {
            meter.add_request_bytes(length);
        }
        Box::new(Self { outcome: Some(outcome), is_recorded: false, cost_meter, actual_cost: None })
    }

    /// Reads the status and the cost from the service's response.
    pub(super) fn on_response<B>(&mut self, response: &Response<B>) {
        self.record(classify_status(response.status()));
        self.actual_cost = response.extensions().get().copied();
        if let Some(cost_meter) = &mut self.cost_meter {
            cost_meter.response_head(response.headers());
        }
    }

    /// Records the completion class of the request.
    pub(super) fn record(&mut self, ending: Completion) {
        if let Some(outcome) = &mut self.outcome {
            outcome.record(ending);
            self.is_recorded = true;
        }
    }

    /// Measures a chunk of the response body.
    pub(super) fn on_body_data(&mut self, data: &[u8]) {
        if let Some(cost_meter) = &mut self.cost_meter {
            cost_meter.response_data(data);
        }
    }

    /// Bandwidth limits of the response.
    pub(super) fn meters(&self) -> Meters {
        self.outcome.as_ref().map(Outcome::meters).unwrap_or_default()
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if !self.is_recorded {
            // The client did not wait for the response.
            self.record(Completion::Unknown);
        }
        let Some(outcome) = self.outcome.take() else { return };
        match (self.cost_meter.take(), self.actual_cost) {
            (Some(mut meter), reported) => {
                if let Some(ActualCost(actual)) = reported {
                    meter.set_reported(actual);
                }
                meter.settle(outcome);
            }
            (None, Some(ActualCost(actual))) => outcome.settle(actual),
            // The reserved cost stays charged.
            (None, None) => drop(outcome),
        }
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
