//! Ad hoc limits counted by a shared store, for the whole cluster.
//!
//! A store counts by rules, so the parameters of a call become a rule with a name made of the parameters. Calls
//! with the same parameters and key are counted together, in any process. Other parameters are a separate count.
//! This differs from local counting, which keeps a key's arrival time across a change of parameters.
//!
//! While the store is unavailable, each process admits its local share of the limit.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::smallvec;

use super::{AdHoc, AdHocError, ThrottleResult};
use crate::algorithm::{Algorithm, Alignment, Check};
use crate::limit::{Limit, LimitError, Rate};
use crate::rule::{Attribute, ClusterMode, OnStoreFailure, Rule, Scope};
use crate::store::{
    AcquireCall, CanonicalKey, Store, StoreDecision, StoreLimits, StoreOutcome, StoreRequest, StoreUnavailable,
    share_of,
};
use crate::table::hash_with;
use crate::time::Timestamp;

/// Maximum number of cached parameter sets. If exceeded, the cache is cleared.
const MAX_PREPARED: usize = 1_024;

/// Operation on a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Take this amount; zero only reads the state.
    Take(u64),
    /// Give back this amount.
    GiveBack(u64),
}

/// Future of a store decision.
pub type ThrottleFuture = Pin<Box<dyn Future<Output = Result<ThrottleResult, AdHocError>> + Send>>;

/// Parameters of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LimitParams {
    Bucket { max_burst: u64, count: u64, period: Duration },
    Window { requests: u64, unit: Duration },
}

impl LimitParams {
    fn limit(self) -> Result<Limit, LimitError> {
        match self {
            Self::Bucket { max_burst, count, period } => {
                Limit::token_bucket(Rate::new(count, period)?, max_burst.saturating_add(1))
            }
            Self::Window { requests, unit } => Limit::fixed_window(requests, unit, Alignment::Epoch),
        }
    }

    /// Share of the limit for one of `nodes` processes.
    fn share(self, nodes: u32) -> Result<Self, LimitError> {
        Ok(match share_of(self.limit()?, nodes)? {
            Some(Limit::TokenBucket(share)) => {
                let rate = share.rate();
                Self::Bucket { max_burst: share.burst() - 1, count: rate.count(), period: rate.period() }
            }
            Some(Limit::FixedWindow(share)) => Self::Window { requests: share.limit(), unit: share.window() },
            _ => self,
        })
    }

    /// Unique rule name for these parameters.
    fn name(self) -> String {
        match self {
            Self::Bucket { max_burst, count, period } => format!("adhoc-{max_burst}-{count}-{}", period.as_nanos()),
            Self::Window { requests, unit } => format!("adhoc-{requests}-{}", unit.as_nanos()),
        }
    }
}

/// The store and its cached limits.
pub(super) struct ClusterLimits {
    store: Arc<dyn Store>,
    prepared: Mutex<HashMap<LimitParams, Arc<dyn StoreLimits>>>,
}

impl ClusterLimits {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, prepared: Mutex::new(HashMap::new()) }
    }

    fn limits(&self, params: LimitParams, seed: u64) -> Result<Arc<dyn StoreLimits>, LimitError> {
        let mut prepared = self.prepared.lock();
        if let Some(known) = prepared.get(&params) {
            return Ok(Arc::clone(known));
        }
        let mut rule = Rule::new(params.name(), [params.limit()?]);
        rule.key = vec![Attribute::custom("key").into()];
        rule.scope = Scope::Cluster { mode: ClusterMode::Exact, on_store_failure: OnStoreFailure::LocalShare };
        let opened = self.store.open(&rule, seed)?;
        if prepared.len() >= MAX_PREPARED {
            prepared.clear();
        }
        prepared.insert(params, Arc::clone(&opened));
        Ok(opened)
    }
}

impl AdHoc {
    /// True if a store counts.
    pub const fn is_shared(&self) -> bool {
        self.cluster.is_some()
    }

    /// [`AdHoc::bucket`], counted by the store if there is one.
    pub fn bucket_async(
        self: &Arc<Self>,
        key: &[u8],
        max_burst: u64,
        count: u64,
        period: Duration,
        operation: Operation,
    ) -> Result<ThrottleFuture, AdHocError> {
        self.throttle_async(key, LimitParams::Bucket { max_burst, count, period }, operation)
    }

    /// [`AdHoc::window`], counted by the store if there is one.
    pub fn window_async(
        self: &Arc<Self>,
        key: &[u8],
        requests: u64,
        unit: Duration,
        operation: Operation,
    ) -> Result<ThrottleFuture, AdHocError> {
        self.throttle_async(key, LimitParams::Window { requests, unit }, operation)
    }

    fn throttle_async(
        self: &Arc<Self>,
        key: &[u8],
        params: LimitParams,
        operation: Operation,
    ) -> Result<ThrottleFuture, AdHocError> {
        let counts = !matches!(params, LimitParams::Window { requests: 0, .. });
        // A limit that admits nothing is not counted.
        let Some(cluster) = self.cluster.as_ref().filter(|_| counts) else {
            return Ok(Box::pin(std::future::ready(self.decide_locally(key, params, operation))));
        };
        let limits = cluster.limits(params, self.seed)?;
        let cost = if let Operation::Take(cost) = operation { cost } else { 0 };
        let hash = hash_with(self.seed, key).0;
        let pending =
            cluster.store.acquire(smallvec![StoreRequest { limits, hash, key: CanonicalKey::from(key), cost }]);
        let (this, key) = (Arc::clone(self), key.to_vec());
        Ok(Box::pin(async move {
            let reply = match pending {
                AcquireCall::Ready(reply) => reply,
                AcquireCall::Pending(reply) => reply.await,
            };
            match reply {
                Ok(granted) => this.apply_reply(granted, params, operation),
                Err(StoreUnavailable) => this.decide_local_share(&key, params, operation),
            }
        }))
    }

    fn apply_reply(
        &self,
        granted: StoreOutcome,
        params: LimitParams,
        operation: Operation,
    ) -> Result<ThrottleResult, AdHocError> {
        let StoreOutcome { decisions, receipt: taken } = granted;
        let StoreDecision { check, mut status, .. } = decisions.first().copied().unwrap_or(StoreDecision::NOT_CHECKED);
        if let (Operation::GiveBack(amount), Some(taken)) = (operation, taken) {
            taken.refund(&[amount]);
            status.remaining = status.remaining.saturating_add(amount).min(status.limit);
        }
        let limit = params.limit()?;
        let reset_after = match limit {
            Limit::FixedWindow(window) => {
                let now = self.clock.now();
                Timestamp::from_nanos(window.commit(&mut [0, 0], now, 0, false)) - now
            }
            _ => Duration::from_nanos(status.reset),
        };
        Ok(ThrottleResult {
            limited: !matches!(check, Check::Now | Check::After(_)),
            limit: limit.capacity(),
            remaining: status.remaining,
            retry_after: if let Check::NotBefore(wait) = check { Some(Duration::from_nanos(wait)) } else { None },
            reset_after,
        })
    }

    /// Decides by this process's share while the store is unavailable.
    fn decide_local_share(
        &self,
        key: &[u8],
        params: LimitParams,
        operation: Operation,
    ) -> Result<ThrottleResult, AdHocError> {
        let nodes = self.cluster.as_ref().map_or(1, |cluster| cluster.store.nodes());
        let local = self.decide_locally(key, params.share(nodes)?, operation)?;
        Ok(ThrottleResult { limit: params.limit()?.capacity(), ..local })
    }

    /// Decides in this process.
    fn decide_locally(
        &self,
        key: &[u8],
        params: LimitParams,
        operation: Operation,
    ) -> Result<ThrottleResult, AdHocError> {
        match (params, operation) {
            (LimitParams::Bucket { max_burst, count, period }, Operation::Take(cost)) => {
                self.bucket(key, max_burst, count, period, cost)
            }
            (LimitParams::Bucket { max_burst, count, period }, Operation::GiveBack(cost)) => {
                self.give_back_to_bucket(key, max_burst, count, period, cost)
            }
            (LimitParams::Window { requests, unit }, Operation::Take(hits)) => self.window(key, requests, unit, hits),
            (LimitParams::Window { requests, unit }, Operation::GiveBack(hits)) => {
                self.give_back_to_window(key, requests, unit, hits)
            }
        }
    }
}
