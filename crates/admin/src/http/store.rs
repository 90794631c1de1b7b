//! `GET /v1/store`: health of the store.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_cluster::{ClusterStore, Leases, StoreState};
use utoipa::ToSchema;

/// Health of the store.
#[derive(Serialize, ToSchema)]
#[schema(as = Store)]
pub(super) struct StoreView {
    /// Address without the password.
    url: Option<String>,
    state: StateName,
    /// Number of processes that share the store, as last known.
    nodes: Option<u32>,
    /// Decisions that required the store.
    decisions: u64,
    /// Calls sent to the store, each for many decisions.
    calls: u64,
    /// Decisions that the store did not return in time.
    timeouts: u64,
    /// Decisions made without the store because its queue was full.
    queue_full: u64,
    /// Decisions made without the store because the circuit breaker was open.
    breaker_rejections: u64,
    /// Responses that arrived after the timeout.
    late_responses: u64,
    /// Failed calls by reason.
    failures: BTreeMap<&'static str, u64>,
    breaker_openings: u64,
    reconnects: u64,
    /// Foreign or corrupt values that were replaced.
    replaced_values: u64,
    warnings: Vec<String>,
    last_error: Option<String>,
    leases: LeasesView,
}

/// Leases of this process: slices of limits from which it decides locally. Current state, and totals since the start.
#[derive(Serialize, ToSchema)]
#[schema(as = Leases)]
struct LeasesView {
    /// Keys with a lease.
    keys: u64,
    /// Unspent tokens of these leases.
    tokens: u64,
    /// Leases acquired for keys that had none.
    acquired: u64,
    /// Leases extended, with or without more tokens.
    renewed: u64,
    /// Leases returned, fully or partly unspent.
    returned: u64,
    /// Leases that expired before they were spent. The unspent tokens count as spent.
    expired: u64,
}

/// State of the store.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = StoreState)]
pub(crate) enum StateName {
    Connecting,
    Up,
    Degraded,
    Down,
}

impl From<Leases> for LeasesView {
    fn from(leases: Leases) -> Self {
        let Leases { keys, tokens, acquired, renewed, returned, expired, .. } = leases;
        Self { keys, tokens, acquired, renewed, returned, expired }
    }
}

impl StoreView {
    pub(super) fn new(store: &ClusterStore, url: Option<String>) -> Self {
        let health = store.health();
        Self {
            url,
            state: health.state.into(),
            nodes: health.live_nodes,
            decisions: health.decisions,
            calls: health.calls,
            timeouts: health.timeouts,
            queue_full: health.overloads,
            breaker_rejections: health.refusals,
            late_responses: health.late_replies,
            failures: health.failures.iter().map(|(kind, count)| (kind.name(), *count)).collect(),
            breaker_openings: health.breaker_openings,
            reconnects: health.reconnects,
            replaced_values: health.replaced_values,
            warnings: health.warnings,
            last_error: health.last_error,
            leases: health.leases.into(),
        }
    }
}

impl From<StoreState> for StateName {
    fn from(state: StoreState) -> Self {
        match state {
            StoreState::Connecting => Self::Connecting,
            StoreState::Connected => Self::Up,
            StoreState::Degraded { .. } => Self::Degraded,
            StoreState::Closed => Self::Down,
        }
    }
}
