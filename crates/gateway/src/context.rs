//! Gateway context: state shared by all worker threads.

use bytes::Bytes;
use http::Response;
use sluicegate_config::settings::Timeouts;
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http_adapter::Renderer;
use sluicegate_http_adapter::attributes::AttributeSources;
use sluicegate_http_adapter::identity::Forwarding;
use sluicegate_net::InFlightLimit;

use crate::affinity::WorkerRegistry;
use crate::counters::CounterRegistry;
use crate::log::AccessLog;
use crate::route::Router;
use crate::upstream::Upstreams;

/// State shared by all workers and requests.
pub(crate) struct GatewayContext {
    pub(crate) clock: ClockHandle,
    pub(crate) sluice: Sluice,
    pub(crate) renderer: Renderer,
    pub(crate) forwarding: Forwarding,
    pub(crate) sources: AttributeSources,
    pub(crate) router: Router,
    /// Targets of the routes, by route index.
    pub(crate) route_targets: Vec<RouteTarget>,
    pub(crate) upstreams: Upstreams,
    pub(crate) in_flight_limit: InFlightLimit,
    /// The access log, if configured.
    pub(crate) access_log: Option<AccessLog>,
    pub(crate) timeouts: Timeouts,
    /// The worker threads, for migration.
    pub(crate) worker_registry: WorkerRegistry,
    /// Request counters of all workers.
    pub(crate) counters: CounterRegistry,
    /// Maximum size of a request head.
    pub(crate) max_head_bytes: usize,
}

/// Target of a route.
pub(crate) enum RouteTarget {
    /// An upstream.
    Upstream(UpstreamTarget),
    /// The built-in demo, under this name.
    Demo(String),
    /// A static response.
    Static(Response<Bytes>),
}

/// An upstream as the target of a route.
pub(crate) struct UpstreamTarget {
    /// Index of the upstream.
    pub(crate) upstream: usize,
    /// Name of the upstream; rules match it as `service`.
    pub(crate) name: String,
    /// Path prefix to strip.
    pub(crate) strip: Option<String>,
}

impl RouteTarget {
    /// The service name for rules: `match: service shop`.
    pub(crate) fn service(&self) -> &str {
        match self {
            Self::Upstream(target) => &target.name,
            Self::Demo(name) => name,
            Self::Static(_) => "",
        }
    }
}
