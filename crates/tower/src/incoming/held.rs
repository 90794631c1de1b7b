//! What a request holds until its answer has been sent.

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response};
use sluicegate_engine::Outcome;
use sluicegate_engine::gate::Ending;
use sluicegate_engine::sluice::Meters;
use sluicegate_http::{Tally, ending_of};

use super::body::ActualCost;

/// An outcome that must be kept, and what has been seen of the request's cost. Dropping it settles.
#[derive(Debug)]
pub(super) struct Held {
    outcome: Option<Outcome>,
    /// Whether its rules know how it went.
    is_noted: bool,
    tally: Option<Tally>,
    told: Option<ActualCost>,
}

impl Held {
    /// Of an admitted request with these headers.
    pub(super) fn of(outcome: Outcome, headers: &HeaderMap) -> Box<Self> {
        let mut tally = Tally::of(&outcome);
        // The body is the service's to read; how long it is, is only known if it was said.
        if let (Some(tally), Some(length)) = (&mut tally, length(headers)) {
            tally.sent(length);
        }
        Box::new(Self { outcome: Some(outcome), is_noted: false, tally, told: None })
    }

    /// The service has answered.
    pub(super) fn answered<B>(&mut self, answer: &Response<B>) {
        self.note(ending_of(answer.status()));
        self.told = answer.extensions().get().copied();
        if let Some(tally) = &mut self.tally {
            tally.answered(answer.headers());
        }
    }

    /// Notes how the request went.
    pub(super) fn note(&mut self, ending: Ending) {
        if let Some(outcome) = &mut self.outcome {
            outcome.note(ending);
            self.is_noted = true;
        }
    }

    /// A piece of the answer's body has passed.
    pub(super) fn received(&mut self, data: &[u8]) {
        if let Some(tally) = &mut self.tally {
            tally.received(data);
        }
    }

    /// What paces the answer.
    pub(super) fn meters(&self) -> Meters {
        self.outcome.as_ref().map(Outcome::meters).unwrap_or_default()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_noted {
            // Nobody waited for the answer.
            self.note(Ending::Unknown);
        }
        let Some(outcome) = self.outcome.take() else { return };
        match (self.tally.take(), self.told) {
            (Some(mut tally), told) => {
                if let Some(ActualCost(actual)) = told {
                    tally.told(actual);
                }
                tally.settle(outcome);
            }
            (None, Some(ActualCost(actual))) => outcome.settle(actual),
            // What was reserved stands.
            (None, None) => drop(outcome),
        }
    }
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
