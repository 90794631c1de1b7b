//! Data providers of the admin listener.
//!
//! Nothing is counted for the admin listener: the services keep their counters anyway, and are read on demand.

use std::fmt;
use std::sync::Arc;

use sluicegate::Sluice;
use sluicegate::adaptive::readings::Readings;
use sluicegate_config::settings::{RedisStore, Topology};
use sluicegate_net::ListenerHandle;

use crate::reload::RuleManager;

/// Data providers of the admin listener.
#[derive(Clone)]
pub struct Providers {
    /// The rules and their state.
    pub sluice: Sluice,
    /// Reloads the rules and manages their versions.
    pub rule_manager: RuleManager,
    /// Display name of the store without its password ([`store_display_name`]); `None` without a store.
    pub store: Option<String>,
    /// Gateway statistics, if there is a gateway.
    pub gateway: Option<Arc<dyn Fn() -> GatewayStats + Send + Sync>>,
    /// Last readings of the host, if adaptive rules are enabled.
    pub readings: Option<Arc<dyn Fn() -> Readings + Send + Sync>>,
    /// Decision server statistics, if there is one.
    pub server: Option<Arc<dyn Fn() -> ServerStats + Send + Sync>>,
}

impl Providers {
    /// Creates providers with only the rules and their manager.
    pub fn new(sluice: Sluice, rule_manager: RuleManager) -> Self {
        Self { sluice, rule_manager, store: None, gateway: None, readings: None, server: None }
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers").field("sluice", &self.sluice).field("store", &self.store).finish_non_exhaustive()
    }
}

/// Connection statistics of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ConnectionStats {
    /// Connections being served.
    pub open: u64,
    /// Connections waiting in the queue.
    pub queued: u64,
    /// Connections admitted so far.
    pub admitted: u64,
    /// Connections rejected so far.
    pub rejected: u64,
}

impl From<&ListenerHandle> for ConnectionStats {
    fn from(listener: &ListenerHandle) -> Self {
        let counts = listener.counts();
        Self {
            open: counts.open as u64,
            queued: counts.queued as u64,
            admitted: counts.admitted,
            rejected: counts.rejected.total(),
        }
    }
}

/// Gateway statistics.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GatewayStats {
    /// Connection statistics.
    pub connections: ConnectionStats,
    /// Requests in flight.
    pub in_flight: u64,
    /// Responses so far by status class: index 0 for 1xx, index 4 for 5xx. Empty if they are not counted.
    pub responses_by_class: Vec<u64>,
    /// Connections migrated between worker threads so far.
    pub migrated_connections: u64,
    /// Access log statistics, if enabled.
    pub access_log: Option<AccessLogStats>,
    /// Upstream statistics.
    pub upstreams: Vec<UpstreamStats>,
}

/// Access log statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AccessLogStats {
    /// Lines dropped because the disk did not keep up.
    pub dropped_lines: u64,
    /// Failed writes.
    pub failures: u64,
}

impl GatewayStats {
    /// Responses so far.
    pub fn requests(&self) -> u64 {
        self.responses_by_class.iter().sum()
    }
}

/// Statistics of one upstream.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct UpstreamStats {
    /// Name in the rule file.
    pub name: String,
    /// Servers that receive requests.
    pub up: u64,
    /// Servers that receive none.
    pub down: u64,
    /// Requests in flight to them.
    pub in_flight: u64,
    /// Failed requests so far.
    pub failures: u64,
}

/// Decision server statistics.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ServerStats {
    /// Connection statistics over all protocols.
    pub connections: ConnectionStats,
    /// Calls handled so far by protocol: `rls`, `http`, `resp`. Empty if they are not counted.
    pub requests: Vec<(&'static str, u64)>,
    /// Zero limits of envoyproxy/ratelimit files: no rule counts them.
    pub zero_limits: Vec<LimitStats>,
    /// Descriptor values that those files want to count separately.
    pub values: Vec<LimitStats>,
}

/// Decisions of one limit of an envoyproxy/ratelimit file, or of one of its values.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LimitStats {
    /// Name of the limit; `None` for all limits that are not counted separately.
    pub limit: Option<String>,
    /// Descriptor entries with these values, such as `path=/a`. Empty if values are not counted separately.
    pub entries: String,
    /// Admitted descriptors.
    pub admitted: u64,
    /// Refused descriptors.
    pub refused: u64,
    /// Descriptors that a shadow limit would have refused.
    pub would_refuse: u64,
}

/// Display name of a store as in the rule file, without its password.
///
/// ```
/// use sluicegate::config::settings::Store;
///
/// let text = "store: 'redis://:secret@cache.example:6379/2'";
/// let settings = sluicegate::config::parse("rules.yaml", text)?.settings;
/// let Store::Redis(store) = settings.store else { panic!("a Redis") };
/// assert_eq!(sluicegate_admin::store_display_name(&store), "redis://cache.example:6379/2");
/// # Ok::<(), sluicegate::config::Report>(())
/// ```
pub fn store_display_name(store: &RedisStore) -> String {
    let scheme = if store.tls { "rediss" } else { "redis" };
    let (kind, primary) = match &store.topology {
        Topology::Single => ("", String::new()),
        Topology::Sentinel(primary) => ("+sentinel", format!("/{primary}")),
        Topology::Cluster => ("+cluster", String::new()),
    };
    let user = store.username.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    let database = if store.database == 0 { String::new() } else { format!("/{}", store.database) };
    format!("{scheme}{kind}://{user}{}{primary}{database}", store.nodes.join(","))
}
