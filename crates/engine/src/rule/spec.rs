//! A rule as data.

use std::time::Duration;

use super::{Adaptive, Attribute, Expr, Side, Target};
use crate::limit::Limit;

/// One rule: for these requests, by this key, these limits, and this when they are reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, unique in its set. State belongs to a name: keep it, and a changed rule goes on
    /// where the old one stood.
    pub name: String,
    /// Whether it looks at requests coming in or going out.
    pub side: Side,
    /// Which requests it is for.
    pub target: Target,
    /// A further condition on the request's attributes.
    pub when: Option<Expr>,
    /// What is counted apart. Empty: everything together.
    pub key: Vec<KeyPart>,
    /// The limits, decided all or nothing.
    pub limits: Vec<Limit>,
    /// What holds its requests back while the process is under strain.
    pub adaptive: Option<Adaptive>,
    /// What one request costs.
    pub cost: Cost,
    /// Shuts out a key that keeps running into the limits.
    pub ban: Option<Ban>,
    /// The class of the requests it matches, for shedding under overload.
    pub priority: Priority,
    /// Whether it refuses or only counts.
    pub mode: Mode,
    /// Whether each process counts for itself.
    pub scope: Scope,
    /// What happens to a request over the limit.
    pub on_limit: OnLimit,
    /// How many keys it remembers; `None` leaves it to the set's memory.
    pub max_keys: Option<usize>,
}

impl Rule {
    /// A rule that limits everything together and refuses what is over.
    pub fn new(name: impl Into<String>, limits: impl Into<Vec<Limit>>) -> Self {
        Self {
            name: name.into(),
            side: Side::Inbound,
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

/// One attribute of a rule's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyPart {
    /// The attribute.
    pub attribute: Attribute,
    /// Leading bits of an IPv6 address that make one client. Whoever has an IPv6 address usually has
    /// a whole /64 of them.
    pub ipv6_prefix: u8,
    /// Leading bits of an IPv4 address that make one client.
    pub ipv4_prefix: u8,
}

impl From<Attribute> for KeyPart {
    fn from(attribute: Attribute) -> Self {
        Self { attribute, ipv6_prefix: 64, ipv4_prefix: 32 }
    }
}

/// What a request costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Always the same. Multiplied by what the request itself says it costs.
    Fixed(u64),
    /// The number in this attribute; requests without it, or with no number in it, cost 1.
    Attribute(Attribute),
    /// So much is reserved at first; what it really was is settled when it is known.
    Estimate {
        /// What is reserved.
        reserve: u64,
        /// Who knows what it really was.
        actual: Actual,
    },
}

/// Where the real cost of a request is to be found when it has been answered. Adapters that see requests
/// and answers look there.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Actual {
    /// The program that serves the request says it.
    #[default]
    Told,
    /// The bytes of the request's body.
    RequestBytes,
    /// The bytes of the answer's body.
    ResponseBytes,
    /// The number in this header of the answer.
    ResponseHeader(String),
    /// The number at this place in the JSON of the answer, from the outermost field to the innermost. In a
    /// stream of events, the last one that has it.
    ResponseJson(Vec<String>),
}

impl Cost {
    /// So much is reserved; the program that serves the request says what it really was.
    pub const fn estimate(reserve: u64) -> Self {
        Self::Estimate { reserve, actual: Actual::Told }
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::Fixed(1)
    }
}

/// Shutting out whoever keeps running into a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ban {
    /// Refusals that lead to the ban.
    pub after: u32,
    /// Within how long they must come.
    pub within: Duration,
    /// How long the ban lasts.
    pub lasting: Duration,
}

/// How important a request is. Under overload the lowest class is shed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Served last: batch jobs, crawlers.
    Background,
    /// Everything nobody spoke of.
    #[default]
    Normal,
    /// Served first.
    Vip,
}

/// Whether a rule acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Refuses what is over the limit.
    #[default]
    Enforce,
    /// Counts and reports what it would have refused, and refuses nothing.
    Shadow,
}

/// Who shares a rule's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scope {
    /// Each process counts for itself.
    #[default]
    Local,
    /// All processes on one store count together.
    Cluster {
        /// How the store is asked.
        mode: ClusterMode,
        /// What holds while it cannot be asked.
        on_store_failure: OnStoreFailure,
    },
}

/// How a cluster-wide count is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClusterMode {
    /// The store decides each request.
    #[default]
    Exact,
    /// Processes take slices of the limit and decide by themselves.
    Lease,
}

/// What a cluster-wide rule does while its store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnStoreFailure {
    /// Admits everything.
    Open,
    /// Refuses everything.
    Closed,
    /// Each process enforces its share of the limit.
    #[default]
    LocalShare,
}

/// What happens to a request over the limit.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct OnLimit {
    /// Wait for a turn first, within these bounds.
    pub queue: Option<Queue>,
    /// What is answered if there is no turn to wait for. `None`: the adapter's plain refusal.
    pub reply: Option<Reply>,
}

/// How long and how many may wait for their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The longest wait.
    pub max_wait: Duration,
    /// The most that wait on one key.
    pub max_waiting: u32,
}

/// What is answered to a request over the limit. Adapters render it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Refuse with this status and body.
    Refuse {
        /// The HTTP status.
        status: u16,
        /// The body, if not the adapter's own.
        body: Option<ReplyBody>,
        /// Further headers.
        headers: Vec<(String, String)>,
    },
    /// Answer with substitute data as if nothing were wrong.
    Degrade {
        /// The HTTP status.
        status: u16,
        /// The body.
        body: Option<ReplyBody>,
        /// Further headers.
        headers: Vec<(String, String)>,
    },
    /// Send the client elsewhere.
    Redirect {
        /// The HTTP status: 302, 303 or 307.
        status: u16,
        /// Where to.
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
