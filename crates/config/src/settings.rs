//! Validated settings of a rule file.
//!
//! Plain data: rules and lists are engine types, the other sections are read by the component they configure.
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
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use sluicegate_engine::rule::{self, Expr, Rule};
pub use sluicegate_http_adapter::HeaderStyle;

/// All settings of a rule file.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Rules in file order. Each has at least one limit or overload protection.
    pub rules: Vec<Rule>,
    /// Allow and deny lists, checked before all rules.
    pub lists: Lists,
    /// Store of cluster-wide counters.
    pub store: Store,
    /// Style of the rate limit headers.
    pub headers: HeaderStyle,
    /// Maximum memory for all keys together, in bytes.
    pub memory: u64,
    /// The reverse proxy, if enabled.
    pub gateway: Option<Gateway>,
    /// The decision server, if enabled.
    pub server: Option<Server>,
    /// Dashboard, metrics and admin API, if enabled.
    pub admin: Option<Admin>,
    /// Source of rules and lists.
    pub rules_from: RulesFrom,
    /// If set, the file is reloaded on changes.
    pub watch: bool,
    /// The process log.
    pub log: Log,
}

/// Default memory for keyed state: 256 MiB.
pub const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;

impl Default for Settings {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            lists: Lists::default(),
            store: Store::Memory,
            headers: HeaderStyle::Ietf,
            memory: DEFAULT_MEMORY_BYTES,
            gateway: None,
            server: None,
            admin: None,
            rules_from: RulesFrom::File,
            watch: true,
            log: Log::default(),
        }
    }
}

/// Source of rules and lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum RulesFrom {
    /// The rule file.
    #[default]
    File,
    /// The store, shared by all processes; the file provides the first version.
    Store,
}

/// Process log settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Log {
    /// Line format.
    pub format: ProcessLogFormat,
    /// Minimum level.
    pub level: LogLevel,
}

/// Line format of the process log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ProcessLogFormat {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Level of the process log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Also conditions that need attention.
    Warn,
    /// Also normal events, and a sample of refusals.
    #[default]
    Info,
    /// Also details for troubleshooting.
    Debug,
}

/// Lists checked before all rules; allow takes precedence.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Lists {
    /// Matching requests are admitted.
    pub allow: Vec<ListEntry>,
    /// Matching requests are refused.
    pub deny: Vec<ListEntry>,
}

impl Lists {
    /// The conditions alone, for the engine.
    pub fn conditions(&self) -> rule::Lists {
        let conditions = |entries: &[ListEntry]| entries.iter().map(|entry| entry.condition.clone()).collect();
        rule::Lists { allow: conditions(&self.allow), deny: conditions(&self.deny) }
    }
}

/// A condition with its source text.
#[derive(Clone, Debug, PartialEq)]
pub struct ListEntry {
    /// The text as written.
    pub text: String,
    /// The condition.
    pub condition: Expr,
}

/// Store of cluster-wide counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// Memory of this process.
    Memory,
    /// Redis or Valkey.
    Redis(RedisStore),
}

/// A Redis or Valkey store. Its `Debug` output omits the password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisStore {
    /// Topology of the servers.
    pub topology: Topology,
    /// If set, connections use TLS.
    pub tls: bool,
    /// User name, if not the default user.
    pub username: Option<String>,
    /// Password, if one is needed.
    pub password: Option<String>,
    /// Initial servers, as `host:port`.
    pub nodes: Vec<String>,
    /// Database number.
    pub database: u32,
    /// Maximum time that a decision waits for the store.
    pub timeout: Duration,
    /// Key prefix.
    pub prefix: String,
    /// Assumed number of processes, until the store reports it.
    pub expected_nodes: Option<u32>,
    /// Time after which the permits of a vanished process are released.
    pub permit_ttl: Duration,
    /// File with trusted CA certificates; `None` for the public authorities.
    pub ca: Option<String>,
}

impl RedisStore {
    /// Default of `timeout`.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(20);
    /// Default of `permit_ttl`.
    pub const DEFAULT_PERMIT_TTL: Duration = Duration::from_secs(30);
    /// Default of `prefix`.
    pub const DEFAULT_PREFIX: &str = "sluicegate";
}

/// Topology of the store's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single,
    /// A primary with this name, found through sentinels.
    Sentinel(String),
    /// A Redis cluster.
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
            .field("timeout", &self.timeout)
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
    /// Listeners; at least one.
    pub listen: Vec<Listener>,
    /// Connection limits.
    pub connections: Connections,
    /// Maximum number of in-flight requests to upstreams.
    pub max_in_flight: Option<u32>,
    /// Number of worker threads; `None` for one per core.
    pub threads: Option<u32>,
    /// Proxies whose forwarded headers are trusted and passed on.
    pub trusted_proxies: Vec<IpNet>,
    /// The forwarded header that is read.
    pub client_ip_header: ForwardedHeader,
    /// Sources of custom attributes.
    pub attributes: Vec<AttributeSource>,
    /// JWT verification, if rules use claims.
    pub jwt: Option<Jwt>,
    /// Client connection timeouts.
    pub timeouts: Timeouts,
    /// Maximum size of a request head, in bytes.
    pub max_header_size: u32,
    /// Access log, if enabled.
    pub access_log: Option<AccessLog>,
    /// The upstreams.
    pub upstreams: Vec<Upstream>,
    /// The routes.
    pub routes: Vec<Route>,
}

/// A listen address with its protocol options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address.
    pub address: SocketAddr,
    /// TLS certificate; `None` for plain text.
    pub tls: Option<Certificate>,
    /// If set, each connection begins with a PROXY protocol header (version 1 or 2). It is accepted only from
    /// trusted proxies; connections from other peers are closed.
    pub proxy_protocol: bool,
}

/// Certificate and key files; reloaded on changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Certificate chain in PEM, relative to the rule file.
    pub certificate: String,
    /// Private key in PEM, relative to the rule file.
    pub key: String,
    /// CA certificates in PEM for client authentication. `None`: no client certificate is required.
    pub client_ca: Option<String>,
}

/// Header in which trusted proxies report the client.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// A header with a single address, such as `X-Real-IP`.
    Single(String),
}

/// Source of a custom attribute: the first location with a value wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeSource {
    /// Attribute name, such as `account`.
    pub name: String,
    /// Locations; at least one.
    pub locations: Vec<AttributeLocation>,
}

/// Location of an attribute in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeLocation {
    /// A header with this name.
    Header(String),
    /// A cookie with this name.
    Cookie(String),
    /// A query parameter with this name.
    Query(String),
    /// Credentials of this `Authorization` scheme.
    Scheme(String),
    /// A claim of the verified token.
    Claim(String),
}

/// JWT verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// File with the public key in PEM, or with the shared secret; relative to the rule file.
    pub key: String,
    /// The only accepted algorithm, such as `RS256`.
    pub algorithm: String,
    /// Required issuer.
    pub issuer: Option<String>,
    /// Required audience.
    pub audience: Option<String>,
}

/// Client connection timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Request head, from its first byte; also the TLS handshake and the PROXY protocol header.
    pub header: Duration,
    /// Between two requests on a connection.
    pub idle: Duration,
    /// Between two chunks of a request body.
    pub request_body: Duration,
    /// Between two writes of a response.
    pub write: Duration,
    /// For in-flight requests on shutdown.
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            request_body: Duration::from_secs(30),
            write: Duration::from_secs(30),
            drain: Duration::from_secs(30),
        }
    }
}

/// Access log settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// File name; `-` for standard output.
    pub file: String,
    /// Line format.
    pub format: AccessLogFormat,
}

/// Line format of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AccessLogFormat {
    /// One JSON object per line.
    #[default]
    Json,
    /// Common log format, followed by Sluicegate's decision.
    Common,
}

/// Connection limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Maximum number of served connections.
    pub max: u32,
    /// Maximum number of connections queued beyond those.
    pub queue: u32,
    /// Maximum number of connections per client address.
    pub per_client: Option<u32>,
}

impl Default for Connections {
    fn default() -> Self {
        Self { max: 10_000, queue: 500, per_client: None }
    }
}

/// An upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Name.
    pub name: String,
    /// Its servers.
    pub servers: Servers,
    /// Load balancing method.
    pub balance: Balance,
    /// Protocol.
    pub protocol: UpstreamProtocol,
    /// Active health check, if enabled.
    pub health: Option<HealthCheck>,
    /// Maximum number of retries on other servers, for requests that are safe to retry.
    pub retries: u32,
    /// `Host` header sent to it.
    pub host: HostHeader,
    /// Maximum number of connections per server; `None` for unlimited.
    pub max_connections: Option<u32>,
    /// File with trusted CA certificates; `None` for the public authorities.
    pub ca: Option<String>,
    /// Timeouts.
    pub timeouts: UpstreamTimeouts,
}

impl Upstream {
    /// An upstream with default settings.
    pub fn new(name: impl Into<String>, servers: Servers) -> Self {
        Self {
            name: name.into(),
            servers,
            balance: Balance::default(),
            protocol: UpstreamProtocol::default(),
            health: None,
            retries: 1,
            host: HostHeader::default(),
            max_connections: None,
            ca: None,
            timeouts: UpstreamTimeouts::default(),
        }
    }
}

/// Servers of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// The built-in demo application.
    Builtin,
    /// Base URLs of equivalent servers.
    Urls(Vec<String>),
}

/// Load balancing method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Balance {
    /// Round robin.
    #[default]
    RoundRobin,
    /// The server with the fewest in-flight requests.
    LeastInFlight,
}

/// Protocol of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum UpstreamProtocol {
    /// HTTP/1.1, one request at a time per connection.
    #[default]
    Http1,
    /// HTTP/2, required by gRPC; without TLS by prior knowledge.
    Http2,
}

/// Active health check: a `GET` must return 2xx or 3xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path of the request.
    pub path: String,
    /// Interval between checks.
    pub interval: Duration,
    /// Timeout of a check.
    pub timeout: Duration,
    /// Consecutive failures after which a server is unhealthy.
    pub failures: u32,
    /// Consecutive successes after which it is healthy again.
    pub successes: u32,
}

impl HealthCheck {
    /// Checks this path every 5 seconds with a timeout of 1 second; unhealthy after 3 failures, healthy after
    /// 2 successes.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            failures: 3,
            successes: 2,
        }
    }
}

/// `Host` header sent to an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum HostHeader {
    /// The client's `Host`.
    #[default]
    Client,
    /// The host of the server's URL.
    Server,
    /// A fixed value.
    Fixed(String),
}

/// Upstream timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// Connecting, including TLS.
    pub connect: Duration,
    /// From the request until the response head.
    pub response: Duration,
    /// Between two chunks of the response body.
    pub body: Duration,
    /// Maximum idle time of a pooled connection.
    pub idle: Duration,
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            response: Duration::from_secs(60),
            body: Duration::from_secs(60),
            idle: Duration::from_secs(30),
        }
    }
}

/// A route. Of all matching routes, the one with the most specific host wins, then the one with the most
/// specific path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Host: a name, `*.` and a name for its subdomains, or `None` for any.
    pub host: Option<String>,
    /// Methods; empty for any.
    pub methods: Vec<String>,
    /// Path, with `{name}` and `{*name}`.
    pub path: String,
    /// Destination of the route.
    pub to: Destination,
}

/// Destination of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// An upstream.
    Upstream {
        /// Name of an existing upstream.
        name: String,
        /// Path prefix to strip, in complete segments such as `/api`.
        strip: Option<String>,
    },
    /// A fixed response.
    Respond(rule::Reply),
}

/// The decision server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Envoy's rate limit service.
    pub rls: Option<Service>,
    /// Decisions over HTTP.
    pub http: Option<Service>,
    /// Decisions over the Redis protocol.
    pub resp: Option<Service>,
    /// Folder with envoyproxy/ratelimit files.
    pub ratelimit_dir: Option<String>,
    /// Connection limits over all protocols.
    pub connections: Connections,
    /// Number of worker threads; `None` for one per core.
    pub threads: Option<u32>,
    /// Busy-poll time before a thread blocks; `None` to block at once.
    pub busy_poll: Option<Duration>,
    /// Forward-auth proxies that are trusted to report the client.
    pub trusted_proxies: Vec<IpNet>,
    /// Maximum size of a request, in bytes.
    pub max_request_size: u32,
    /// Maximum number of checks or descriptors per request.
    pub max_checks: u32,
    /// Maximum number of reservations and permits held for clients.
    pub max_reservations: u32,
    /// Maximum number of keys of ad hoc limits sent with calls.
    pub max_keys: u32,
    /// Client connection timeouts.
    pub timeouts: Timeouts,
    /// Time that it continues serving after it announced its shutdown.
    pub shutdown_delay: Duration,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            rls: None,
            http: None,
            resp: None,
            ratelimit_dir: None,
            connections: Connections::default(),
            threads: None,
            busy_poll: None,
            trusted_proxies: vec![
                IpNet::from(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
                IpAddr::V6(Ipv6Addr::LOCALHOST).into(),
            ],
            max_request_size: 1 << 20,
            max_checks: 1_000,
            max_reservations: 100_000,
            max_keys: 1_000_000,
            timeouts: Timeouts { idle: Duration::from_secs(3_600), ..Timeouts::default() },
            shutdown_delay: Duration::ZERO,
        }
    }
}

/// Listener and authentication of one protocol of the decision server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Service {
    /// The address.
    pub address: Option<SocketAddr>,
    /// Path of a Unix socket.
    pub unix: Option<String>,
    /// TLS certificate for the address.
    pub tls: Option<Certificate>,
    /// File with the secret that clients must send.
    pub secret_file: Option<String>,
}

/// Dashboard, metrics and admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Listen address.
    pub listen: SocketAddr,
    /// File with the tokens for read and write access.
    pub token_file: Option<String>,
    /// TLS certificate for the address.
    pub tls: Option<Certificate>,
    /// OTLP metrics push, if enabled.
    pub otlp: Option<Otlp>,
}

/// An OpenTelemetry collector that metrics are pushed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otlp {
    /// OTLP/HTTP endpoint, such as `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// Push interval.
    pub interval: Duration,
}
