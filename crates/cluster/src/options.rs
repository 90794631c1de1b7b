//! Where the store is and how it is used.
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

/// How long a decision may take, store and all, unless told otherwise.
const DEADLINE: Duration = Duration::from_millis(20);
/// How long a permit lives without being renewed, unless told otherwise.
const PERMIT_TIME_TO_LIVE: Duration = Duration::from_secs(30);
/// What the names of our keys begin with, unless told otherwise.
const KEY_PREFIX: &str = "sluicegate";

/// A Redis or Valkey store. Its `Debug` form does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// How the servers stand to each other.
    pub topology: Topology,
    /// The servers to ask first, as `host:port`: the server, the sentinels, or some of the cluster.
    pub nodes: Vec<String>,
    /// How connections are encrypted, if they are.
    pub tls: Option<Tls>,
    /// Who to log in as, if not the default user.
    pub username: Option<String>,
    /// The password, if one is needed.
    pub password: Option<String>,
    /// The number of the database. A Redis Cluster has only number 0.
    pub database: u32,
    /// How long a decision may take before it counts as failed.
    pub deadline: Duration,
    /// What the names of all keys begin with.
    pub key_prefix: String,
    /// How long a permit lives in the store without being renewed.
    pub permit_time_to_live: Duration,
    /// How many processes to share out limits among before the store has told how many there are.
    pub expected_nodes: Option<NonZeroU32>,
}

/// How the servers of a store stand to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single,
    /// A primary that sentinels know, by this name.
    Sentinel(String),
    /// A cluster of primaries.
    Cluster,
}

/// How connections are encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// A file with the certificates to trust, in PEM. Without one, those of the system and of Mozilla are.
    pub authority: Option<PathBuf>,
}

impl StoreOptions {
    /// A store at these nodes, without encryption or password, everything else as usual.
    pub fn new(topology: Topology, nodes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            topology,
            nodes: nodes.into_iter().map(Into::into).collect(),
            tls: None,
            username: None,
            password: None,
            database: 0,
            deadline: DEADLINE,
            key_prefix: KEY_PREFIX.to_owned(),
            permit_time_to_live: PERMIT_TIME_TO_LIVE,
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
