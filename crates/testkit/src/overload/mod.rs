//! Discrete-event simulator of overload: arrivals, an admission policy and a server, in virtual time.
//!
//! Overload protection can only be judged by its results, and a comparison requires that every policy sees
//! the same requests. The simulation uses no real clock and no threads, and its random numbers come from a
//! seed: half an hour of overload takes a second to simulate and is reproducible.
//!
//! Life of a request:
//!
//! 1. It arrives at the rate of the [`LoadProfile`], with a class, an amount of work ([`Workload`]) and a
//!    client timeout.
//! 2. The [`AdmissionPolicy`] admits it, queues it or refuses it.
//! 3. The [`ServerModel`] processes it concurrently with or after the other admitted requests. The server
//!    does not notice a client timeout: work on responses that no client waits for is the core of the overload
//!    problem.
//! 4. A response before the timeout counts as goodput; a later one is wasted work.
//!
//! [`Scenario::run`] runs the simulation and returns a [`SimReport`] with goodput, percentiles, refusals and
//! limits over time. [`experiment`] compares policies over several seeds; [`peers`] implements the algorithms
//! of other projects.
//!
//! ```
//! use sluicegate_testkit::overload::{LoadProfile, Scenario, ServerModel, Workload, peers::{Aimd, NoProtection}};
//!
//! // Eight workers, 10 ms of work each: capacity 800 requests per second, at twice that load.
//! let work = Workload::Exponential { mean: 0.010 };
//! let scenario = Scenario::new(ServerModel::queue(8), work, LoadProfile::steady(2.0), 20.0);
//! let unprotected = scenario.run(1, &mut NoProtection);
//! let limited = scenario.run(1, &mut Aimd::default());
//! assert!(unprotected.goodput(10.0..20.0) < 0.1 * scenario.capacity(0.0));
//! assert!(limited.goodput(10.0..20.0) > 0.9 * scenario.capacity(0.0));
//! ```

pub mod experiment;
mod load;
pub mod peers;
mod report;
mod rng;
mod server;
mod sim;
mod workload;

pub use load::{Class, LoadProfile};
pub use report::{OutcomeCounts, RequestOutcome, SimReport, percentile};
pub use server::ServerModel;
pub use sim::Scenario;
pub use workload::{Slowdown, Workload};

/// Nanoseconds per second. Simulated times are nanoseconds since the start.
pub const SECOND: u64 = 1_000_000_000;

/// Interval between calls of [`AdmissionPolicy::on_tick`], in nanoseconds.
pub const TICK: u64 = SECOND / 20;

/// Admission policy in front of the simulated server.
pub trait AdmissionPolicy {
    /// Decides an arriving request. A queued request is released later by [`AdmissionPolicy::next_released`].
    fn on_arrival(&mut self, now: u64, id: u32, class: Class) -> PolicyDecision;

    /// Reports completion of an admitted request after `elapsed` nanoseconds in the server. `in_time` is true if
    /// the client was still waiting.
    fn on_complete(&mut self, now: u64, id: u32, elapsed: u64, in_time: bool);

    /// Reports that the wait deadline of a request has passed. Returns true if the request was still queued.
    fn on_wait_timeout(&mut self, now: u64, id: u32) -> bool {
        let _ = (now, id);
        false
    }

    /// Next request to leave the queue; the flag is true if it is admitted. Polled after every event until it
    /// returns `None`.
    fn next_released(&mut self) -> Option<(u32, bool)> {
        None
    }

    /// Periodic update. `cpu` is the share of the cores that was busy since the last tick.
    fn on_tick(&mut self, now: u64, cpu: f64) {
        let _ = (now, cpu);
    }

    /// Current concurrency limit; `None` if the policy does not limit concurrency.
    fn limit(&self) -> Option<f64> {
        None
    }
}

/// Decision of an admission policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyDecision {
    /// Admit the request.
    Admit,
    /// Queue the request until a deadline.
    Wait {
        /// Deadline of the wait.
        until: u64,
    },
    /// Refuse the request.
    Refuse,
}
