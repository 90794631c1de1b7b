//! Rules that protect the process: what they have read, what they let in, and why.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use sluicegate_engine::Sluice;
use sluicegate_engine::gate::{Gate, Height, Orders};
use sluicegate_engine::limit::parse::Span;
use sluicegate_engine::rule::{Rule, Signal};

use super::reply::{self, Reply};
use crate::sources::Sources;

#[derive(Serialize)]
struct All {
    rules: Vec<OfRule>,
    /// What was read of the machine.
    signals: Option<BTreeMap<&'static str, Option<f64>>>,
}

#[derive(Serialize)]
struct OfRule {
    name: String,
    adaptive: String,
    state: &'static str,
    reason: String,
    places: Option<usize>,
    rate: Option<Rate>,
    in_flight: usize,
    waiting: usize,
    arrivals_per_s: f64,
    refusals_per_s: f64,
    answers_per_s: f64,
    avg_rt_ms: Option<f64>,
    p50_rt_ms: Option<f64>,
    p90_rt_ms: Option<f64>,
    p99_rt_ms: Option<f64>,
    readings: BTreeMap<&'static str, Option<f64>>,
}

#[derive(Serialize)]
struct Rate {
    count: f64,
    window_s: f64,
}

/// What a tick tells of such a rule.
#[derive(Serialize)]
pub(crate) struct Brief {
    name: String,
    state: &'static str,
    ceiling: String,
    reason: String,
    readings: BTreeMap<&'static str, String>,
}

/// All of them.
pub(super) fn all(sources: &Sources) -> Reply {
    let rules = sources.sluice.gates().into_iter().map(|(rule, gate)| OfRule::new(rule, &gate)).collect();
    let signals = sources.readings.as_ref().map(|read| {
        let readings = read();
        let machine = Signal::ALL.into_iter().filter(|signal| !signal.is_of_requests());
        machine.map(|signal| (signal.name(), readings.get(signal))).collect()
    });
    reply::ok(&All { rules, signals })
}

/// All of them, for a tick.
pub(crate) fn brief(sluice: &Sluice) -> Vec<Brief> {
    sluice.gates().into_iter().map(|(rule, gate)| Brief::new(rule, &gate)).collect()
}

impl OfRule {
    fn new(rule: Rule, gate: &Gate) -> Self {
        let (notice, passing, orders) = (gate.notice(), gate.passing(), gate.orders());
        let millis = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
        Self {
            name: rule.name,
            adaptive: rule.adaptive.map(|adaptive| adaptive.to_string()).unwrap_or_default(),
            state: notice.state,
            reason: notice.reason.clone(),
            places: orders.places,
            rate: orders.rate.map(|Height { count, window }| Rate { count, window_s: window.as_secs_f64() }),
            in_flight: passing.in_flight,
            waiting: passing.waiting,
            arrivals_per_s: passing.arrivals,
            refusals_per_s: passing.refusals,
            answers_per_s: passing.answers,
            avg_rt_ms: millis(passing.average),
            p50_rt_ms: millis(passing.p50),
            p90_rt_ms: millis(passing.p90),
            p99_rt_ms: millis(passing.p99),
            readings: notice.readings.iter().map(|(signal, value)| (signal.name(), *value)).collect(),
        }
    }
}

impl Brief {
    fn new(rule: Rule, gate: &Gate) -> Self {
        let notice = gate.notice();
        let written = |(signal, value): &(Signal, Option<f64>)| {
            (signal.name(), value.map_or_else(|| "unknown".to_owned(), |value| signal.written(value)))
        };
        Self {
            name: rule.name,
            state: notice.state,
            ceiling: ceiling(&gate.orders()),
            reason: notice.reason.clone(),
            readings: notice.readings.iter().map(written).collect(),
        }
    }
}

/// What holds, in a few words.
fn ceiling(orders: &Orders) -> String {
    match (orders.rate, orders.places) {
        (Some(Height { count, window }), _) => {
            // Windows are of whole milliseconds but for a few that nobody writes.
            let window = if window >= Duration::from_millis(1) { Span::for_people(window) } else { Span(window) };
            format!("{}/{window}", count.round())
        }
        (None, Some(places)) => format!("{places} at once"),
        (None, None) => "open".to_owned(),
    }
}
