//! Rule definition, as data.

use std::time::Duration;

use super::{Adaptive, Attribute, Direction, Expr, Target};
use crate::limit::Limit;

/// A rule: matching requests, key, limits, and the action at the limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Name, unique in its rule set. State is kept by name: a changed rule with the same name continues with the
    /// old state.
    pub name: String,
    /// Direction of the requests it applies to.
    pub direction: Direction,
    /// Requests it applies to.
    pub target: Target,
    /// Further condition on the request's attributes.
    pub when: Option<Expr>,
    /// Key attributes; requests with different keys are counted separately. Empty: one count for all requests.
    pub key: Vec<KeyPart>,
    /// Limits, decided all or nothing.
    pub limits: Vec<Limit>,
    /// Overload protection.
    pub adaptive: Option<Adaptive>,
    /// Cost of one request.
    pub cost: Cost,
    /// Temporary ban of keys that are refused repeatedly.
    pub ban: Option<Ban>,
    /// Priority class of its requests, for shedding under overload.
    pub priority: Priority,
    /// Enforcement or shadow mode.
    pub mode: Mode,
    /// Local or cluster-wide counting.
    pub scope: Scope,
    /// Action for a request over the limit.
    pub on_limit: OnLimit,
    /// Maximum number of keys; `None`: derived from the memory budget of the rule set.
    pub max_keys: Option<usize>,
}

impl Rule {
    /// Creates a rule for all requests, without a key, that refuses requests over the limit.
    pub fn new(name: impl Into<String>, limits: impl Into<Vec<Limit>>) -> Self {
        Self {
            name: name.into(),
            direction: Direction::Inbound,
            target: Target::default(),
            when: None,
            key: Vec::new(),
            limits: limits.into(),
            adaptive: None,
            cost: Cost::default(),
            ban: None,
            priority: Priority::Normal,
            mode: Mode::Enforce,
            scope: Scope::Local,
            on_limit: OnLimit::default(),
            max_keys: None,
        }
    }
}

/// Attribute of a rule's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyPart {
    /// The attribute.
    pub attribute: Attribute,
    /// IPv6 prefix length that identifies one client. A client with an IPv6 address usually has a whole /64.
    pub ipv6_prefix: u8,
    /// IPv4 prefix length that identifies one client.
    pub ipv4_prefix: u8,
}

impl From<Attribute> for KeyPart {
    fn from(attribute: Attribute) -> Self {
        Self { attribute, ipv6_prefix: 64, ipv4_prefix: 32 }
    }
}

/// Cost of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Fixed cost, multiplied by the request's own cost.
    Fixed(u64),
    /// The number in this attribute; 1 if it is absent or not a number.
    Attribute(Attribute),
    /// Reserved estimate, settled to the actual cost once known.
    Estimate {
        /// The reserved cost.
        reserve: u64,
        /// Source of the actual cost.
        actual: CostSource,
    },
}

/// Source of a request's actual cost after its response. Read by adapters that see requests and responses.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum CostSource {
    /// Reported by the program that serves the request.
    #[default]
    Reported,
    /// Size of the request body in bytes.
    RequestBytes,
    /// Size of the response body in bytes.
    ResponseBytes,
    /// Number in this response header.
    ResponseHeader(String),
    /// Number at this path in the JSON of the response, from the outermost field to the innermost. In a stream of
    /// events, the last occurrence.
    ResponseJson(Vec<String>),
}

impl Cost {
    /// Reserved estimate with the actual cost reported by the program that serves the request.
    pub const fn estimate(reserve: u64) -> Self {
        Self::Estimate { reserve, actual: CostSource::Reported }
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::Fixed(1)
    }
}

/// Temporary ban of a key that is refused repeatedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// Number of refusals that cause the ban.
    pub after: u32,
    /// Period in which the refusals are counted.
    pub within: Duration,
    /// Duration of the ban.
    pub duration: Duration,
}

/// Priority of a request. Under overload the lowest class is shed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Admitted last: batch jobs, crawlers.
    Background,
    /// The default.
    #[default]
    Normal,
    /// Admitted first.
    Vip,
}

/// Enforcement mode of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Refuses requests over the limit.
    #[default]
    Enforce,
    /// Counts and reports refusals but refuses nothing.
    Shadow,
}

/// Scope of a rule's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scope {
    /// Each process counts separately.
    #[default]
    Local,
    /// All processes on one store count together.
    Cluster {
        /// Mode of using the store.
        mode: ClusterMode,
        /// Behaviour while the store is unavailable.
        on_store_failure: OnStoreFailure,
    },
}

/// Mode of a cluster-wide count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClusterMode {
    /// The store decides each request.
    #[default]
    Exact,
    /// Processes lease parts of the limit and decide locally.
    Lease,
}

/// Behaviour of a cluster-wide rule while its store is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnStoreFailure {
    /// Fail open: admits everything.
    Open,
    /// Fail closed: refuses everything.
    Closed,
    /// Each process enforces its share of the limit.
    #[default]
    LocalShare,
}

/// Action for a request over the limit.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct OnLimit {
    /// Queue the request first, within these bounds.
    pub queue: Option<Queue>,
    /// Response if the request is refused. `None`: the adapter's default refusal.
    pub reply: Option<Reply>,
}

/// Bounds of a rule's wait queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Maximum wait.
    pub max_wait: Duration,
    /// Maximum number of queued requests per key.
    pub max_waiting: u32,
}

/// Response to a request over the limit. Adapters render it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Refuse with this status and body.
    Refuse {
        /// The HTTP status.
        status: u16,
        /// The body; `None`: the adapter's default.
        body: Option<ReplyBody>,
        /// Further headers.
        headers: Vec<(String, String)>,
    },
    /// Respond with fallback data.
    Degrade {
        /// The HTTP status.
        status: u16,
        /// The body.
        body: Option<ReplyBody>,
        /// Further headers.
        headers: Vec<(String, String)>,
    },
    /// Redirect the client.
    Redirect {
        /// The HTTP status: 302, 303 or 307.
        status: u16,
        /// Target of the redirect.
        location: String,
    },
}

/// The body of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyBody {
    /// Plain text.
    Text(String),
    /// JSON, as text.
    Json(String),
    /// The contents of the file at this path.
    File(String),
}
