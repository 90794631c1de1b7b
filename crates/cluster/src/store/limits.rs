//! One rule's limits in the store.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::fleet::{FleetLimits, FleetSaid, Want};
use sluicegate_engine::rule::Rule;
use sluicegate_engine::{LimitError, Timestamp};

use super::exact::Exact;
use crate::ask::Unit;
use crate::keys::StoreKey;
use crate::prepared::{PrepareError, PreparedLimits};

/// What a rule is counted with.
#[derive(Debug)]
pub(super) struct ClusterLimits {
    rule: String,
    prefix: Arc<str>,
    prepared: Arc<PreparedLimits>,
}

impl ClusterLimits {
    pub(super) fn new(rule: &Rule, prefix: &Arc<str>, permit_life: Duration) -> Result<Self, LimitError> {
        let prepared = PreparedLimits::new(&rule.limits, permit_life).map_err(|error| match error {
            PrepareError::Limits(error) => error,
            PrepareError::TooLarge { .. } => LimitError::Store { reason: error.to_string() },
        })?;
        Ok(Self { rule: rule.name.clone(), prefix: Arc::clone(prefix), prepared: Arc::new(prepared) })
    }

    /// What the store is asked for a want.
    pub(super) fn unit(&self, want: &Want, exact: &Exact) -> Unit {
        let permit = (self.prepared.has_permits() && want.cost > 0).then(|| exact.permits().name());
        let key = StoreKey::new(&self.prefix, &self.rule, want.key.as_bytes(), self.prepared.shape());
        Unit { key, limits: Arc::clone(&self.prepared), cost: want.cost, permit }
    }
}

impl FleetLimits for ClusterLimits {
    fn at_once(&self, _key: u64, _cost: u64, _now: Timestamp) -> Option<FleetSaid> {
        None
    }

    fn settle(&self, _key: u64, _taken: u64, _actual: u64) {}
}
