//! Cluster-wide rules: limits that all processes of a cluster share.
//!
//! They are decided last: lists, bans and local rules have admitted the request and charged its cost. Rules
//! that hold a lease of their limit decide immediately; otherwise one query asks the store for all of them
//! ([`PendingCheck`]). A refusal gives back the local charges. If the store is unavailable, each rule's failure
//! policy decides, if configured on its [`LocalShare`] of the limit.

mod local_share;
mod pending;
mod permits;
mod waiters;

use std::sync::Arc;

use smallvec::SmallVec;

use local_share::LocalShare;
pub(super) use pending::PendingCheck;
use permits::{CountedPermits, PermitCounter};
use waiters::WaiterCounts;

use super::check::{DecisionSource, RuleCheckResult};
use super::outcome::Outcome;
use super::select::{Selection, each_rule};
use super::snapshot::{BuildContext, RuleState};
use super::{RuleSetError, in_rule};
use crate::algorithm::{AdmitMode, Check, Status};
use crate::limit::Limit;
use crate::limit_set::Evaluation;
use crate::limiter::LimiterCore;
use crate::rule::{OnStoreFailure, Request, Rule, Scope};
use crate::store::{CanonicalKey, StoreDecision, StoreLimits, StoreReceipt, StoreReply, StoreRequest, StoreRequests};
use crate::time::Timestamp;

/// State of a cluster-wide rule.
pub(super) struct ClusterRuleState {
    pub(super) limits: Arc<dyn StoreLimits>,
    on_failure: OnStoreFailure,
    /// Limiter without the store, if that is the rule's failure policy.
    share: Option<Arc<LocalShare>>,
    waiting: WaiterCounts,
    permits: PermitCounter,
}

impl ClusterRuleState {
    /// Opens the rule's limits in the store; `None` if the rule is counted locally or has no limits.
    pub(super) fn open(rule: &Rule, context: &BuildContext<'_>) -> Result<Option<Arc<dyn StoreLimits>>, RuleSetError> {
        match (rule.scope, context.store) {
            (Scope::Cluster { .. }, Some(store)) if !rule.limits.is_empty() => {
                store.open(rule, context.seed).map(Some).map_err(in_rule(rule))
            }
            _ => Ok(None),
        }
    }

    /// State of a rule that the store counts with these limits; `None` for any other rule.
    pub(super) fn adopt(
        rule: &Rule,
        context: &BuildContext<'_>,
        memory: usize,
        old: Option<(&Rule, &RuleState)>,
        limits: Option<Arc<dyn StoreLimits>>,
    ) -> Result<Option<Arc<Self>>, RuleSetError> {
        let (Scope::Cluster { on_store_failure: on_failure, .. }, Some(limits)) = (rule.scope, limits) else {
            return Ok(None);
        };
        let old = old.and_then(|(_, state)| state.cluster.as_ref());
        let share = match on_failure {
            OnStoreFailure::LocalShare => {
                let old = old.and_then(|old| old.share.as_ref());
                Some(LocalShare::adopt(rule, context, memory, old)?)
            }
            OnStoreFailure::Open | OnStoreFailure::Closed => None,
        };
        let (waiting, permits) = old.map(|old| (old.waiting.clone(), old.permits.clone())).unwrap_or_default();
        Ok(Some(Arc::new(Self { limits, on_failure, share, waiting, permits })))
    }

    /// Limiter of the local share, if there is one.
    pub(super) fn share_limiter(&self) -> Option<Arc<LimiterCore>> {
        self.share.as_ref().map(|share| share.limiter())
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.count()
    }

    /// Permits held by this process, from the store and from its local share.
    pub(super) fn permits(&self) -> u64 {
        let of_share = self.share.as_ref().map_or(0, |share| share.limiter().permits());
        of_share + self.permits.count()
    }
}

/// Quota and permits taken from the store, with the checks they belong to.
pub(super) struct StorePermit {
    pub(super) checks: SmallVec<[usize; 1]>,
    pub(super) receipt: Box<dyn StoreReceipt>,
    /// The permits among them, counted until this is dropped.
    _permits: SmallVec<[CountedPermits; 1]>,
}

/// Store requests of checks that are decided together.
pub(super) struct StoreQuery {
    checks: SmallVec<[usize; 1]>,
    requests: StoreRequests,
}

impl StoreQuery {
    /// True if none of its rules is decided yet.
    fn is_undecided(&self, outcome: &Outcome) -> bool {
        self.checks.iter().all(|index| outcome.checks[*index].result.is_none())
    }
}

/// Decides cluster-wide rules that hold a lease. Returns true if the store must be queried for others.
pub(super) fn decide_from_leases(outcome: &mut Outcome, now: Timestamp) -> bool {
    if !outcome.snapshot.is_clustered() || !outcome.is_admitted() {
        return false;
    }
    let (mut open, mut refused) = (false, false);
    let mut charged: SmallVec<[usize; 4]> = SmallVec::new();
    for index in 0..outcome.checks.len() {
        let check = &mut outcome.checks[index];
        let Some(cluster) = &outcome.snapshot.state(check.rule).cluster else { continue };
        if check.result.is_some() || (refused && !check.shadow) {
            continue;
        }
        let Some((decision, token)) = cluster.limits.decide_locally(check.key.0, check.cost, now) else {
            open = true;
            continue;
        };
        let result = check.result.insert(RuleCheckResult::from_store(&decision, DecisionSource::Lease(token)));
        match (result.evaluation.admits(), check.shadow) {
            (true, false) => charged.push(index),
            (false, false) => refused = true,
            (_, true) => {}
        }
    }
    if open || refused {
        // One of them refuses, or all must be decided by the store together: undo the charges.
        for index in charged {
            let check = &mut outcome.checks[index];
            let source = check.result.take().map(|result| result.source);
            if let (Some(cluster), Some(DecisionSource::Lease(token))) =
                (&outcome.snapshot.state(check.rule).cluster, source)
            {
                cluster.limits.settle(check.key.0, check.cost, 0, token);
            }
        }
    }
    if refused || !open {
        outcome.conclude_cluster();
        return false;
    }
    true
}

/// Store queries: one for all enforced rules and one for each shadow rule. Includes rules just decided from a
/// lease: a retry may find the lease used up.
pub(super) fn store_queries(outcome: &Outcome, selection: Selection, request: &Request<'_>) -> Vec<StoreQuery> {
    if !outcome.snapshot.is_clustered() {
        return Vec::new();
    }
    let snapshot = &outcome.snapshot;
    let mut enforced = StoreQuery { checks: SmallVec::new(), requests: StoreRequests::new() };
    let mut queries = Vec::new();
    each_rule(snapshot, selection, request, |rule, params| {
        let Some(cluster) = &snapshot.state(rule).cluster else { return };
        let Some(index) = outcome.checks.iter().position(|check| check.rule == rule) else { return };
        let check = &outcome.checks[index];
        let Some(key) = CanonicalKey::of(&snapshot.rules()[rule].key, request, params) else { return };
        let store_request =
            StoreRequest { limits: Arc::clone(&cluster.limits), hash: check.key.0, key, cost: check.cost };
        if check.shadow {
            queries.push(StoreQuery {
                checks: SmallVec::from_elem(index, 1),
                requests: SmallVec::from_iter([store_request]),
            });
        } else {
            enforced.checks.push(index);
            enforced.requests.push(store_request);
        }
    });
    if !enforced.checks.is_empty() {
        queries.insert(0, enforced);
    }
    queries
}

impl RuleCheckResult {
    fn from_store(decision: &StoreDecision, source: DecisionSource) -> Self {
        let evaluation = Evaluation { check: decision.check, limit: decision.limit };
        Self { evaluation, status: decision.status, charge: None, source }
    }

    /// Result that was not counted anywhere.
    fn assumed(check: Check, limit: u64) -> Self {
        let remaining = if check == Check::Now { limit } else { 0 };
        let status = Status { limit, remaining, reset: 0 };
        Self { evaluation: Evaluation { check, limit: 0 }, status, charge: None, source: DecisionSource::Assumed }
    }
}

impl Outcome {
    /// Applies the store's reply for some checks.
    fn apply_reply(&mut self, checks: &[usize], reply: StoreReply, now: Timestamp) {
        match reply {
            Ok(outcome) => {
                for (index, decision) in
                    checks.iter().zip(&outcome.decisions).filter(|(_, result)| result.was_checked())
                {
                    self.checks[*index].result = Some(RuleCheckResult::from_store(decision, DecisionSource::Store));
                }
                if let Some(receipt) = outcome.receipt {
                    let permits = checks.iter().filter_map(|index| self.count_permits(*index)).collect();
                    self.store_permits.push(StorePermit {
                        checks: SmallVec::from_slice(checks),
                        receipt,
                        _permits: permits,
                    });
                }
            }
            Err(_) => checks.iter().for_each(|index| self.decide_without_store(*index, now)),
        }
    }

    /// Counts the permits that a check has taken from the store.
    fn count_permits(&self, index: usize) -> Option<CountedPermits> {
        let check = &self.checks[index];
        let limits = &self.snapshot.rules()[check.rule].limits;
        let cluster = self.snapshot.state(check.rule).cluster.as_ref()?;
        let permits = if limits.iter().all(Limit::is_concurrency) { check.cost } else { check.cost.min(1) };
        limits.iter().any(Limit::is_concurrency).then(|| cluster.permits.take(permits))
    }

    /// Decides one check by its rule's failure policy.
    fn decide_without_store(&mut self, index: usize, now: Timestamp) {
        let check = &mut self.checks[index];
        let Some(cluster) = &self.snapshot.state(check.rule).cluster else { return };
        let capacity = self.snapshot.rules()[check.rule].limits.first().map_or(0, Limit::capacity);
        let nodes = self.snapshot.nodes();
        let result = match (cluster.on_failure, &cluster.share) {
            (OnStoreFailure::Open, _) => RuleCheckResult::assumed(Check::Now, capacity),
            (OnStoreFailure::LocalShare, Some(share)) => match share.for_nodes(nodes) {
                Some(limiter) => {
                    let attempt = limiter.take(check.key, now, check.cost, AdmitMode::Reserve);
                    let result = RuleCheckResult::from_decision(&attempt.decision);
                    RuleCheckResult { charge: attempt.charge, source: DecisionSource::LocalShare, ..result }
                }
                None => RuleCheckResult::assumed(Check::Held, capacity),
            },
            (OnStoreFailure::Closed | OnStoreFailure::LocalShare, _) => RuleCheckResult::assumed(Check::Held, capacity),
        };
        check.result = Some(result);
    }

    /// Derives the verdict from all results; a refusal gives back all charges.
    fn conclude_cluster(&mut self) {
        self.conclude();
        if !self.is_admitted() {
            self.end(|_, _| 0);
        }
    }
}
