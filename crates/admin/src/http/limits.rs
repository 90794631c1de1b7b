//! Effective limits: what is decided by now, which is not what the file says while the store is lost.

use serde::Serialize;
use sluicegate_cluster::{ClusterStore, State};
use sluicegate_engine::fleet::{FleetStore, share_of};
use sluicegate_engine::rule::{OnStoreFailure, Rule, Scope};
use sluicegate_engine::{Limit, Sluice};

use super::reply::{self, Reply};
use super::rules;

#[derive(Serialize)]
struct All {
    rules: Vec<OfRule>,
}

#[derive(Serialize)]
struct OfRule {
    name: String,
    limits: Vec<Effective>,
    scope: &'static str,
    share_of_nodes: Option<u32>,
    degraded: bool,
}

#[derive(Serialize)]
struct Effective {
    limit: String,
    algorithm: &'static str,
    amount: u64,
    window_s: Option<f64>,
    burst: Option<u64>,
}

/// Of all rules.
pub(super) fn all(sluice: &Sluice, store: Option<&ClusterStore>) -> Reply {
    let lost = store.filter(|store| store.health().state != State::Connected);
    let nodes = lost.map(|store| store.nodes());
    reply::ok(&All { rules: sluice.rules().iter().map(|rule| of_rule(rule, nodes)).collect() })
}

/// `lost_among`: how many processes share what a lost store counted.
fn of_rule(rule: &Rule, lost_among: Option<u32>) -> OfRule {
    let lost = match rule.scope {
        Scope::Cluster { on_store_failure, .. } => lost_among.map(|nodes| (nodes, on_store_failure)),
        Scope::Local => None,
    };
    let (limits, share_of_nodes): (Vec<Limit>, _) = match lost {
        Some((nodes, OnStoreFailure::LocalShare)) => {
            // Where a share would be nothing at all, nothing is admitted: there is no such limit to tell.
            let shares = rule.limits.iter().filter_map(|limit| share_of(*limit, nodes).ok().flatten());
            (shares.collect(), Some(nodes))
        }
        // Everything is admitted, or nothing: by no limit.
        Some(_) => (Vec::new(), None),
        None => (rule.limits.clone(), None),
    };
    OfRule {
        name: rule.name.clone(),
        limits: limits.iter().map(effective).collect(),
        scope: rules::scope(rule),
        share_of_nodes,
        degraded: lost.is_some(),
    }
}

fn effective(limit: &Limit) -> Effective {
    let rated = |rate: sluicegate_engine::Rate, burst| (rate.count(), Some(rate.period()), burst);
    let (amount, window, burst) = match limit {
        Limit::TokenBucket(it) | Limit::Bandwidth(it) => rated(it.rate(), Some(it.burst())),
        Limit::LeakyBucket(it) => rated(it.rate(), Some(it.queue())),
        Limit::WarmUp(it) => rated(it.rate(), None),
        other => (other.capacity(), other.window(), None),
    };
    Effective {
        limit: rules::limit(limit),
        algorithm: limit.algorithm(),
        amount,
        window_s: window.map(|window| window.as_secs_f64()),
        burst,
    }
}
