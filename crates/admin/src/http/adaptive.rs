//! `GET /v1/adaptive`: adaptive rules with their readings, limits and reasons.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use sluicegate_engine::Sluice;
use sluicegate_engine::limit::parse::HumanDuration;
use sluicegate_engine::overload::{Gate, GateLimits, OverloadNotice, VariableRate};
use sluicegate_engine::rule::{Adaptive, Comparison, Rule, Signal};
use sluicegate_http_adapter::api::openapi;
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::reply::{self, Reply};
use super::rules::AdaptiveKind;
use crate::providers::Providers;

/// Adaptive rules and the signals of the host.
#[derive(Serialize, ToSchema)]
#[schema(as = AdaptiveRules)]
pub(super) struct AdaptiveRuleList {
    rules: Vec<AdaptiveRuleView>,
    /// Last readings of the host; null if it is not measured.
    signals: Option<SignalReadings>,
}

/// Readings by signal name as in rule files; null if a signal is unreadable. Shares are 0 to 1, times are seconds.
#[derive(Serialize, ToSchema)]
struct SignalReadings(BTreeMap<&'static str, Option<f64>>);

/// An adaptive rule.
#[derive(Serialize, ToSchema)]
#[schema(as = AdaptiveRule)]
struct AdaptiveRuleView {
    name: String,
    kind: Option<AdaptiveKind>,
    /// Overload protection of the rule, as text.
    adaptive: String,
    #[schema(schema_with = state_schema)]
    state: &'static str,
    /// Reason for the current limit.
    reason: String,
    /// Current limit of requests in flight; null if unlimited.
    concurrency_limit: Option<usize>,
    /// Current rate limit; null if unlimited.
    rate: Option<RateView>,
    in_flight: usize,
    waiting: usize,
    #[schema(minimum = 0)]
    arrivals_per_s: f64,
    #[schema(minimum = 0)]
    refusals_per_s: f64,
    #[schema(minimum = 0)]
    responses_per_s: f64,
    avg_rt_ms: Option<f64>,
    p50_rt_ms: Option<f64>,
    p90_rt_ms: Option<f64>,
    p99_rt_ms: Option<f64>,
    /// Thresholds that activate the protection.
    conditions: Vec<ConditionView>,
    readings: SignalReadings,
}

/// A rate: requests per window.
#[derive(Serialize, ToSchema)]
#[schema(as = Rate)]
struct RateView {
    #[schema(minimum = 0)]
    count: f64,
    #[schema(minimum = 0)]
    window_s: f64,
}

/// Threshold of a signal.
#[derive(Serialize, ToSchema)]
#[schema(as = Condition)]
struct ConditionView {
    signal: &'static str,
    #[schema(schema_with = comparison_schema)]
    comparison: &'static str,
    threshold: f64,
}

/// Summary of an adaptive rule in a tick.
#[derive(Serialize, ToSchema)]
pub(crate) struct AdaptiveRuleSummary {
    name: String,
    kind: Option<AdaptiveKind>,
    #[schema(schema_with = state_schema)]
    state: &'static str,
    /// Current limit, as text.
    ceiling: String,
    /// Current limit of requests in flight; null if unlimited.
    concurrency_limit: Option<usize>,
    /// Current rate limit; null if unlimited.
    rate: Option<RateView>,
    /// Reason for the current limit.
    reason: String,
    /// Thresholds that activate the protection.
    conditions: Vec<ConditionView>,
    readings: SignalReadings,
}

/// States of the controllers.
const STATES: [&str; 10] =
    ["", "closed", "entering", "limited", "recovering", "learning", "steady", "growing", "backing off", "probing"];

fn state_schema() -> Object {
    let description = "State of the controller. `closed`: not limiting. Empty before the first step.";
    openapi::string_enum(STATES, Some(description))
}

fn comparison_schema() -> Object {
    let all = [Comparison::Above, Comparison::AtLeast, Comparison::Below, Comparison::AtMost];
    openapi::string_enum(all.map(Comparison::symbol), None)
}

/// Lists all adaptive rules.
pub(super) fn list(providers: &Providers) -> Reply {
    let rules = providers.sluice.gates().into_iter().map(|(rule, gate)| AdaptiveRuleView::new(rule, &gate)).collect();
    let signals = providers.readings.as_ref().map(|read| {
        let readings = read();
        let host = Signal::ALL.into_iter().filter(|signal| !signal.is_per_rule());
        SignalReadings(host.map(|signal| (signal.name(), readings.get(signal))).collect())
    });
    reply::ok(&AdaptiveRuleList { rules, signals })
}

/// Summaries of all adaptive rules, for a tick.
pub(crate) fn summaries(sluice: &Sluice) -> Vec<AdaptiveRuleSummary> {
    sluice.gates().into_iter().map(|(rule, gate)| AdaptiveRuleSummary::new(rule, &gate)).collect()
}

impl AdaptiveRuleView {
    fn new(rule: Rule, gate: &Gate) -> Self {
        let (notice, throughput, limits) = (gate.notice(), gate.throughput(), gate.limits());
        let millis = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
        Self {
            kind: rule.adaptive.as_ref().map(AdaptiveKind::from),
            conditions: conditions(rule.adaptive.as_ref()),
            name: rule.name,
            adaptive: rule.adaptive.map(|adaptive| adaptive.to_string()).unwrap_or_default(),
            state: notice.state,
            reason: notice.reason.clone(),
            concurrency_limit: limits.max_in_flight,
            rate: limits.rate.map(RateView::from),
            in_flight: throughput.in_flight,
            waiting: throughput.waiting,
            arrivals_per_s: throughput.arrivals,
            refusals_per_s: throughput.refusals,
            responses_per_s: throughput.responses,
            avg_rt_ms: millis(throughput.average),
            p50_rt_ms: millis(throughput.p50),
            p90_rt_ms: millis(throughput.p90),
            p99_rt_ms: millis(throughput.p99),
            readings: readings(&notice),
        }
    }
}

impl AdaptiveRuleSummary {
    fn new(rule: Rule, gate: &Gate) -> Self {
        let (notice, limits) = (gate.notice(), gate.limits());
        Self {
            kind: rule.adaptive.as_ref().map(AdaptiveKind::from),
            conditions: conditions(rule.adaptive.as_ref()),
            name: rule.name,
            state: notice.state,
            ceiling: format_limits(&limits),
            concurrency_limit: limits.max_in_flight,
            rate: limits.rate.map(RateView::from),
            reason: notice.reason.clone(),
            readings: readings(&notice),
        }
    }
}

impl From<VariableRate> for RateView {
    fn from(rate: VariableRate) -> Self {
        Self { count: rate.count, window_s: rate.window.as_secs_f64() }
    }
}

fn readings(notice: &OverloadNotice) -> SignalReadings {
    SignalReadings(notice.readings.iter().map(|(signal, value)| (signal.name(), *value)).collect())
}

/// Thresholds that activate the protection.
fn conditions(adaptive: Option<&Adaptive>) -> Vec<ConditionView> {
    let view = |signal: Signal, comparison: Comparison, threshold| ConditionView {
        signal: signal.name(),
        comparison: comparison.symbol(),
        threshold,
    };
    match adaptive {
        Some(Adaptive::Ceiling(ceiling)) => {
            ceiling.conditions.iter().map(|it| view(it.signal, it.comparison, it.enter)).collect()
        }
        Some(Adaptive::Cpu(cpu)) => vec![view(Signal::Cpu, Comparison::Above, cpu.threshold)],
        Some(Adaptive::Auto(_)) | None => Vec::new(),
    }
}

/// Formats the limits in force.
fn format_limits(limits: &GateLimits) -> String {
    match (limits.rate, limits.max_in_flight) {
        (Some(VariableRate { count, window }), _) => {
            // Windows are whole milliseconds except for rare shorter ones.
            let window = if window >= Duration::from_millis(1) {
                HumanDuration::rounded_up(window)
            } else {
                HumanDuration(window)
            };
            format!("{}/{window}", count.round())
        }
        (None, Some(limit)) => format!("{limit} in flight"),
        (None, None) => "none".to_owned(),
    }
}
