//! `GET /v1/store`: health of the store.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_cluster::{ClusterStore, Leases, StoreState};

/// Health of the store.
#[derive(Serialize)]
pub(super) struct StoreView {
    url: Option<String>,
    state: &'static str,
    nodes: Option<u32>,
    decisions: u64,
    calls: u64,
    timeouts: u64,
    queue_full: u64,
    breaker_rejections: u64,
    late_responses: u64,
    failures: BTreeMap<&'static str, u64>,
    breaker_openings: u64,
    reconnects: u64,
    replaced_values: u64,
    warnings: Vec<String>,
    last_error: Option<String>,
    leases: LeasesView,
}

/// Leases of this process.
#[derive(Serialize)]
struct LeasesView {
    keys: u64,
    tokens: u64,
    acquired: u64,
    renewed: u64,
    returned: u64,
    expired: u64,
}

impl From<Leases> for LeasesView {
    fn from(leases: Leases) -> Self {
        let Leases { keys, tokens, taken, renewed, returned, expired, .. } = leases;
        Self { keys, tokens, acquired: taken, renewed, returned, expired }
    }
}

impl StoreView {
    pub(super) fn new(store: &ClusterStore, url: Option<String>) -> Self {
        let health = store.health();
        Self {
            url,
            state: state_name(health.state),
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

/// Name of a store state.
pub(crate) const fn state_name(state: StoreState) -> &'static str {
    match state {
        StoreState::Connecting => "connecting",
        StoreState::Connected => "up",
        StoreState::Degraded { .. } => "degraded",
        StoreState::Closed => "down",
    }
}
