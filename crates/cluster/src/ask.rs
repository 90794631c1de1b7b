//! What the store is asked, and what it says.

use std::sync::Arc;

use sluicegate_engine::algorithm::{Check, Status};
use smallvec::SmallVec;

use crate::keys::StoreKey;
use crate::prepared::PreparedLimits;

/// One decision: all of its units take what they ask for, or none does.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) units: SmallVec<[Unit; 1]>,
}

/// One key's limits and what is wanted of them.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) key: StoreKey,
    /// The rule's limits, prepared for the script once.
    pub(crate) limits: Arc<PreparedLimits>,
    /// What is wanted; zero only looks.
    pub(crate) cost: u64,
    /// Names what is taken of concurrency limits, so that it can be renewed and given back. Present
    /// exactly if the limits have permits.
    pub(crate) permit: Option<PermitId>,
}

/// What the store said about one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) check: Check,
    /// The limit it hangs on, by its position in the rule.
    pub(crate) limit: usize,
    pub(crate) status: Status,
    /// When the store decided, in microseconds of its own clock: needed to give back.
    pub(crate) at: u64,
}

impl Said {
    /// Whether it fits, at once or after a pause.
    pub(crate) const fn admits(&self) -> bool {
        matches!(self.check, Check::Now | Check::After(_))
    }
}

/// What the store said about all units of an ask, in their order.
pub(crate) type Answer = SmallVec<[Said; 1]>;

/// Names a holder of permits: no two have the same, in this process or any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PermitId(pub(crate) u128);
