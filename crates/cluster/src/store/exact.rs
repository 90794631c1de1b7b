//! Exact decisions: made in the store, many per call.

use redis::Value;

use super::permits::PermitRenewer;
use crate::client::{Batch, StoreClient};
use crate::decision::{DecisionRequest, KeyCheck, KeyDecision, KeyDecisions};
use crate::error::StoreError;
use crate::exact::{Release, decode_acquire, encode_acquire, encode_release};
use crate::invocation::Invocation;

/// Batches decision requests into calls of the acquire script.
pub(super) struct ExactBatch;

impl Batch for ExactBatch {
    type Item = DecisionRequest;
    type Reply = (KeyDecisions, u64);

    fn slot(&self, request: &DecisionRequest) -> u16 {
        request.checks.first().map_or(0, |check| check.key.slot())
    }

    fn encode(&self, requests: &[DecisionRequest]) -> Invocation {
        encode_acquire(requests, None)
    }

    fn decode(&self, reply: Value, requests: &[DecisionRequest]) -> Result<Vec<Self::Reply>, StoreError> {
        let (decisions, replaced) =
            decode_acquire(reply, requests).map_err(|error| StoreError::invalid_reply(error.to_string()))?;
        // Counted with the first, since it does not matter to which request they belong.
        Ok(decisions.into_iter().zip(std::iter::once(replaced).chain(std::iter::repeat(0))).collect())
    }

    fn undo(&self, undelivered: &[(DecisionRequest, Self::Reply)]) -> Option<Invocation> {
        let releases = undelivered.iter().flat_map(|(request, (decision, _))| undo_releases(&request.checks, decision));
        let releases: Vec<Release> = releases.collect();
        (!releases.is_empty()).then(|| encode_release(&releases, None))
    }
}

/// Releases of everything that a request took.
fn undo_releases<'a>(checks: &'a [KeyCheck], decision: &'a [KeyDecision]) -> impl Iterator<Item = Release> + 'a {
    let taken = decision.iter().all(KeyDecision::admits);
    checks
        .iter()
        .zip(decision)
        .filter(move |(check, _)| taken && check.cost > 0)
        .map(|(check, decision)| release_of(check, decision, 0))
}

/// The release of one check, with its actual cost.
pub(super) fn release_of(check: &KeyCheck, decision: &KeyDecision, actual: u64) -> Release {
    Release {
        key: check.key.clone(),
        limits: check.limits.clone(),
        taken: check.cost,
        at: decision.at,
        actual,
        permit: check.permit,
    }
}

/// Context for exact decisions.
#[derive(Clone)]
pub(super) struct ExactStore {
    client: StoreClient<ExactBatch>,
    permits: PermitRenewer,
    /// True on a Redis Cluster: a call reaches one slot only.
    is_cluster: bool,
}

impl ExactStore {
    pub(super) const fn new(client: StoreClient<ExactBatch>, permits: PermitRenewer, in_slots: bool) -> Self {
        Self { client, permits, is_cluster: in_slots }
    }

    pub(super) const fn permits(&self) -> &PermitRenewer {
        &self.permits
    }

    pub(super) const fn client(&self) -> &StoreClient<ExactBatch> {
        &self.client
    }

    pub(super) const fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    /// True if two checks can be decided in one call.
    pub(super) fn share_call(&self, one: &KeyCheck, other: &KeyCheck) -> bool {
        !self.is_cluster || one.key.slot() == other.key.slot()
    }
}
