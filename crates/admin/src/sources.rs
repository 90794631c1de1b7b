//! What the admin listener tells of.
//!
//! Nothing is counted for it: whoever serves counts anyway, and is read when somebody asks.

use std::fmt;
use std::sync::Arc;

use sluicegate::Sluice;
use sluicegate::adaptive::readings::Readings;
use sluicegate_config::settings::{RedisStore, Topology};
use sluicegate_door::DoorHandle;

use crate::keeper::Keeper;

/// What the admin listener tells of.
#[derive(Clone)]
pub struct Sources {
    /// The rules and their state.
    pub sluice: Sluice,
    /// Who keeps them in step with their text.
    pub keeper: Keeper,
    /// What the store is called, without its password ([`store_name`]); `None` if there is none.
    pub store: Option<String>,
    /// How the gateway is doing, if there is one.
    pub gateway: Option<Arc<dyn Fn() -> GatewayReading + Send + Sync>>,
    /// What was last read of the machine, if somebody steers by it.
    pub readings: Option<Arc<dyn Fn() -> Readings + Send + Sync>>,
    /// How the decision server is doing, if there is one.
    pub server: Option<Arc<dyn Fn() -> ServerReading + Send + Sync>>,
}

impl Sources {
    /// Rules and their keeper, and nothing else.
    pub fn new(sluice: Sluice, keeper: Keeper) -> Self {
        Self { sluice, keeper, store: None, gateway: None, readings: None, server: None }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("sluice", &self.sluice).field("store", &self.store).finish_non_exhaustive()
    }
}

/// The connections of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ConnectionReading {
    /// Being served now.
    pub open: u64,
    /// Waiting for a place now.
    pub queued: u64,
    /// Given a place so far.
    pub entered: u64,
    /// Refused so far.
    pub refused: u64,
}

impl From<&DoorHandle> for ConnectionReading {
    fn from(door: &DoorHandle) -> Self {
        let counts = door.counts();
        Self {
            open: counts.open as u64,
            queued: counts.queued as u64,
            entered: counts.entered,
            refused: counts.refused.total(),
        }
    }
}

/// How the gateway is doing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GatewayReading {
    /// Its connections.
    pub connections: ConnectionReading,
    /// Requests being served now.
    pub in_flight: u64,
    /// Requests answered so far, by the class of their status: `answered[0]` of 1xx, `answered[4]` of 5xx. Empty where
    /// nobody counts them.
    pub answered: Vec<u64>,
    /// Connections that have moved from one of its threads to another so far.
    pub moved: u64,
    /// Its access log, if it keeps one.
    pub log: Option<LogReading>,
    /// Where its requests go.
    pub upstreams: Vec<UpstreamReading>,
}

/// How an access log is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LogReading {
    /// Lines that are lost because the disk did not keep up.
    pub lost: u64,
    /// Writes that failed.
    pub failures: u64,
}

impl GatewayReading {
    /// Requests answered so far.
    pub fn requests(&self) -> u64 {
        self.answered.iter().sum()
    }
}

/// Servers that requests go to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct UpstreamReading {
    /// The name they go by in the rule file.
    pub name: String,
    /// Those that get requests.
    pub up: u64,
    /// Those that get none.
    pub down: u64,
    /// Requests under way to them.
    pub in_flight: u64,
    /// Requests that failed there so far.
    pub failures: u64,
}

/// How the decision server is doing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ServerReading {
    /// Its connections, over all protocols.
    pub connections: ConnectionReading,
    /// Calls answered so far, by protocol: `rls`, `http`, `resp`. Empty where nobody counts them.
    pub requests: Vec<(&'static str, u64)>,
    /// Limits of envoyproxy/ratelimit's files that are zero: no rule counts them.
    pub zero_limits: Vec<LimitReading>,
    /// Values that those files want told apart.
    pub values: Vec<LimitReading>,
}

/// How often a limit of envoyproxy/ratelimit's files was asked, or one of its values.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LimitReading {
    /// Its name; `None`: all those that are not told apart.
    pub limit: Option<String>,
    /// The entries with these values, such as `path=/a`. Empty where values are not told apart.
    pub entries: String,
    /// Descriptors that were admitted.
    pub admitted: u64,
    /// Descriptors that were refused.
    pub refused: u64,
    /// Descriptors that a limit that only counts would have refused.
    pub would_refuse: u64,
}

/// What a store is called in the rule file, without its password.
///
/// ```
/// use sluicegate::config::settings::Store;
///
/// let text = "store: 'redis://:secret@cache.example:6379/2'";
/// let settings = sluicegate::config::parse("rules.yaml", text)?.settings;
/// let Store::Redis(store) = settings.store else { panic!("a Redis") };
/// assert_eq!(sluicegate_admin::store_name(&store), "redis://cache.example:6379/2");
/// # Ok::<(), sluicegate::config::Report>(())
/// ```
pub fn store_name(store: &RedisStore) -> String {
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
