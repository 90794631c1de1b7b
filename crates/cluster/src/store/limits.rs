//! One rule's limits in the store: decided there, or locally from a lease.

use std::sync::Arc;

use sluicegate_engine::algorithm::{Check, Status};
use sluicegate_engine::rule::{ClusterMode, Cost, Rule, Scope};
use sluicegate_engine::store::{CanonicalKey, LeaseToken, StoreDecision, StoreLimits, StoreRequest};
use sluicegate_engine::{Limit, LimitError, Timestamp};

use super::StoreContext;
use super::exact::ExactStore;
use crate::decision::KeyCheck;
use crate::encoded_limits::{EncodeLimitsError, EncodedLimits};
use crate::keys::StoreKey;
use crate::lease::{LeaseParams, LeaseReceipt, LeaseTable, LocalResult};

/// The cluster-wide limits of one rule.
pub(super) struct ClusterLimits {
    rule: String,
    /// Seed of the key hashes.
    seed: u64,
    prefix: Arc<str>,
    limits: Vec<Limit>,
    mode: ClusterMode,
    capacity: usize,
    encoded: Arc<EncodedLimits>,
    leases: Option<Arc<LeaseTable>>,
    /// True if costs are settled later, possibly after the key was dropped from the lease table.
    estimates: bool,
}

/// Default maximum of keys with slices per leased rule, unless the rule sets `max_keys`.
const DEFAULT_MAX_KEYS: usize = 1 << 16;

impl ClusterLimits {
    pub(super) fn new(rule: &Rule, seed: u64, context: &StoreContext) -> Result<Self, LimitError> {
        let encoded = EncodedLimits::new(&rule.limits, context.permit_ttl).map_err(|error| match error {
            EncodeLimitsError::Limits(error) => error,
            error => LimitError::Store { reason: error.to_string() },
        })?;
        let (mode, capacity) = (mode(rule), rule.max_keys.unwrap_or(DEFAULT_MAX_KEYS));
        let lease_params = if mode == ClusterMode::Lease { LeaseParams::from_limits(&rule.limits) } else { None };
        Ok(Self {
            rule: rule.name.clone(),
            seed,
            prefix: Arc::clone(&context.prefix),
            limits: rule.limits.clone(),
            mode,
            capacity,
            encoded: Arc::new(encoded),
            leases: lease_params.map(|params| context.lease_table(params, capacity)),
            estimates: estimates(rule),
        })
    }

    /// True if a rule can reuse these limits unchanged.
    pub(super) fn matches_rule(&self, rule: &Rule, seed: u64) -> bool {
        let capacity = rule.max_keys.unwrap_or(DEFAULT_MAX_KEYS);
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

    /// The store check for a request.
    pub(super) fn check(&self, request: &StoreRequest, exact: &ExactStore) -> KeyCheck {
        let permit = (self.encoded.has_permits() && request.cost > 0).then(|| exact.permits().new_id());
        let key = StoreKey::new(&self.prefix, &self.rule, request.key.as_bytes(), self.encoded.shape());
        KeyCheck { key, limits: Arc::clone(&self.encoded), cost: request.cost, permit }
    }

    /// Store key of a key's leases.
    pub(super) fn lease_key(&self, key: &CanonicalKey) -> StoreKey {
        let shape = format!("lease+{}", self.encoded.shape());
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

/// A lease result as the engine's decision type.
pub(super) fn lease_decision(check: Check, status: Status) -> StoreDecision {
    StoreDecision { check, limit: 0, status }
}

impl StoreLimits for ClusterLimits {
    #[inline]
    fn decide_locally(&self, key: u64, cost: u64, _now: Timestamp) -> Option<(StoreDecision, LeaseToken)> {
        if self.estimates {
            // A later settlement needs the key itself.
            return None;
        }
        match self.leases.as_ref()?.try_take(key, cost)? {
            LocalResult::Acquired(receipt, status) => {
                Some((lease_decision(Check::Now, status), LeaseToken(receipt.token())))
            }
            LocalResult::NotBefore(wait, status) => {
                Some((lease_decision(Check::NotBefore(wait), status), LeaseToken::default()))
            }
            LocalResult::Never => {
                let limit = self.leases.as_ref().map_or(0, |leases| leases.params().capacity());
                Some((
                    lease_decision(Check::Never, Status { limit, remaining: limit, reset: 0 }),
                    LeaseToken::default(),
                ))
            }
            LocalResult::Waiting(_) | LocalResult::Full => None,
        }
    }

    fn settle(&self, key: u64, taken: u64, actual: u64, token: LeaseToken) {
        // Refunds only: estimates are settled with their key.
        if let (Some(leases), Some(unused)) = (&self.leases, taken.checked_sub(actual)) {
            leases.return_tokens(key, LeaseReceipt::from_token(token.0, unused));
        }
    }
}

/// Slices are returned with the last sluice that uses the limits.
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
