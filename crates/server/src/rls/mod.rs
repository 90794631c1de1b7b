//! Envoy's rate limit service (RLS) over gRPC.
//!
//! Life of a call:
//! 1. [`service`] takes it from the connection; [`grpc`] receives its message.
//! 2. [`decode`] decodes and validates the request.
//! 3. [`request`] starts a [`descriptor_check`] for each descriptor: against the descriptor's limit override,
//!    else the ratelimit configuration if it has the domain, else the rules of the rule file.
//! 4. [`response`] combines the results ([`descriptor_status`]), the client's headers ([`headers`]) and the
//!    dynamic metadata ([`metadata`]).
//! 5. If one descriptor is refused, the others give back their hits. If the request is to be delayed, as by a
//!    leaky bucket, the response is delayed; if that exceeds the client's deadline, it is refused at once.
//! 6. Refunds are made last, as they cannot be undone.
//! 7. Results that no rule counts are counted in [`limit_counters`].
//!
//! Concurrency permits cannot be held over this protocol, as the end of a request is not reported.

mod bad_request;
mod decide;
mod decode;
mod descriptor;
mod descriptor_check;
mod descriptor_status;
mod grpc;
mod headers;
mod health;
mod json;
mod limit;
mod limit_counters;
mod metadata;
mod proto;
mod request;
mod response;
mod service;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::active_domains::ActiveDomains;
use sluicegate_engine::Sluice;
use sluicegate_engine::adhoc::AdHoc;
use sluicegate_http_adapter::{HeaderStyle, Renderer};

use crate::Secret;
use health::HealthEndpoints;
pub(crate) use json::add_schemas;
use limit_counters::LimitCounters;
pub use limit_counters::LimitCounts;

/// Envoy's rate limit service. Clones share the same state, one per connection.
#[derive(Clone)]
pub(crate) struct Rls(Arc<RlsState>);

/// Configuration of the service.
pub(crate) struct RlsConfig {
    /// The active ratelimit configuration.
    pub(crate) domains: ActiveDomains,
    /// Secret that clients must send.
    pub(crate) secret: Option<Secret>,
    /// Style of the rate limit headers.
    pub(crate) style: HeaderStyle,
    /// Maximum message size in bytes.
    pub(crate) max_request_size: usize,
    /// Maximum time between two chunks of a message.
    pub(crate) read_timeout: Duration,
    /// Maximum number of descriptors per request.
    pub(crate) max_checks: usize,
}

/// State shared by all connections.
pub(crate) struct RlsState {
    sluice: Sluice,
    /// Counters of limit overrides.
    adhoc_windows: Arc<AdHoc>,
    domains: ActiveDomains,
    renderer: Renderer,
    secret: Option<Secret>,
    max_request_size: usize,
    read_timeout: Duration,
    max_checks: usize,
    health: HealthEndpoints,
    /// Counters of results that no rule counts.
    counters: LimitCounters,
    /// Number of calls.
    calls: AtomicU64,
}

impl Rls {
    /// Creates a service that decides by the rules of a sluice, the ratelimit configuration and limit overrides. The
    /// sluice must contain the rules of the configuration.
    pub(crate) async fn new(
        sluice: Sluice,
        adhoc_windows: Arc<AdHoc>,
        config: RlsConfig,
    ) -> Result<Self, tonic_reflection::server::Error> {
        let RlsConfig { domains, secret, style, max_request_size, read_timeout, max_checks } = config;
        let health = HealthEndpoints::new(max_request_size)?;
        health.set_serving().await;
        let renderer = Renderer::new(style);
        Ok(Self(Arc::new(RlsState {
            sluice,
            adhoc_windows,
            domains,
            renderer,
            secret,
            max_request_size,
            read_timeout,
            max_checks,
            health,
            counters: LimitCounters::default(),
            calls: AtomicU64::new(0),
        })))
    }

    /// Number of calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::Relaxed)
    }

    /// Counts of limits of zero.
    pub(crate) fn zero_limits(&self) -> Vec<LimitCounts> {
        self.0.counters.zero_limits.snapshot()
    }

    /// Counts per value, for limits with detailed metrics.
    pub(crate) fn detailed_limits(&self) -> Vec<LimitCounts> {
        self.0.counters.detailed.snapshot()
    }

    /// Decides an encoded message. Returns true if it was valid.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn can_decide(&self, message: bytes::Bytes) -> bool {
        let request = decode::decode(message, self.0.max_checks);
        request.and_then(|request| decide::decide(&self.0, request, None)).is_ok()
    }

    /// Reports draining to clients; calls are still served.
    pub(crate) async fn drain(&self) {
        self.0.health.drain().await;
    }

    /// Ends open health watches.
    pub(crate) fn close_watchers(&self) {
        self.0.health.close_watchers();
    }
}
