//! Check of one rule for one request.

use smallvec::SmallVec;

use super::ban::KeyName;
use crate::algorithm::{self, Status};
use crate::decision::Decision;
use crate::limit_set::{Charge, Evaluation};
use crate::store::LeaseToken;
use crate::table::KeyHash;

/// Checks of one request, in rule order.
pub(super) type Checks = SmallVec<[RuleCheck; 2]>;

/// Check of one rule for one request, with its result.
pub(super) struct RuleCheck {
    pub(super) rule: usize,
    pub(super) key: KeyHash,
    pub(super) cost: u64,
    /// Set for rules in shadow mode.
    pub(super) shadow: bool,
    pub(super) result: Option<RuleCheckResult>,
    /// Readable and canonical key. Only built if it may be needed after the request is gone.
    pub(super) key_name: Option<Box<KeyName>>,
}

/// Result of a rule check.
pub(super) struct RuleCheckResult {
    pub(super) evaluation: Evaluation,
    pub(super) status: Status,
    pub(super) charge: Option<Charge>,
    pub(super) source: DecisionSource,
}

/// Origin of a rule's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecisionSource {
    /// Counted by this process alone.
    Local,
    /// Decided by this process from its lease of a cluster-wide limit.
    Lease(LeaseToken),
    /// Decided by the store.
    Store,
    /// Decided by this process from its local share because the store is unavailable.
    LocalShare,
    /// Assumed by the failure policy because the store is unavailable.
    Assumed,
}

impl DecisionSource {
    /// True if the store should have decided but was unavailable.
    pub(super) const fn is_degraded(self) -> bool {
        matches!(self, Self::LocalShare | Self::Assumed)
    }
}

impl RuleCheckResult {
    /// Result of a decision that did not evaluate the limits.
    pub(super) fn from_decision(decision: &Decision) -> Self {
        let evaluation = Evaluation { check: decision.verdict.into(), limit: decision.limit };
        Self { evaluation, status: decision.status, charge: None, source: DecisionSource::Local }
    }
}

impl RuleCheck {
    /// True if it is refused until permits are released.
    pub(super) fn waits_for_release(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result.evaluation.check == algorithm::Check::Held)
    }

    /// True if it was decided without the store that counts it.
    pub(super) fn is_degraded(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result.source.is_degraded())
    }

    pub(super) fn refuses(&self) -> bool {
        self.result.as_ref().is_some_and(|result| !result.evaluation.admits())
    }
}
