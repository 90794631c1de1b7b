//! Vegas concurrency limit, modelled on TCP Vegas.

use super::InFlightTracker;
use crate::overload::{AdmissionPolicy, Class, PolicyDecision};
use crate::random::SplitMix64;

/// Keeps the queue implied by the minimum RTT between two bounds.
///
/// Per response: queue = limit x (1 - min RTT / RTT). The limit rises while the queue is short and falls
/// while it is long, in steps that grow with the logarithm of the limit. A periodic probe replaces the
/// minimum RTT with the next sample.
#[derive(Clone, Debug)]
pub struct Vegas {
    in_flight: InFlightTracker,
    limit: f64,
    min_rtt: f64,
    samples: f64,
    next_probe: f64,
    random: SplitMix64,
}

impl Default for Vegas {
    fn default() -> Self {
        let in_flight = InFlightTracker::default();
        Self { in_flight, limit: 20.0, min_rtt: 0.0, samples: 0.0, next_probe: 0.75, random: SplitMix64::new(1) }
    }
}

impl Vegas {
    const MAX_LIMIT: f64 = 1_000.0;
    const PROBE_MULTIPLIER: f64 = 30.0;

    fn update_limit(&mut self, rtt: f64, in_flight: usize, timed_out: bool) {
        self.samples += 1.0;
        let probes = self.samples >= self.next_probe * Self::PROBE_MULTIPLIER * self.limit;
        if probes {
            self.next_probe = 0.5 + self.random.below(1_000) as f64 / 2_000.0;
            self.samples = 0.0;
        }
        if probes || self.min_rtt == 0.0 || rtt < self.min_rtt {
            self.min_rtt = rtt;
            return;
        }
        let queue = (self.limit * (1.0 - self.min_rtt / rtt)).ceil();
        let step = if self.limit < 100.0 { 1.0 } else { (self.limit.floor().log10() + 1e-9).floor() };
        let change = if timed_out {
            -step
        } else if (in_flight as f64) * 2.0 < self.limit {
            0.0
        } else if queue <= step {
            6.0 * step
        } else if queue < 3.0 * step {
            step
        } else if queue > 6.0 * step {
            -step
        } else {
            0.0
        };
        self.limit = (self.limit + change).clamp(1.0, Self::MAX_LIMIT);
    }
}

impl AdmissionPolicy for Vegas {
    fn on_arrival(&mut self, _: u64, id: u32, _: Class) -> PolicyDecision {
        self.in_flight.admit_below(id, self.limit.floor())
    }

    fn on_complete(&mut self, _: u64, id: u32, elapsed: u64, in_time: bool) {
        let in_flight = self.in_flight.complete(id);
        self.update_limit(elapsed.max(1) as f64, in_flight, !in_time);
    }

    fn limit(&self) -> Option<f64> {
        Some(self.limit)
    }
}
