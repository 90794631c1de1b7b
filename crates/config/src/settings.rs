//! What a rule file says, checked and ready to use.
//!
//! Plain data: rules and lists are the engine's own types, the rest waits for the part of the system
//! it is for.
//!
//! ```
//! use sluicegate_config::settings::HeaderStyle;
//!
//! let settings = sluicegate_config::parse("rules.yaml", "headers: legacy")?.settings;
//! assert_eq!(settings.headers, HeaderStyle::Legacy);
//! assert_eq!(settings.memory, 256 << 20);
//! # Ok::<(), sluicegate_config::Report>(())
//! ```

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use sluicegate_engine::rule::{self, Expr, Rule};
pub use sluicegate_http::HeaderStyle;

/// Everything a rule file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The rules, in the order of the file. Each has at least one limit.
    pub rules: Vec<Rule>,
    /// Limits that hold only under strain.
    pub adaptive: Vec<AdaptiveRule>,
    /// Who is let through or shut out before any rule is asked.
    pub lists: Lists,
    /// Where cluster-wide counts are kept.
    pub store: Store,
    /// Which headers tell clients what is left to them.
    pub headers: HeaderStyle,
    /// The most memory all keys together may take, in bytes.
    pub memory: u64,
    /// The reverse proxy, if it is to run.
    pub gateway: Option<Gateway>,
    /// The decision server, if it is to run.
    pub server: Option<Server>,
    /// Dashboard, metrics and admin API, if they are to run.
    pub admin: Option<Admin>,
}

/// The memory for keyed state when nobody says how much: 256 MiB.
pub const DEFAULT_MEMORY: u64 = 256 << 20;

impl Default for Settings {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            adaptive: Vec::new(),
            lists: Lists::default(),
            store: Store::Memory,
            headers: HeaderStyle::Ietf,
            memory: DEFAULT_MEMORY,
            gateway: None,
            server: None,
            admin: None,
        }
    }
}

/// A rule that holds while all its conditions do.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveRule {
    /// The rule as it holds then: the one limit in it is the adaptive one. If the rule also has limits
    /// of its own, those are in [`Settings::rules`] under the same name, and hold always.
    pub rule: Rule,
    /// What must be true of the process, all of it together.
    pub when: Vec<Condition>,
}

/// A signal compared with a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// What is measured.
    pub signal: Signal,
    /// How it is compared.
    pub comparison: Comparison,
    /// With what.
    pub value: Threshold,
}

/// What can be measured of a process under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Signal {
    /// The machine's load over one minute.
    Load1,
    /// The machine's load over five minutes.
    Load5,
    /// The load over one minute, divided by the cores this process may use.
    LoadPerCore,
    /// CPU time used, of what this process may use.
    Cpu,
    /// Time in which work waited for a CPU.
    CpuPressure,
    /// Memory used, of what this process may use.
    Memory,
    /// The average response time.
    AverageResponseTime,
    /// Requests under way.
    InFlight,
    /// Requests coming in per second.
    RequestsPerSecond,
    /// Open connections.
    Connections,
    /// Bytes in and out per second.
    Traffic,
}

/// How a signal is compared with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}

/// What a signal is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// A plain number.
    Number(f64),
    /// A share of the whole: 0.85 for `85%`.
    Share(f64),
    /// A time.
    Time(Duration),
    /// Bytes per second.
    BytesPerSecond(u64),
}

/// Conditions that decide before any rule does; allow comes first and wins.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Lists {
    /// Requests that meet one of these pass.
    pub allow: Vec<ListEntry>,
    /// Requests that meet one of these are refused.
    pub deny: Vec<ListEntry>,
}

impl Lists {
    /// The conditions alone, as the engine takes them.
    pub fn conditions(&self) -> rule::Lists {
        let conditions = |entries: &[ListEntry]| entries.iter().map(|entry| entry.condition.clone()).collect();
        rule::Lists { allow: conditions(&self.allow), deny: conditions(&self.deny) }
    }
}

/// A condition with the text it was written as.
#[derive(Clone, Debug, PartialEq)]
pub struct ListEntry {
    /// As the file has it.
    pub text: String,
    /// The condition.
    pub condition: Expr,
}

/// Where cluster-wide counts are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// In this process.
    Memory,
    /// In Redis or Valkey.
    Redis(RedisStore),
}

/// A Redis or Valkey store. Its `Debug` form does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisStore {
    /// How the servers stand to each other.
    pub topology: Topology,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// Who to log in as, if not the default user.
    pub username: Option<String>,
    /// The password, if one is needed.
    pub password: Option<String>,
    /// The servers to ask first, as `host:port`.
    pub nodes: Vec<String>,
    /// The number of the database.
    pub database: u32,
    /// How long a decision waits for it.
    pub deadline: Duration,
    /// What its keys begin with.
    pub prefix: String,
    /// How many processes there are, until the store has told.
    pub expected_nodes: Option<u32>,
    /// After how long the permits of a process that has gone are free again.
    pub permit_ttl: Duration,
    /// A file with the certificates of who may vouch for it; `None`: the public authorities.
    pub ca: Option<String>,
}

impl RedisStore {
    /// How long a decision waits for a store if nobody says how long.
    pub const DEADLINE: Duration = Duration::from_millis(20);
    /// How long permits last without renewal if nobody says how long.
    pub const PERMIT_TTL: Duration = Duration::from_secs(30);
    /// What keys begin with if nobody says what.
    pub const PREFIX: &str = "sluicegate";
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

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("topology", &self.topology)
            .field("tls", &self.tls)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("nodes", &self.nodes)
            .field("database", &self.database)
            .field("deadline", &self.deadline)
            .field("prefix", &self.prefix)
            .field("expected_nodes", &self.expected_nodes)
            .field("permit_ttl", &self.permit_ttl)
            .field("ca", &self.ca)
            .finish()
    }
}

/// The reverse proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The front door.
    pub connections: Connections,
    /// The most requests under way to upstreams at once.
    pub in_flight: Option<u32>,
    /// Whose forwarded headers say who the client is.
    pub trusted_proxies: Vec<IpNet>,
    /// The programs behind it.
    pub upstreams: Vec<Upstream>,
    /// Which path goes where.
    pub routes: Vec<Route>,
}

/// How many connections are held at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Served at once.
    pub max: u32,
    /// Waiting beyond those.
    pub queue: u32,
    /// Of one client address.
    pub per_client: Option<u32>,
}

impl Default for Connections {
    fn default() -> Self {
        Self { max: 10_000, queue: 500, per_client: None }
    }
}

/// A program behind the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub servers: Servers,
}

/// Where an upstream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// The built-in demo program.
    Builtin,
    /// Base URLs, each of an equal.
    Urls(Vec<String>),
}

/// Sends a path to an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The path, with `{name}` and `{*name}`.
    pub path: String,
    /// The upstream's name; there is one of that name.
    pub upstream: String,
}

/// The decision server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Server {
    /// Envoy's rate limit service.
    pub rls: Option<SocketAddr>,
    /// Decisions over HTTP.
    pub http: Option<SocketAddr>,
    /// Decisions over the Redis protocol.
    pub resp: Option<SocketAddr>,
}

/// Dashboard, metrics and admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where they listen.
    pub listen: SocketAddr,
}
