//! Acquisition of everything a request needs, in several steps if one call does not reach all of it.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, select};
use sluicegate_engine::algorithm::{Check, Status};
use sluicegate_engine::store::{StoreDecision, StoreOutcome, StoreReceipt, StoreReply, StoreRequest, StoreUnavailable};
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::exact::{ExactStore, release_of};
use super::limits::lease_decision;
use crate::decision::{DecisionRequest, KeyCheck, KeyDecision, KeyDecisions};
use crate::exact::{Release, decode_release, encode_release};
use crate::keys::StoreKey;
use crate::lease::{LeaseOutcome, LeaseReceipt, LeaseTable, LocalResult};

/// Maximum refund: higher numbers are not exact in a script, and no limit is that high.
const MAX_REFUND: u64 = 1 << 50;

/// Timeout of a release. Quota lost by then refills or expires with time.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Steps of an acquisition, in order: leases, which are mostly local, then the store. Checks that one call can
/// decide go together.
pub(super) struct Acquisition {
    exact: ExactStore,
    leases: SmallVec<[LeaseStep; 1]>,
    calls: SmallVec<[StoreCall; 1]>,
    /// Number of store requests.
    request_count: usize,
}

struct LeaseStep {
    index: usize,
    hash: u64,
    cost: u64,
    key: StoreKey,
    table: Arc<LeaseTable>,
}

struct StoreCall {
    checks: SmallVec<[KeyCheck; 1]>,
    /// Indices of the store requests they belong to.
    indices: SmallVec<[usize; 1]>,
}

impl Acquisition {
    pub(super) fn new(exact: &ExactStore) -> Self {
        Self { exact: exact.clone(), leases: SmallVec::new(), calls: SmallVec::new(), request_count: 0 }
    }

    /// Adds a request decided by lease.
    pub(super) fn add_lease(
        &mut self,
        index: usize,
        table: &Arc<LeaseTable>,
        request: &StoreRequest,
        key: impl FnOnce() -> StoreKey,
    ) {
        let (hash, cost) = (request.hash, request.cost);
        self.leases.push(LeaseStep { index, hash, cost, key: key(), table: Arc::clone(table) });
        self.request_count += 1;
    }

    /// Adds a request decided in the store.
    pub(super) fn add_check(&mut self, index: usize, check: KeyCheck) {
        self.request_count += 1;
        let exact = &self.exact;
        let same_call =
            |step: &&mut StoreCall| step.checks.first().is_some_and(|first| exact.share_call(first, &check));
        match self.calls.iter_mut().find(same_call) {
            Some(step) => {
                step.checks.push(check);
                step.indices.push(index);
            }
            None => self
                .calls
                .push(StoreCall { checks: SmallVec::from_iter([check]), indices: SmallVec::from_iter([index]) }),
        }
    }

    /// True if a single call suffices, which has its own deadline.
    pub(super) fn is_single_call(&self) -> bool {
        self.leases.is_empty() && self.calls.len() <= 1
    }

    /// Acquires everything, or nothing, within this time: several steps may add up.
    pub(super) async fn acquire_within(self, deadline: Duration) -> StoreReply {
        let (timer, passed) = oneshot::channel::<Infallible>();
        self.exact.client().spawn(async move {
            tokio::time::sleep(deadline).await;
            drop(timer);
        });
        match select(pin!(self.acquire()), passed).await {
            Either::Left((reply, _)) => reply,
            Either::Right(_) => Err(StoreUnavailable),
        }
    }

    /// Acquires everything, or nothing: earlier steps are undone if a later one refuses or fails, or if the caller
    /// is gone.
    pub(super) async fn acquire(self) -> StoreReply {
        let mut taken = Acquired::new(&self.exact);
        let mut decision: SmallVec<[StoreDecision; 1]> =
            SmallVec::from_elem(StoreDecision::NOT_CHECKED, self.request_count);
        for lease in self.leases {
            let index = lease.index;
            decision[index] = lease.acquire(&mut taken).await?;
            if !admits(&decision[index]) {
                return Ok(StoreOutcome { decisions: decision, receipt: None });
            }
        }
        for StoreCall { checks, indices } in self.calls {
            let reply = self.exact.check(&checks).await?;
            for (index, key_decision) in indices.iter().zip(&reply) {
                decision[*index] = StoreDecision::from(*key_decision);
            }
            if !reply.iter().all(KeyDecision::admits) {
                return Ok(StoreOutcome { decisions: decision, receipt: None });
            }
            taken.add(indices, checks, &reply);
        }
        taken.is_admitted = true;
        Ok(StoreOutcome { decisions: decision, receipt: Some(Box::new(taken)) })
    }
}

fn admits(decision: &StoreDecision) -> bool {
    matches!(decision.check, Check::Now | Check::After(_))
}

impl LeaseStep {
    async fn acquire(self, taken: &mut Acquired) -> Result<StoreDecision, StoreUnavailable> {
        let Self { index, hash, cost, key, table } = self;
        let capacity = table.params().capacity();
        let unknown = Status { limit: capacity, remaining: 0, reset: 0 };
        let (outcome, status) = match table.take(hash, cost, || key.clone()) {
            LocalResult::Acquired(receipt, status) => (LeaseOutcome::Acquired(receipt), Some(status)),
            LocalResult::NotBefore(wait, status) => (LeaseOutcome::NotBefore(wait), Some(status)),
            LocalResult::Never => return Ok(lease_decision(Check::Never, Status { remaining: capacity, ..unknown })),
            LocalResult::Full => return Err(StoreUnavailable),
            // It may wait for two replies in sequence: a deadline of its own ends that.
            LocalResult::Waiting(waiting) => {
                taken.exact.client().within_deadline(waiting).await.unwrap_or((LeaseOutcome::Failed, None))
            }
        };
        let status = status.unwrap_or(unknown);
        match outcome {
            LeaseOutcome::Acquired(receipt) => {
                taken.leased.push(LeasedTokens { index, hash, cost, key, receipt, table });
                Ok(lease_decision(Check::Now, status))
            }
            LeaseOutcome::NotBefore(wait) => Ok(lease_decision(Check::NotBefore(wait), status)),
            LeaseOutcome::Failed => Err(StoreUnavailable),
        }
    }
}

impl ExactStore {
    async fn check(&self, checks: &SmallVec<[KeyCheck; 1]>) -> Result<KeyDecisions, StoreUnavailable> {
        let (reply, replaced) =
            self.client().submit(DecisionRequest { checks: checks.clone() }).await.map_err(|_| StoreUnavailable)?;
        if replaced > 0 {
            self.client().counters().replaced.fetch_add(replaced, Ordering::Relaxed);
        }
        Ok(reply)
    }

    /// Sends releases without waiting for them.
    fn release(&self, mut releases: Vec<Release>) {
        while let Some(first) = releases.first() {
            let slot = first.key.slot();
            let (together, rest) =
                releases.into_iter().partition(|release: &Release| !self.is_cluster() || release.key.slot() == slot);
            releases = rest;
            let call = self.client().call(encode_release(&together, None), RELEASE_TIMEOUT);
            let client = self.client().clone();
            self.client().spawn(async move {
                if let Ok(Ok((_, replaced))) = call.await.map(|reply| decode_release(reply, &together)) {
                    client.counters().replaced.fetch_add(replaced, Ordering::Relaxed);
                }
            });
        }
    }
}

/// Everything a request has acquired. Dropped before the request was admitted, all of it is returned.
struct Acquired {
    exact: ExactStore,
    /// Request index, check and decision.
    checks: Vec<(usize, KeyCheck, KeyDecision)>,
    leased: Vec<LeasedTokens>,
    /// True if the request was admitted.
    is_admitted: bool,
}

/// Tokens taken from a lease.
struct LeasedTokens {
    index: usize,
    hash: u64,
    cost: u64,
    key: StoreKey,
    receipt: LeaseReceipt,
    table: Arc<LeaseTable>,
}

impl Acquired {
    fn new(exact: &ExactStore) -> Self {
        Self { exact: exact.clone(), checks: Vec::new(), leased: Vec::new(), is_admitted: false }
    }

    fn add(&mut self, indices: SmallVec<[usize; 1]>, checks: SmallVec<[KeyCheck; 1]>, decision: &[KeyDecision]) {
        for ((index, check), decision) in indices.into_iter().zip(checks).zip(decision) {
            self.exact.permits().track(&check);
            self.checks.push((index, check, *decision));
        }
    }

    /// Releases everything; `actual` gives the actual cost of each request index.
    fn finish(&mut self, actual: impl Fn(usize, u64) -> u64) {
        for LeasedTokens { index, hash, cost, key, receipt, table } in self.leased.drain(..) {
            match actual(index, cost).checked_sub(cost) {
                Some(0) => {}
                Some(beyond) => table.charge(hash, beyond, || key),
                None => table.return_tokens(hash, receipt.partial(cost - actual(index, cost))),
            }
        }
        let mut releases = Vec::new();
        for (index, check, decision) in self.checks.drain(..) {
            self.exact.permits().untrack(&check);
            let actual = actual(index, check.cost);
            if check.permit.is_some() || actual != check.cost {
                releases.push(release_of(&check, &decision, actual));
            }
        }
        self.exact.release(releases);
    }
}

impl StoreReceipt for Acquired {
    fn holds_resources(&self) -> bool {
        self.checks.iter().any(|(_, check, _)| check.permit.is_some())
    }

    fn end(mut self: Box<Self>, actual: &[u64]) {
        self.finish(|index, cost| actual.get(index).copied().unwrap_or(cost));
    }

    /// Leased tokens may have been another process's, and are not refunded.
    fn refund(mut self: Box<Self>, amounts: &[u64]) {
        let before = |(index, check, decision): &(usize, KeyCheck, KeyDecision)| {
            let taken = amounts.get(*index).copied().unwrap_or(0).min(MAX_REFUND);
            Release { taken, at: 0, ..release_of(check, decision, 0) }
        };
        self.exact.release(self.checks.iter().map(before).collect());
        self.finish(|_, cost| cost);
    }
}

impl Drop for Acquired {
    fn drop(&mut self) {
        if self.is_admitted {
            // Rates were spent; permits are released in any case.
            self.finish(|_, cost| cost);
        } else {
            self.finish(|_, _| 0);
        }
    }
}

impl std::fmt::Debug for Acquired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taken").field("units", &self.checks).finish_non_exhaustive()
    }
}
