//! How the store is doing.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_cluster::{ClusterStore, Leases, State};

/// The store, as answers have it.
#[derive(Serialize)]
pub(super) struct Shown {
    url: Option<String>,
    state: &'static str,
    nodes: Option<u32>,
    asks: u64,
    calls: u64,
    timeouts: u64,
    overloads: u64,
    refusals: u64,
    late_answers: u64,
    failures: BTreeMap<&'static str, u64>,
    breaker_openings: u64,
    reconnects: u64,
    healed: u64,
    warnings: Vec<String>,
    last_error: Option<String>,
    leases: ShownLeases,
}

/// What this process has leased.
#[derive(Serialize)]
struct ShownLeases {
    keys: u64,
    tokens: u64,
    taken: u64,
    renewed: u64,
    returned: u64,
    expired: u64,
}

impl From<Leases> for ShownLeases {
    fn from(leases: Leases) -> Self {
        let Leases { keys, tokens, taken, renewed, returned, expired, .. } = leases;
        Self { keys, tokens, taken, renewed, returned, expired }
    }
}

impl Shown {
    pub(super) fn new(store: &ClusterStore, url: Option<String>) -> Self {
        let health = store.health();
        Self {
            url,
            state: state_name(health.state),
            nodes: health.live_nodes,
            asks: health.asks,
            calls: health.calls,
            timeouts: health.timeouts,
            overloads: health.overloads,
            refusals: health.refusals,
            late_answers: health.late_answers,
            failures: health.failures.iter().map(|(kind, count)| (kind.name(), *count)).collect(),
            breaker_openings: health.breaker_openings,
            reconnects: health.reconnects,
            healed: health.healed,
            warnings: health.warnings,
            last_error: health.last_error,
            leases: health.leases.into(),
        }
    }
}

/// What a state is called.
pub(crate) const fn state_name(state: State) -> &'static str {
    match state {
        State::Connecting => "connecting",
        State::Connected => "up",
        State::Degraded { .. } => "degraded",
        State::Closed => "down",
    }
}
