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
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use sluicegate_engine::rule::{self, Expr, Rule};
pub use sluicegate_http::HeaderStyle;

/// Everything a rule file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The rules, in the order of the file. Each has at least one limit, or protects the process under strain.
    pub rules: Vec<Rule>,
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
    /// Where rules and lists live.
    pub rules_from: RulesFrom,
    /// Whether the file is read again when it changes.
    pub watch: bool,
    /// What the program says of itself, and how.
    pub log: Log,
}

/// The memory for keyed state when nobody says how much: 256 MiB.
pub const DEFAULT_MEMORY: u64 = 256 << 20;

impl Default for Settings {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            lists: Lists::default(),
            store: Store::Memory,
            headers: HeaderStyle::Ietf,
            memory: DEFAULT_MEMORY,
            gateway: None,
            server: None,
            admin: None,
            rules_from: RulesFrom::File,
            watch: true,
            log: Log::default(),
        }
    }
}

/// Where rules and lists live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum RulesFrom {
    /// In the file.
    #[default]
    File,
    /// In the store, for all processes on it; those in the file are the first version.
    Store,
}

/// What the program says of itself, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Log {
    /// How lines look.
    pub format: LineFormat,
    /// From which level on.
    pub level: LogLevel,
}

/// How lines of the program's own log look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LineFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How much the program's own log has in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LogLevel {
    /// What failed.
    Error,
    /// Also what should be looked at.
    Warn,
    /// Also what happens, and what is refused, sampled.
    #[default]
    Info,
    /// Also what is only of use to whoever looks for a fault.
    Debug,
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
    /// Where it listens; at least one.
    pub listen: Vec<Listener>,
    /// The front door.
    pub connections: Connections,
    /// The most requests under way to upstreams at once.
    pub in_flight: Option<u32>,
    /// How many threads serve; `None`: one for each core.
    pub threads: Option<u32>,
    /// Whose forwarded headers say who the client is, and whose word about it is passed on.
    pub trusted_proxies: Vec<IpNet>,
    /// Which header is read for it.
    pub forwarded: ForwardedHeader,
    /// Where attributes that rules name come from.
    pub attributes: Vec<AttributeSource>,
    /// How tokens are verified, if rules look at claims.
    pub jwt: Option<Jwt>,
    /// How long everything may take.
    pub timeouts: Timeouts,
    /// The most bytes of a request's head.
    pub max_head: u32,
    /// Where requests are noted, if anywhere.
    pub access_log: Option<AccessLog>,
    /// The programs behind it.
    pub upstreams: Vec<Upstream>,
    /// Which request goes where.
    pub routes: Vec<Route>,
}

/// An address to listen at, and what is spoken there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address.
    pub address: SocketAddr,
    /// With TLS, by this certificate.
    pub tls: Option<Certificate>,
    /// Whether each connection begins with a PROXY line (version 1 or 2) that says who the client is. It is
    /// believed from trusted proxies only; from all others the connection is closed.
    pub proxy_protocol: bool,
}

/// A certificate and its key, as files; read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The chain, in PEM; relative to the rule file.
    pub certificate: String,
    /// The private key, in PEM; relative to the rule file.
    pub key: String,
    /// Authorities, in PEM, one of which must have signed the certificate that a client shows. `None`: clients
    /// need none.
    pub client_ca: Option<String>,
}

/// Which header trusted proxies say in who the client is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// A header of this name with one address, such as `X-Real-IP`.
    Single(String),
}

/// Where an attribute of rules comes from: the first of the places that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeSource {
    /// The attribute's name, such as `account`.
    pub name: String,
    /// The places, at least one.
    pub places: Vec<AttributePlace>,
}

/// Where an attribute is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributePlace {
    /// A header of this name.
    Header(String),
    /// A cookie of this name.
    Cookie(String),
    /// A parameter of the query.
    Query(String),
    /// What follows this scheme in `Authorization`.
    Scheme(String),
    /// A claim of the verified token.
    Claim(String),
}

/// How tokens are verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// A file with the public key in PEM, or with the shared secret; relative to the rule file.
    pub key: String,
    /// The one algorithm that is accepted, such as `RS256`.
    pub algorithm: String,
    /// Who must have issued the token.
    pub issuer: Option<String>,
    /// For whom it must be.
    pub audience: Option<String>,
}

/// How long everything may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A request's head, from its first byte; also the TLS handshake and the PROXY line.
    pub head: Duration,
    /// Between two requests of a connection.
    pub idle: Duration,
    /// Between two parts of a request's body.
    pub request_body: Duration,
    /// For the client to take the next part of an answer.
    pub send: Duration,
    /// For requests under way when it stops.
    pub stop: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            request_body: Duration::from_secs(30),
            send: Duration::from_secs(30),
            stop: Duration::from_secs(30),
        }
    }
}

/// Where requests are noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// The file; `-` is standard output.
    pub file: String,
    /// How a line looks.
    pub format: LogFormat,
}

/// How a line of the access log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One JSON object per line.
    #[default]
    Json,
    /// The common log format, with what Sluicegate decided behind it.
    Common,
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
    /// How requests are spread over its servers.
    pub balance: Balance,
    /// What is spoken with it.
    pub protocol: UpstreamProtocol,
    /// How it is asked whether it is well, if it is.
    pub health: Option<HealthCheck>,
    /// On how many further servers a request may be tried, where that is safe.
    pub retries: u32,
    /// The `Host` it is sent.
    pub host: HostHeader,
    /// The most connections to each of its servers; `None`: as many as there are requests.
    pub connections: Option<u32>,
    /// A file with the certificates of who may vouch for it; `None`: the public authorities.
    pub ca: Option<String>,
    /// How long it may take.
    pub timeouts: UpstreamTimeouts,
}

impl Upstream {
    /// An upstream of this name about which nothing else is said.
    pub fn new(name: impl Into<String>, servers: Servers) -> Self {
        Self {
            name: name.into(),
            servers,
            balance: Balance::default(),
            protocol: UpstreamProtocol::default(),
            health: None,
            retries: 1,
            host: HostHeader::default(),
            connections: None,
            ca: None,
            timeouts: UpstreamTimeouts::default(),
        }
    }
}

/// Where an upstream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// The built-in demo program.
    Builtin,
    /// Base URLs, each of an equal.
    Urls(Vec<String>),
}

/// How requests are spread over servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Balance {
    /// One after the other.
    #[default]
    RoundRobin,
    /// To the one with the fewest requests under way.
    LeastInFlight,
}

/// What is spoken with an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum UpstreamProtocol {
    /// HTTP/1.1, one request at a time on each connection.
    #[default]
    Http1,
    /// HTTP/2, which gRPC needs; without TLS by prior knowledge.
    Http2,
}

/// How a server is asked whether it is well: `GET` must be answered with 2xx or 3xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The path.
    pub path: String,
    /// How often.
    pub every: Duration,
    /// How long it may take.
    pub timeout: Duration,
    /// After how many failures in a row it gets no more requests.
    pub failures: u32,
    /// After how many successes in a row it gets them again.
    pub successes: u32,
}

impl HealthCheck {
    /// Asks for this path every 5 seconds, for an answer within 1; out after 3 failures, in after 2
    /// successes.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            every: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            failures: 3,
            successes: 2,
        }
    }
}

/// Which `Host` an upstream is sent.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum HostHeader {
    /// The one the client asked for.
    #[default]
    Client,
    /// The server's own, of its URL.
    Server,
    /// This one.
    Fixed(String),
}

/// How long an upstream may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// To connect, TLS included.
    pub connect: Duration,
    /// From when the request is sent until the answer's head is there.
    pub answer: Duration,
    /// Between two parts of the answer's body.
    pub body: Duration,
    /// How long an unused connection is kept.
    pub idle: Duration,
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            answer: Duration::from_secs(60),
            body: Duration::from_secs(60),
            idle: Duration::from_secs(30),
        }
    }
}

/// Which requests go where. Of the routes that fit a request, the one with the most exact host wins, then
/// the one with the most exact path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The host: a name, `*.` and a name for all below it, or `None` for any.
    pub host: Option<String>,
    /// The methods; none for any.
    pub methods: Vec<String>,
    /// The path, with `{name}` and `{*name}`.
    pub path: String,
    /// Where it goes.
    pub to: Destination,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To an upstream.
    Upstream {
        /// Its name; there is one of that name.
        name: String,
        /// What is taken off the front of the path, a whole number of segments such as `/api`.
        strip: Option<String>,
    },
    /// It is answered here.
    Answer(rule::Reply),
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
    /// A folder of files as envoyproxy/ratelimit reads them.
    pub ratelimit: Option<String>,
    /// How many connections are held at once, over all protocols.
    pub connections: Connections,
    /// How many threads serve; `None`: one for each core.
    pub threads: Option<u32>,
    /// For how long each of them looks for more before it sleeps; `None`: it sleeps at once.
    pub busy_poll: Option<Duration>,
    /// Which proxies that ask by forward auth say who the client is.
    pub trusted_proxies: Vec<IpNet>,
    /// The most bytes of one request.
    pub max_request: u32,
    /// The most checks or descriptors of one request.
    pub max_checks: u32,
    /// The most reservations and permits held for clients at once.
    pub max_held: u32,
    /// How many keys of limits that come with the calls are remembered.
    pub max_keys: u32,
    /// How long everything may take.
    pub timeouts: Timeouts,
    /// For how long it goes on serving when it has said that it will stop.
    pub drain: Duration,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            rls: None,
            http: None,
            resp: None,
            ratelimit: None,
            connections: Connections::default(),
            threads: None,
            busy_poll: None,
            trusted_proxies: vec![
                IpNet::from(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
                IpAddr::V6(Ipv6Addr::LOCALHOST).into(),
            ],
            max_request: 1 << 20,
            max_checks: 1_000,
            max_held: 100_000,
            max_keys: 1_000_000,
            timeouts: Timeouts { idle: Duration::from_secs(3_600), ..Timeouts::default() },
            drain: Duration::ZERO,
        }
    }
}

/// Where one protocol of the decision server listens, and who may ask.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Service {
    /// The address.
    pub address: Option<SocketAddr>,
    /// The path of a Unix socket.
    pub unix: Option<String>,
    /// Encrypts what comes over the address.
    pub tls: Option<Certificate>,
    /// A file with the secret that clients must show.
    pub secret: Option<String>,
}

/// Dashboard, metrics and admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where they listen.
    pub listen: SocketAddr,
    /// A file with the tokens of those who may read and write.
    pub token: Option<String>,
    /// Encrypts what comes over the address.
    pub tls: Option<Certificate>,
    /// Where metrics are pushed to, if anywhere.
    pub otlp: Option<Otlp>,
}

/// A collector of OpenTelemetry that metrics are pushed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otlp {
    /// Where it takes OTLP over HTTP, such as `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// How often.
    pub every: Duration,
}
