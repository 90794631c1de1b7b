//! Overload protection algorithms of other projects, reimplemented from their known behaviour with their
//! default constants.
//!
//! | policy | modelled on | limits |
//! |---|---|---|
//! | [`NoProtection`] | | nothing |
//! | [`Vegas`] | Netflix concurrency-limits, `VegasLimit` | concurrency, by the queue implied by min RTT |
//! | [`Gradient2`] | the same, `Gradient2Limit`, 1 s windows | concurrency, by long to short RTT ratio |
//! | [`Aimd`] | the same, `AIMDLimit` | concurrency, plus one per response, minus a tenth per timeout |
//! | [`Sentinel`] | Alibaba Sentinel, system rule | busy CPU and in flight above max throughput x min RTT |
//! | [`Kratos`] | go-kratos aegis, `bbr` | the same with slower CPU smoothing and a cool-down |
//!
//! None of them queues requests or supports classes. A response after the client timeout counts as a timeout.

mod aimd;
mod gradient2;
mod kratos;
mod sentinel;
mod vegas;

use std::collections::HashMap;

pub use aimd::Aimd;
pub use gradient2::Gradient2;
pub use kratos::Kratos;
pub use sentinel::Sentinel;
pub use vegas::Vegas;

use super::{AdmissionPolicy, Class, PolicyDecision};

/// Admits every request.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProtection;

impl AdmissionPolicy for NoProtection {
    fn on_arrival(&mut self, _: u64, _: u32, _: Class) -> PolicyDecision {
        PolicyDecision::Admit
    }

    fn on_complete(&mut self, _: u64, _: u32, _: u64, _: bool) {}
}

/// In-flight requests, with the number in flight at each admission (itself included).
#[derive(Clone, Debug, Default)]
struct InFlightTracker(HashMap<u32, usize>);

impl InFlightTracker {
    fn len(&self) -> usize {
        self.0.len()
    }

    /// Admits a request if fewer than `limit` are in flight.
    fn admit_below(&mut self, id: u32, limit: f64) -> PolicyDecision {
        if self.len() as f64 + 1.0 > limit.max(1.0) {
            return PolicyDecision::Refuse;
        }
        self.0.insert(id, self.len() + 1);
        PolicyDecision::Admit
    }

    /// Removes a completed request and returns the number in flight at its admission.
    fn complete(&mut self, id: u32) -> usize {
        self.0.remove(&id).unwrap_or(1)
    }
}
