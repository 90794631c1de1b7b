//! `GET /v1/adaptive`: adaptive rules with their readings, limits and reasons.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use sluicegate_engine::Sluice;
use sluicegate_engine::limit::parse::HumanDuration;
use sluicegate_engine::overload::{Gate, GateLimits, OverloadNotice, VariableRate};
use sluicegate_engine::rule::{Adaptive, Comparison, Rule, Signal};

use super::reply::{self, Reply};
use super::rules;
use crate::providers::Providers;

#[derive(Serialize)]
struct AdaptiveRuleList {
    rules: Vec<AdaptiveRuleView>,
    /// Host signals.
    signals: Option<SignalReadings>,
}

/// Readings by signal name; `None` if a signal could not be read.
type SignalReadings = BTreeMap<&'static str, Option<f64>>;

#[derive(Serialize)]
struct AdaptiveRuleView {
    name: String,
    kind: Option<&'static str>,
    adaptive: String,
    state: &'static str,
    reason: String,
    concurrency_limit: Option<usize>,
    rate: Option<RateView>,
    in_flight: usize,
    waiting: usize,
    arrivals_per_s: f64,
    refusals_per_s: f64,
    responses_per_s: f64,
    avg_rt_ms: Option<f64>,
    p50_rt_ms: Option<f64>,
    p90_rt_ms: Option<f64>,
    p99_rt_ms: Option<f64>,
    conditions: Vec<ConditionView>,
    readings: SignalReadings,
}

#[derive(Serialize)]
struct RateView {
    count: f64,
    window_s: f64,
}

/// Threshold of a signal.
#[derive(Serialize)]
struct ConditionView {
    signal: &'static str,
    comparison: &'static str,
    threshold: f64,
}

/// Summary of an adaptive rule in a tick.
#[derive(Serialize)]
pub(crate) struct AdaptiveRuleSummary {
    name: String,
    kind: Option<&'static str>,
    state: &'static str,
    ceiling: String,
    concurrency_limit: Option<usize>,
    rate: Option<RateView>,
    reason: String,
    conditions: Vec<ConditionView>,
    readings: SignalReadings,
}

/// Lists all adaptive rules.
pub(super) fn list(providers: &Providers) -> Reply {
    let rules = providers.sluice.gates().into_iter().map(|(rule, gate)| AdaptiveRuleView::new(rule, &gate)).collect();
    let signals = providers.readings.as_ref().map(|read| {
        let readings = read();
        let host = Signal::ALL.into_iter().filter(|signal| !signal.is_per_rule());
        host.map(|signal| (signal.name(), readings.get(signal))).collect()
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
            kind: rule.adaptive.as_ref().map(rules::adaptive_kind),
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
            kind: rule.adaptive.as_ref().map(rules::adaptive_kind),
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
    notice.readings.iter().map(|(signal, value)| (signal.name(), *value)).collect()
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
