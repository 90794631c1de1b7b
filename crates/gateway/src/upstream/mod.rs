//! Upstreams: load balancing, outlier ejection, health checks and connection limits.
//!
//! # Path of a request
//!
//! ```text
//! Upstreams::get ─> Upstream::pick ─> Attempt ─> Server: pooled connection, or permit and connect
//!                        ^                │
//!                        └─ Attempted  <──┤ failed: another server, if a retry is safe
//!                           Servers       └ succeeded: resets the outlier state
//! ```
//!
//! An [`Attempt`] counts as in flight until it is dropped, which must be when the response body has ended.
//!
//! # Selection
//!
//! - Round robin rotates over the servers. Least in flight picks the server with the fewest requests, and
//!   rotates among equals. Unavailable servers are left out, so the servers next to them get no double share.
//! - **Outlier ejection**: after three consecutive failures a server gets no requests for a second; then one
//!   request at a time probes it. Each failed probe doubles the ejection time, up to 30 s. Any response ends
//!   the ejection. A failure is a connection that could not be made or was reset, or a timeout; a status of 500
//!   is a response. Requests that were in flight when the ejection began do not affect it.
//! - If all remaining servers are ejected, the one whose ejection ends first is tried: an estimate must not
//!   turn a short disturbance into an outage.
//! - **Health checks**, if configured, are authoritative: an unhealthy server gets no requests, even if no
//!   other is left. A server is healthy until checks find otherwise, and starts afresh when it recovers. Checks
//!   request their path below the server's base path, as requests do; all run at the start and are then spread
//!   over time.
//!
//! # Connections
//!
//! Names are resolved for each new connection, so DNS changes take effect; every address of a name is tried. A
//! connection limit applies to all threads together: requests queue for an [`UpstreamPermit`], and idle
//! connections are closed to make room. Health checks use connections of their own, outside of the limit.

mod address;
mod attempt;
mod balance;
mod connect;
mod connection_limit;
mod error;
mod health;
mod health_check;
mod outlier;
mod server;
mod status;
#[cfg(test)]
mod tests;
mod tls;

use std::path::Path;
use std::sync::Arc;

use sluicegate_config::settings;
use sluicegate_engine::clock::ClockHandle;
use tokio::task::JoinSet;

pub(crate) use attempt::{Attempt, AttemptedServers};
pub(crate) use balance::Upstream;
pub(crate) use connection_limit::UpstreamPermit;
pub use error::UpstreamError;
use health_check::HealthChecker;
pub(crate) use server::Server;
pub use status::{Health, ServerStatus, UpstreamStatus};
use tls::TrustRoots;

/// All upstreams, shared by all threads.
pub(crate) struct Upstreams {
    upstreams: Vec<Arc<Upstream>>,
    clock: ClockHandle,
}

impl Upstreams {
    /// Builds the upstreams from the settings. Relative file names start at `base`. Does not connect yet.
    pub(crate) fn new(
        upstreams: &[settings::Upstream],
        base: &Path,
        clock: &ClockHandle,
    ) -> Result<Self, UpstreamError> {
        let mut authorities = TrustRoots::new(base);
        let built = upstreams.iter().map(|it| Upstream::new(it, &mut authorities, clock).map(Arc::new));
        let all = Self { upstreams: built.collect::<Result<_, _>>()?, clock: clock.clone() };
        // Report invalid health checks at startup.
        all.checkers()?;
        Ok(all)
    }

    /// The position of the upstream with this name.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.upstreams.iter().position(|upstream| upstream.settings().name == name)
    }

    /// The upstream at this position.
    ///
    /// # Panics
    /// If there is none: positions come from [`position`](Self::position).
    pub(crate) fn get(&self, position: usize) -> &Arc<Upstream> {
        &self.upstreams[position]
    }

    /// All upstreams, by position.
    pub(crate) fn all(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// Runs the health checks, without end. To be run once; dropping the future stops them.
    pub(crate) async fn run_health_checks(&self) {
        let checkers = self.checkers().unwrap_or_default();
        let all = u32::try_from(checkers.len()).unwrap_or(u32::MAX);
        let mut tasks = JoinSet::new();
        for (checker, index) in checkers.into_iter().zip(1..=all) {
            let initial_delay = checker.every() / all * index;
            tasks.spawn(checker.run(initial_delay));
        }
        while tasks.join_next().await.is_some() {}
        std::future::pending::<()>().await;
    }

    /// Status of all upstreams, for operators.
    pub(crate) fn status(&self) -> Vec<UpstreamStatus> {
        self.upstreams.iter().map(|upstream| upstream.status()).collect()
    }

    fn checkers(&self) -> Result<Vec<HealthChecker>, UpstreamError> {
        let mut checkers = Vec::new();
        for upstream in &self.upstreams {
            let Some(check) = &upstream.settings().health else { continue };
            for server in upstream.servers() {
                checkers.push(HealthChecker::new(upstream, check, server, &self.clock)?);
            }
        }
        Ok(checkers)
    }
}
