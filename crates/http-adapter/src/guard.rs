//! Request guard: the resources of an admitted request, held until its response has been sent.

use http::{HeaderMap, StatusCode};
use sluicegate_engine::Outcome;
use sluicegate_engine::overload::Completion;
use sluicegate_engine::sluice::Meters;

use crate::{CostMeter, classify_status};

/// Holds the permits and reservations of an admitted request. Dropping it releases them and settles the cost that was
/// measured or reported. A request that ends without a recorded response ends with [`Completion::Unknown`].
#[derive(Debug)]
pub struct RequestGuard {
    /// Taken on drop.
    outcome: Option<Outcome>,
    /// True if the completion class has been recorded.
    is_recorded: bool,
    cost_meter: Option<Box<CostMeter>>,
    /// Cost reported by the application.
    reported_cost: Option<u64>,
}

impl RequestGuard {
    /// Guard of an admitted request.
    pub fn new(outcome: Outcome) -> Self {
        let cost_meter = CostMeter::for_outcome(&outcome).map(Box::new);
        Self { outcome: Some(outcome), is_recorded: false, cost_meter, reported_cost: None }
    }

    /// True if a rule settles the cost that is measured on the request or its response.
    pub const fn measures_cost(&self) -> bool {
        self.cost_meter.is_some()
    }

    /// Adds bytes of the request body to the measured cost ([`CostMeter::add_request_bytes`]).
    pub fn add_request_bytes(&mut self, bytes: u64) {
        if let Some(cost_meter) = &mut self.cost_meter {
            cost_meter.add_request_bytes(bytes);
        }
    }

    /// Sets the cost that the application reports.
    pub const fn report_cost(&mut self, actual: u64) {
        self.reported_cost = Some(actual);
    }

    /// Records the status and the headers of the response.
    pub fn record_response(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.record(classify_status(status));
        if let Some(cost_meter) = &mut self.cost_meter {
            cost_meter.response_head(headers);
        }
    }

    /// Records a chunk of the response body.
    pub fn record_data(&mut self, data: &[u8]) {
        if let Some(cost_meter) = &mut self.cost_meter {
            cost_meter.response_data(data);
        }
    }

    /// Records the completion class of the request.
    pub fn record(&mut self, completion: Completion) {
        if let Some(outcome) = &mut self.outcome {
            outcome.record(completion);
            self.is_recorded = true;
        }
    }

    /// Records the completion class and leaves the overload gates ([`Outcome::leave_gates`]).
    pub fn leave_gates(&mut self, completion: Completion) {
        if let Some(outcome) = &mut self.outcome {
            outcome.leave_gates(completion);
            self.is_recorded = true;
        }
    }

    /// Bandwidth limits of the response.
    pub fn meters(&self) -> Meters {
        self.outcome.as_ref().map(Outcome::meters).unwrap_or_default()
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if !self.is_recorded {
            // The client disconnected before the response.
            self.record(Completion::Unknown);
        }
        let Some(outcome) = self.outcome.take() else { return };
        match (self.cost_meter.take(), self.reported_cost) {
            (Some(mut cost_meter), reported) => {
                if let Some(actual) = reported {
                    cost_meter.set_reported(actual);
                }
                cost_meter.settle(outcome);
            }
            (None, Some(actual)) => outcome.settle(actual),
            // The reserved cost stays charged.
            (None, None) => drop(outcome),
        }
    }
}
