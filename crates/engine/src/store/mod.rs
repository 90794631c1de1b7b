//! Store interface: limits that the processes of a cluster share.
//!
//! A rule with `scope: cluster` is not counted in this process. The engine decides everything else first and
//! charges its cost; then it asks a [`Store`] for all cluster-wide rules of the request together, all or
//! nothing. If the store refuses, the local charges are given back. If the store is unavailable, the rule's
//! failure policy decides, and the decision is marked as degraded.
//!
//! The engine does no I/O: stores are implemented in other crates. A rule that holds a lease of its limit
//! decides [locally](StoreLimits::decide_locally).

mod key;
mod share;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::algorithm::{Check, LeaseForm, Status};
use crate::limit::{Limit, LimitError};
use crate::rule::Rule;
use crate::time::Timestamp;

pub use key::CanonicalKey;
pub use share::share_of;

/// Maximum fill time of a token bucket that can be leased: three days, the numeric range of a store.
const MAX_LEASED_FILL_TIME: Duration = Duration::from_secs(3 * 86_400);

/// True if processes can lease parts of the limit and decide locally. If one of a rule's limits cannot be
/// leased, the store decides each request.
///
/// ```
/// use sluicegate_engine::{Limit, store::is_leasable};
///
/// assert!(is_leasable(&"1000/s".parse()?));
/// assert!(!is_leasable(&Limit::concurrency(50)?));
/// # Ok::<(), sluicegate_engine::LimitError>(())
/// ```
pub fn is_leasable(limit: &Limit) -> bool {
    match limit.lease_form() {
        Some(LeaseForm::Bucket(_)) => limit.window().is_some_and(|fill_time| fill_time < MAX_LEASED_FILL_TIME),
        Some(LeaseForm::Window { .. }) => true,
        None => false,
    }
}

/// Store of limits that the processes of a cluster share.
pub trait Store: Any + fmt::Debug + Send + Sync {
    /// Opens the limits of a cluster-wide rule. Called for each such rule at every replacement of the rules,
    /// including unchanged ones; the store keeps its state for a rule of the same name. Returns an error if the
    /// store does not support the limits. The new rules are then rejected, and the current ones continue with the
    /// limits opened for them. `seed` is the hash seed of the keys; limits are never shared between different
    /// seeds.
    fn open(&self, rule: &Rule, seed: u64) -> Result<Arc<dyn StoreLimits>, LimitError>;

    /// Acquires everything that one request needs, all or nothing. Dropping a call before its reply cancels it.
    fn acquire(&self, requests: StoreRequests) -> AcquireCall;

    /// Number of processes that share the store, as far as known; at least one.
    fn nodes(&self) -> u32;
}

/// Limits of one rule in a store.
pub trait StoreLimits: Any + fmt::Debug + Send + Sync {
    /// Decides without a round trip to the store, if possible. `None`: call [`Store::acquire`].
    fn decide_locally(&self, key: u64, cost: u64, now: Timestamp) -> Option<(StoreDecision, LeaseToken)>;

    /// Corrects a local charge with this token to its actual cost.
    fn settle(&self, key: u64, charged: u64, actual: u64, token: LeaseToken);
}

/// Token that identifies a local charge for [`StoreLimits::settle`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseToken(pub [u64; 2]);

/// Part of a store call for one rule.
#[derive(Clone, Debug)]
pub struct StoreRequest {
    /// Limits of the rule, as opened by the store.
    pub limits: Arc<dyn StoreLimits>,
    /// Hash of the key in this process.
    pub hash: u64,
    /// Canonical key, the same in every process.
    pub key: CanonicalKey,
    /// Cost; zero checks without consuming.
    pub cost: u64,
}

/// Store requests of one call, for at least one rule.
pub type StoreRequests = SmallVec<[StoreRequest; 1]>;

/// Call to a store: a reply, or a future of it.
pub enum AcquireCall {
    /// The reply is available.
    Ready(StoreReply),
    /// The reply arrives within the store's timeout.
    Pending(Pin<Box<dyn Future<Output = StoreReply> + Send>>),
}

impl fmt::Debug for AcquireCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(reply) => f.debug_tuple("Now").field(reply).finish(),
            Self::Pending(_) => f.write_str("Later"),
        }
    }
}

/// Reply of a store.
pub type StoreReply = Result<StoreOutcome, StoreUnavailable>;

/// Decisions of a store about all requests of a call, in order.
#[derive(Debug)]
pub struct StoreOutcome {
    /// One decision for each request.
    pub decisions: SmallVec<[StoreDecision; 1]>,
    /// Receipt for the charge, if all requests were admitted and there is something to settle or release.
    pub receipt: Option<Box<dyn StoreReceipt>>,
}

/// Decision of a store about one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreDecision {
    /// Result of the check.
    pub check: Check,
    /// Position of the deciding limit in the rule.
    pub limit: usize,
    /// Status of that limit.
    pub status: Status,
}

impl StoreDecision {
    /// Placeholder for a request that was not checked because an earlier one was refused.
    pub const NOT_CHECKED: Self =
        Self { check: Check::Now, limit: 0, status: Status { limit: 0, remaining: 0, reset: 0 } };

    /// True if the request was checked: every real limit is greater than zero.
    pub const fn was_checked(&self) -> bool {
        self.status.limit > 0
    }
}

/// The store did not reply in time or is known to be unavailable. The store itself reports the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUnavailable;

/// Receipt for a charge in a store.
pub trait StoreReceipt: fmt::Debug + Send + Sync {
    /// True if it holds permits or reservations that must be released.
    fn holds_resources(&self) -> bool;

    /// Ends the charge with the actual cost of each request.
    fn end(self: Box<Self>, actual: &[u64]);

    /// Refunds more than this charge: for each request an amount that was charged earlier.
    fn refund(self: Box<Self>, amounts: &[u64]);
}
