//! Store settings: topology, credentials, deadlines.
//!
//! ```
//! use sluicegate_cluster::{StoreOptions, Topology};
//!
//! let mut options = StoreOptions::new(Topology::Sentinel("main".into()), ["10.0.0.1:26379", "10.0.0.2:26379"]);
//! options.password = Some("open sesame".into());
//! assert!(!format!("{options:?}").contains("sesame"));
//! ```

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// Default deadline of a decision, store included.
const DEFAULT_DEADLINE: Duration = Duration::from_millis(20);
/// Default time to live of a permit without renewal.
const DEFAULT_PERMIT_TTL: Duration = Duration::from_secs(30);
/// Default key prefix.
const DEFAULT_KEY_PREFIX: &str = "sluicegate";

/// A Redis or Valkey store. Its `Debug` form does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// Topology of the servers.
    pub topology: Topology,
    /// Initial servers, as `host:port`: the server, the sentinels, or some cluster nodes.
    pub nodes: Vec<String>,
    /// TLS settings; `None` for plain TCP.
    pub tls: Option<Tls>,
    /// User name; `None` for the default user.
    pub username: Option<String>,
    /// The password, if one is needed.
    pub password: Option<String>,
    /// The database index. A Redis Cluster has only database 0.
    pub database: u32,
    /// Deadline of a decision, after which it counts as failed.
    pub deadline: Duration,
    /// Prefix of all key names.
    pub key_prefix: String,
    /// Time to live of a permit in the store without renewal.
    pub permit_time_to_live: Duration,
    /// Number of processes to divide limits among until the store has reported it.
    pub expected_nodes: Option<NonZeroU32>,
}

/// Topology of the servers of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single,
    /// A primary monitored by sentinels under this name.
    Sentinel(String),
    /// A Redis Cluster.
    Cluster,
}

/// TLS settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of trusted certificates. Default: those of the system and of Mozilla.
    pub authority: Option<PathBuf>,
}

impl StoreOptions {
    /// A store at these nodes, without TLS or password, with default settings otherwise.
    pub fn new(topology: Topology, nodes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            topology,
            nodes: nodes.into_iter().map(Into::into).collect(),
            tls: None,
            username: None,
            password: None,
            database: 0,
            deadline: DEFAULT_DEADLINE,
            key_prefix: DEFAULT_KEY_PREFIX.to_owned(),
            permit_time_to_live: DEFAULT_PERMIT_TTL,
            expected_nodes: None,
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("topology", &self.topology)
            .field("nodes", &self.nodes)
            .field("tls", &self.tls)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("database", &self.database)
            .field("deadline", &self.deadline)
            .field("key_prefix", &self.key_prefix)
            .field("permit_time_to_live", &self.permit_time_to_live)
            .field("expected_nodes", &self.expected_nodes)
            .finish()
    }
}
