//! AIMD concurrency limit: additive increase, multiplicative decrease.

use super::InFlightTracker;
use crate::overload::{AdmissionPolicy, Class, PolicyDecision, SECOND};

/// Raises the limit by one per response while at least half of it is in use; lowers it by a tenth per
/// timeout.
#[derive(Clone, Debug)]
pub struct Aimd {
    in_flight: InFlightTracker,
    limit: f64,
}

impl Default for Aimd {
    fn default() -> Self {
        Self { in_flight: InFlightTracker::default(), limit: 20.0 }
    }
}

impl Aimd {
    const MIN_LIMIT: f64 = 20.0;
    const MAX_LIMIT: f64 = 200.0;
    const TIMEOUT: u64 = 5 * SECOND;
}

impl AdmissionPolicy for Aimd {
    fn on_arrival(&mut self, _: u64, id: u32, _: Class) -> PolicyDecision {
        self.in_flight.admit_below(id, self.limit)
    }

    fn on_complete(&mut self, _: u64, id: u32, elapsed: u64, in_time: bool) {
        let in_flight = self.in_flight.complete(id);
        if !in_time || elapsed > Self::TIMEOUT {
            self.limit = (self.limit * 0.9).floor();
        } else if in_flight as f64 * 2.0 >= self.limit {
            self.limit += 1.0;
        }
        self.limit = self.limit.clamp(Self::MIN_LIMIT, Self::MAX_LIMIT);
    }

    fn limit(&self) -> Option<f64> {
        Some(self.limit)
    }
}
