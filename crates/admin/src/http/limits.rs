//! `GET /v1/limits`: effective limits, which differ from the file while the store is unavailable.

use serde::Serialize;
use sluicegate_cluster::{ClusterStore, StoreState};
use sluicegate_engine::algorithm::{LimitUnit, ParameterValue};
use sluicegate_engine::limit::DEFAULT_CELLS;
use sluicegate_engine::rule::{OnStoreFailure, Rule, Scope};
use sluicegate_engine::store::{Store, share_of};
use sluicegate_engine::{Limit, Sluice};
use utoipa::ToSchema;

use super::reply::{self, Reply};
use super::rules::ScopeName;

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
    /// Limit in the notation of the rule file, in its shortest form.
    limit: String,
    /// Limit in words.
    label: String,
    algorithm: &'static str,
    unit: LimitUnitName,
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

/// Quantity that a limit counts.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LimitUnit)]
enum LimitUnitName {
    Requests,
    Permits,
    Bytes,
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
        let (amount, window) = limit.quota();
        let arguments = limit.arguments();
        let parameters = limit.description().parameters;
        let argument = |name: &str| arguments.get(parameters.iter().position(|parameter| parameter.name == name)?);
        let count = |name| if let Some(ParameterValue::Count(count)) = argument(name) { Some(count) } else { None };
        let count32 = |name| count(name).and_then(|count| u32::try_from(count).ok());
        let main = parameters.first().zip(arguments.get(0));
        Self {
            limit: limit.short_notation(),
            label: limit.label(),
            algorithm: limit.algorithm(),
            unit: match limit.unit() {
                LimitUnit::Requests => LimitUnitName::Requests,
                LimitUnit::Permits => LimitUnitName::Permits,
                LimitUnit::Bytes => LimitUnitName::Bytes,
            },
            amount,
            window_s: window.map(|window| window.as_secs_f64()),
            burst: count("burst").or_else(|| count("queue")),
            rate: window.and(main).map(|(parameter, value)| parameter.format(value)),
            cells: count32("cells").filter(|cells| *cells != DEFAULT_CELLS),
            alignment: match argument("align") {
                Some(ParameterValue::Keyword(0)) => Some(AlignmentName::Epoch),
                Some(_) => Some(AlignmentName::FirstUse),
                None => None,
            },
            warm_up_s: match argument("over") {
                Some(ParameterValue::Duration(duration)) => Some(duration.as_secs_f64()),
                _ => None,
            },
            cold_factor: count32("cold_factor"),
        }
    }
}
