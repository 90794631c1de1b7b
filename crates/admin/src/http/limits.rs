//! `GET /v1/limits`: effective limits, which differ from the file while the store is unavailable.

use serde::Serialize;
use sluicegate_cluster::{ClusterStore, StoreState};
use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::limit::DEFAULT_CELLS;
use sluicegate_engine::limit::parse::{HumanBytes, HumanDuration};
use sluicegate_engine::rule::{OnStoreFailure, Rule, Scope};
use sluicegate_engine::store::{Store, share_of};
use sluicegate_engine::{Limit, Sluice};
use utoipa::ToSchema;

use super::reply::{self, Reply};
use super::rules::{self, ScopeName};

/// Effective limits of all rules.
#[derive(Serialize, ToSchema)]
#[schema(as = Limits)]
pub(super) struct EffectiveLimitList {
    rules: Vec<RuleLimitsView>,
}

/// Effective limits of a rule.
#[derive(Serialize, ToSchema)]
#[schema(as = RuleLimits)]
struct RuleLimitsView {
    name: String,
    /// Effective limits.
    limits: Vec<LimitView>,
    /// Limits in the rule file.
    configured: Vec<LimitView>,
    scope: ScopeName,
    share_of_nodes: Option<u32>,
    degraded: bool,
}

/// A limit.
#[derive(Serialize, ToSchema)]
#[schema(as = Limit)]
struct LimitView {
    /// Limit as text.
    limit: String,
    algorithm: &'static str,
    amount: u64,
    #[schema(minimum = 0)]
    window_s: Option<f64>,
    /// Burst of a token bucket or bandwidth limit, or queue of a leaky bucket.
    burst: Option<u64>,
    /// Rate as in the rule file: `50/s`; null for concurrency limits.
    rate: Option<String>,
    /// Cells of a sliding window, if not the default.
    cells: Option<u32>,
    alignment: Option<AlignmentName>,
    /// Warm-up time.
    #[schema(minimum = 0)]
    warm_up_s: Option<f64>,
    /// Ratio of the cold interval to the warm one.
    cold_factor: Option<u32>,
}

/// Alignment of a fixed window.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Alignment)]
enum AlignmentName {
    Epoch,
    FirstUse,
}

/// Lists the effective limits of all rules.
pub(super) fn list(sluice: &Sluice, store: Option<&ClusterStore>) -> Reply {
    let unavailable = store.filter(|store| store.health().state != StoreState::Connected);
    let nodes = unavailable.map(|store| store.nodes());
    reply::ok(&EffectiveLimitList { rules: sluice.rules().iter().map(|rule| rule_limits(rule, nodes)).collect() })
}

/// `nodes_without_store` is the number of processes that share the limit while the store is unavailable.
fn rule_limits(rule: &Rule, nodes_without_store: Option<u32>) -> RuleLimitsView {
    let degraded = match rule.scope {
        Scope::Cluster { on_store_failure, .. } => nodes_without_store.map(|nodes| (nodes, on_store_failure)),
        Scope::Local => None,
    };
    let (limits, share_of_nodes): (Vec<Limit>, _) = match degraded {
        Some((nodes, OnStoreFailure::LocalShare)) => {
            // If a share would be zero, nothing is admitted, so there is no limit to show.
            let shares = rule.limits.iter().filter_map(|limit| share_of(*limit, nodes).ok().flatten());
            (shares.collect(), Some(nodes))
        }
        // Everything or nothing is admitted: no limit applies.
        Some(_) => (Vec::new(), None),
        None => (rule.limits.clone(), None),
    };
    RuleLimitsView {
        name: rule.name.clone(),
        limits: limits.iter().map(LimitView::from).collect(),
        configured: rule.limits.iter().map(LimitView::from).collect(),
        scope: (&rule.scope).into(),
        share_of_nodes,
        degraded: degraded.is_some(),
    }
}

impl From<&Limit> for LimitView {
    fn from(limit: &Limit) -> Self {
        let rated = |rate: sluicegate_engine::Rate, burst| (rate.count(), Some(rate.period()), burst);
        let (amount, window, burst) = match limit {
            Limit::TokenBucket(it) | Limit::Bandwidth(it) => rated(it.rate(), Some(it.burst())),
            Limit::LeakyBucket(it) => rated(it.rate(), Some(it.queue())),
            Limit::WarmUp(it) => rated(it.rate(), None),
            other => (other.capacity(), other.window(), None),
        };
        let rate = match limit {
            Limit::TokenBucket(it) => Some(it.rate().to_string()),
            Limit::LeakyBucket(it) => Some(it.rate().to_string()),
            Limit::WarmUp(it) => Some(it.rate().to_string()),
            Limit::Bandwidth(it) => {
                let rate = it.rate();
                Some(format!("{}/{}", HumanBytes(rate.count()), HumanDuration(rate.period())))
            }
            _ => window.map(|window| format!("{amount}/{}", HumanDuration(window))),
        };
        let warm_up = if let Limit::WarmUp(it) = limit { Some(it) } else { None };
        Self {
            limit: rules::format_limit(limit),
            algorithm: limit.algorithm(),
            amount,
            window_s: window.map(|window| window.as_secs_f64()),
            burst,
            rate,
            cells: match limit {
                Limit::SlidingWindow(it) if it.cells() != DEFAULT_CELLS => Some(it.cells()),
                _ => None,
            },
            alignment: match limit {
                Limit::FixedWindow(it) if it.alignment() == Alignment::FirstUse => Some(AlignmentName::FirstUse),
                Limit::FixedWindow(_) => Some(AlignmentName::Epoch),
                _ => None,
            },
            warm_up_s: warm_up.map(|it| it.warm_up().as_secs_f64()),
            cold_factor: warm_up.map(|it| it.cold_factor()),
        }
    }
}
