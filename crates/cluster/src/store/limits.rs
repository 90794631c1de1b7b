//! One rule's limits in the store: decided there, or here from a lease.

use std::sync::Arc;

use sluicegate_engine::algorithm::{Check, Status};
use sluicegate_engine::fleet::{FleetKey, FleetLimits, FleetMark, FleetSaid, Want};
use sluicegate_engine::rule::{ClusterMode, Cost, Rule, Scope};
use sluicegate_engine::{Limit, LimitError, Timestamp};

use super::Means;
use super::exact::Exact;
use crate::ask::Unit;
use crate::keys::StoreKey;
use crate::lease::{Leasable, LeaseTable, Local, Slip};
use crate::prepared::{PrepareError, PreparedLimits};

/// What a rule is counted with.
pub(super) struct ClusterLimits {
    rule: String,
    /// What the hashes of keys are made with.
    seed: u64,
    prefix: Arc<str>,
    limits: Vec<Limit>,
    mode: ClusterMode,
    capacity: usize,
    prepared: Arc<PreparedLimits>,
    leases: Option<Arc<LeaseTable>>,
    /// Whether costs are settled later, when the key may have been forgotten here.
    estimates: bool,
}

/// Keys of a leased rule that a process has slices of at once, unless the rule says how many it remembers.
const DEFAULT_KEYS: usize = 1 << 16;

impl ClusterLimits {
    pub(super) fn new(rule: &Rule, seed: u64, means: &Means) -> Result<Self, LimitError> {
        let prepared = PreparedLimits::new(&rule.limits, means.permit_life).map_err(|error| match error {
            PrepareError::Limits(error) => error,
            error => LimitError::Store { reason: error.to_string() },
        })?;
        let (mode, capacity) = (mode(rule), rule.max_keys.unwrap_or(DEFAULT_KEYS));
        let leasable = if mode == ClusterMode::Lease { Leasable::of(&rule.limits) } else { None };
        Ok(Self {
            rule: rule.name.clone(),
            seed,
            prefix: Arc::clone(&means.prefix),
            limits: rule.limits.clone(),
            mode,
            capacity,
            prepared: Arc::new(prepared),
            leases: leasable.map(|terms| means.lease_table(terms, capacity)),
            estimates: estimates(rule),
        })
    }

    /// Whether a rule can go on with these as they are.
    pub(super) fn suit(&self, rule: &Rule, seed: u64) -> bool {
        let capacity = rule.max_keys.unwrap_or(DEFAULT_KEYS);
        self.rule == rule.name
            && self.seed == seed
            && self.limits == rule.limits
            && self.mode == mode(rule)
            && self.capacity == capacity
            && self.estimates == estimates(rule)
    }

    pub(super) const fn leases(&self) -> Option<&Arc<LeaseTable>> {
        self.leases.as_ref()
    }

    /// What the store is asked for a want.
    pub(super) fn unit(&self, want: &Want, exact: &Exact) -> Unit {
        let permit = (self.prepared.has_permits() && want.cost > 0).then(|| exact.permits().name());
        let key = StoreKey::new(&self.prefix, &self.rule, want.key.as_bytes(), self.prepared.shape());
        Unit { key, limits: Arc::clone(&self.prepared), cost: want.cost, permit }
    }

    /// Where leases of a key are kept.
    pub(super) fn lease_key(&self, key: &FleetKey) -> StoreKey {
        let shape = format!("lease+{}", self.prepared.shape());
        StoreKey::new(&self.prefix, &self.rule, key.as_bytes(), &shape)
    }
}

const fn estimates(rule: &Rule) -> bool {
    matches!(rule.cost, Cost::Estimate { .. })
}

fn mode(rule: &Rule) -> ClusterMode {
    match rule.scope {
        Scope::Cluster { mode, .. } => mode,
        Scope::Local => ClusterMode::Exact,
    }
}

/// A lease's answer in the engine's words.
pub(super) fn said(check: Check, status: Status) -> FleetSaid {
    FleetSaid { check, limit: 0, status }
}

impl FleetLimits for ClusterLimits {
    #[inline]
    fn at_once(&self, key: u64, cost: u64, _now: Timestamp) -> Option<(FleetSaid, FleetMark)> {
        if self.estimates {
            // Whoever settles later must know the key itself.
            return None;
        }
        match self.leases.as_ref()?.take_at_once(key, cost)? {
            Local::Taken(slip, status) => Some((said(Check::Now, status), FleetMark(slip.mark()))),
            Local::NotBefore(wait, status) => Some((said(Check::NotBefore(wait), status), FleetMark::default())),
            Local::Never => {
                let limit = self.leases.as_ref().map_or(0, |leases| leases.terms().capacity());
                Some((said(Check::Never, Status { limit, remaining: limit, reset: 0 }), FleetMark::default()))
            }
            Local::Waiting(_) | Local::Crowded => None,
        }
    }

    fn settle(&self, key: u64, taken: u64, actual: u64, mark: FleetMark) {
        // Only what was given back: estimates are settled with their key.
        if let (Some(leases), Some(unused)) = (&self.leases, taken.checked_sub(actual)) {
            leases.give_back(key, Slip::marked(mark.0, unused));
        }
    }
}

/// With the last sluice that has them, slices go back.
impl Drop for ClusterLimits {
    fn drop(&mut self) {
        if let Some(leases) = &self.leases {
            leases.close();
        }
    }
}

impl std::fmt::Debug for ClusterLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterLimits").field("rule", &self.rule).field("mode", &self.mode).finish_non_exhaustive()
    }
}
