//! A decision request to the store, and its result.

use std::sync::Arc;

use sluicegate_engine::algorithm::{Check, Status};
use smallvec::SmallVec;

use crate::encoded_limits::EncodedLimits;
use crate::keys::StoreKey;

/// One decision: all of its checks take their cost, or none does.
#[derive(Clone, Debug)]
pub(crate) struct DecisionRequest {
    pub(crate) checks: SmallVec<[KeyCheck; 1]>,
}

/// A check of one key's limits for a cost.
#[derive(Clone, Debug)]
pub(crate) struct KeyCheck {
    pub(crate) key: StoreKey,
    /// The rule's limits, encoded once for the script.
    pub(crate) limits: Arc<EncodedLimits>,
    /// The cost to take; zero only reads the state.
    pub(crate) cost: u64,
    /// Identifies the permits taken from concurrency limits, for renewal and release. Present
    /// exactly if the limits have permits.
    pub(crate) permit: Option<PermitId>,
}

/// The store's decision on one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyDecision {
    pub(crate) check: Check,
    /// The limit that determines the decision, by its position in the rule.
    pub(crate) limit: usize,
    pub(crate) status: Status,
    /// Time of the decision in microseconds of the store's clock; needed for a release.
    pub(crate) at: u64,
}

impl KeyDecision {
    /// True if the cost fits, at once or after a wait.
    pub(crate) const fn admits(&self) -> bool {
        matches!(self.check, Check::Now | Check::After(_))
    }
}

/// The store's decisions on all checks of a request, in order.
pub(crate) type KeyDecisions = SmallVec<[KeyDecision; 1]>;

/// Identifies a permit holder; unique across all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PermitId(pub(crate) u128);
