//! Gathers the values of all instruments at one time.

use sluicegate::adaptive::readings::{Reading, Readings};
use sluicegate::cluster::store_of;
use sluicegate_cluster::{Health, StoreState};
use sluicegate_engine::overload::Gate;
use sluicegate_engine::rule::{Mode, Rule, Signal};
use sluicegate_engine::sluice::{RuleCounts, WAIT_BOUNDS, WaitTimes};
use sluicegate_engine::{Limit, Sluice};

use super::catalogue::{self as i, Instrument};
use super::envoy_stats;
use super::process;
use crate::providers::{ConnectionStats, GatewayStats, Providers, ServerStats};

/// Maximum number of rules with their own series. Further rules are summed up.
pub(super) const MAX_RULE_SERIES: usize = 2_000;

/// Label of the summed-up rules. No rule can have this name because of the parentheses.
pub(super) const OTHER_RULES: &str = "(others)";

/// An instrument with its values.
#[derive(Debug)]
pub(crate) struct MetricFamily {
    pub(crate) instrument: &'static Instrument,
    pub(crate) points: Vec<MetricPoint>,
}

/// A labelled value.
#[derive(Debug)]
pub(crate) struct MetricPoint {
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: MetricValue,
}

/// Value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MetricValue {
    Integer(u64),
    Float(f64),
    Histogram(WaitTimes),
}

impl From<u64> for MetricValue {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for MetricValue {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// Collected metric families.
#[derive(Default)]
struct MetricSet(Vec<MetricFamily>);

impl MetricSet {
    /// Adds all values of an instrument. An instrument without values is omitted.
    fn add_family(&mut self, instrument: &'static Instrument, points: impl IntoIterator<Item = MetricPoint>) {
        let points: Vec<MetricPoint> = points.into_iter().collect();
        if !points.is_empty() {
            self.0.push(MetricFamily { instrument, points });
        }
    }

    /// Adds an instrument with a single value, if it is known.
    fn add_single(&mut self, instrument: &'static Instrument, value: impl Into<Option<MetricValue>>) {
        self.add_family(instrument, value.into().map(|value| MetricPoint { labels: Vec::new(), value }));
    }
}

fn point(label: &'static str, name: impl Into<String>, value: impl Into<MetricValue>) -> MetricPoint {
    MetricPoint { labels: vec![(label, name.into())], value: value.into() }
}

/// Gathers all metrics.
pub(crate) fn gather_all(sources: &Providers) -> Vec<MetricFamily> {
    let mut gathered = MetricSet::default();
    let server_stats = sources.server.as_ref().map(|read| read());
    rules(sources, server_stats.as_ref(), &mut gathered);
    if let Some(store) = store_of(&sources.sluice) {
        store_metrics(&store.health(), &mut gathered);
    }
    adaptive(&sources.sluice, &mut gathered);
    if let Some(read) = &sources.readings {
        host(&read(), &mut gathered);
    }
    if let Some(read) = &sources.gateway {
        gateway(&read(), &mut gathered);
    }
    if let Some(reading) = &server_stats {
        server(reading, &mut gathered);
    }
    process_metrics(&mut gathered);
    gathered.0
}

/// Metrics of one rule, or of several rules summed up.
struct RuleMetrics {
    name: String,
    counts: RuleCounts,
    is_shadow: bool,
    can_queue: bool,
    is_keyed: bool,
}

fn rules(sources: &Providers, server_stats: Option<&ServerStats>, metrics: &mut MetricSet) {
    let sluice = &sources.sluice;
    let (rules, counts) = (sluice.rules(), sluice.counts());
    let count = counts.len() as u64;
    let all = rules.iter().zip(counts).filter(|(rule, counts)| rule.name == counts.rule);
    let rule_metrics = limit_rule_series(all.map(|(rule, counts)| RuleMetrics::new(rule, counts)));
    let each =
        |points: &dyn Fn(&RuleMetrics) -> Vec<MetricPoint>| rule_metrics.iter().flat_map(points).collect::<Vec<_>>();
    let some = |value: &dyn Fn(&RuleMetrics) -> Option<MetricValue>| {
        let points = rule_metrics.iter().filter_map(|it| Some(point("rule", &it.name, value(it)?)));
        points.collect::<Vec<_>>()
    };
    let zero_limits = server_stats.map(|reading| reading.zero_limits.as_slice()).unwrap_or_default();
    metrics.add_family(&i::DECISIONS, envoy_stats::with_zero_limits(each(&RuleMetrics::decisions), zero_limits));
    metrics.add_family(&i::DECISIONS_DEGRADED, some(&|it| Some(it.counts.degraded.into())));
    metrics.add_family(&i::WAIT, some(&|it| it.can_queue.then_some(MetricValue::Histogram(it.counts.waits))));
    metrics.add_family(&i::WAITING, some(&|it| it.can_queue.then_some((it.counts.waiting as u64).into())));
    metrics.add_family(&i::PERMITS, some(&|it| it.counts.permits.map(MetricValue::from)));
    metrics
        .add_family(&i::LIMIT_USED, some(&|it| it.counts.used.filter(|used| used.is_finite()).map(MetricValue::from)));
    metrics.add_family(&i::BANDWIDTH, some(&|it| (it.counts.bytes > 0).then_some(it.counts.bytes.into())));
    metrics.add_family(&i::KEYS_EVICTED, some(&|it| it.is_keyed.then_some(it.counts.early_evictions.into())));
    metrics.add_single(&i::KEYS_MEMORY, MetricValue::Integer(sluice.bytes() as u64));
    let lists = sluice.list_counts();
    metrics.add_family(&i::LIST_HITS, [point("list", "allow", lists.allowed), point("list", "deny", lists.denied)]);
    metrics.add_single(&i::BANS, MetricValue::Integer(sluice.bans().len() as u64));
    metrics.add_single(&i::RULES, MetricValue::Integer(count));
    let status = sources.rule_manager.status();
    metrics.add_single(&i::RULES_VERSION, MetricValue::Integer(status.version));
    let reloads = [("success", status.reloads), ("failure", status.failed_reloads)];
    metrics.add_family(&i::RELOADS, reloads.map(|(result, count)| point("result", result, count)));
    metrics.add_single(&i::LAST_RELOAD_SUCCESSFUL, MetricValue::Integer(status.last_error.is_none().into()));
}

impl RuleMetrics {
    fn new(rule: &Rule, counts: RuleCounts) -> Self {
        let can_queue = rule.on_limit.queue.is_some() || rule.limits.iter().any(Limit::is_paced) || counts.waited > 0;
        Self {
            name: rule.name.clone(),
            counts,
            is_shadow: rule.mode == Mode::Shadow,
            can_queue,
            is_keyed: !rule.key.is_empty(),
        }
    }

    fn decisions(&self) -> Vec<MetricPoint> {
        let RuleCounts { admitted, refused, banned, .. } = self.counts;
        let verdicts: &[(&str, u64)] = match self.is_shadow {
            true => &[("admitted", admitted), ("would_refuse", refused + banned)],
            false => &[("admitted", admitted), ("refused", refused), ("banned", banned)],
        };
        let to_point = |(verdict, count): &(&str, u64)| MetricPoint {
            labels: vec![("rule", self.name.clone()), ("verdict", (*verdict).to_owned())],
            value: (*count).into(),
        };
        verdicts.iter().map(to_point).collect()
    }

    /// Adds another rule, as an enforcing rule.
    fn add(&mut self, other: Self) {
        let (own, other_counts) = (&mut self.counts, other.counts);
        own.admitted += other_counts.admitted;
        // Shadow refusals were admitted.
        own.refused += if other.is_shadow { 0 } else { other_counts.refused };
        own.banned += if other.is_shadow { 0 } else { other_counts.banned };
        own.degraded += other_counts.degraded;
        own.bytes += other_counts.bytes;
        own.early_evictions += other_counts.early_evictions;
        own.waiting += other_counts.waiting;
        own.waited += other_counts.waited;
        for (bucket, more) in own.waits.buckets.iter_mut().zip(other_counts.waits.buckets) {
            *bucket += more;
        }
        own.waits.sum = own.waits.sum.saturating_add(other_counts.waits.sum);
        own.permits = match (own.permits, other_counts.permits) {
            (None, None) => None,
            (one, another) => Some(one.unwrap_or(0) + another.unwrap_or(0)),
        };
        own.used = None;
        self.can_queue |= other.can_queue;
        self.is_keyed |= other.is_keyed;
    }
}

/// Returns the first rules individually, and the remaining ones summed up.
fn limit_rule_series(mut rules: impl Iterator<Item = RuleMetrics>) -> Vec<RuleMetrics> {
    let mut series: Vec<RuleMetrics> = rules.by_ref().take(MAX_RULE_SERIES).collect();
    let others = rules.reduce(|mut sum, rule| {
        sum.add(rule);
        sum
    });
    if let Some(others) = others {
        let refused = if others.is_shadow { 0 } else { others.counts.refused };
        let counts = RuleCounts { used: None, refused, ..others.counts };
        series.push(RuleMetrics { name: OTHER_RULES.to_owned(), counts, is_shadow: false, ..others });
    }
    series
}

fn store_metrics(health: &Health, metrics: &mut MetricSet) {
    metrics.add_single(&i::STORE_UP, MetricValue::Integer((health.state == StoreState::Connected).into()));
    metrics.add_single(&i::STORE_NODES, health.live_nodes.map(|nodes| MetricValue::Integer(nodes.into())));
    metrics.add_single(&i::STORE_DECISIONS, MetricValue::Integer(health.decisions));
    metrics.add_single(&i::STORE_CALLS, MetricValue::Integer(health.calls));
    metrics.add_single(&i::STORE_TIMEOUTS, MetricValue::Integer(health.timeouts));
    metrics.add_single(&i::STORE_QUEUE_FULL, MetricValue::Integer(health.overloads));
    metrics.add_single(&i::STORE_BREAKER_REJECTIONS, MetricValue::Integer(health.refusals));
    metrics.add_single(&i::STORE_LATE_RESPONSES, MetricValue::Integer(health.late_replies));
    let failures = sluicegate_cluster::StoreErrorKind::ALL
        .iter()
        .map(|kind| point("reason", kind.name(), health.failures.get(kind).copied().unwrap_or(0)));
    metrics.add_family(&i::STORE_FAILURES, failures);
    metrics.add_single(&i::STORE_BREAKER_OPENINGS, MetricValue::Integer(health.breaker_openings));
    metrics.add_single(&i::STORE_RECONNECTS, MetricValue::Integer(health.reconnects));
    let leases = &health.leases;
    metrics.add_single(&i::LEASES, MetricValue::Integer(leases.keys));
    metrics.add_single(&i::LEASE_TOKENS, MetricValue::Integer(leases.tokens));
    metrics.add_single(&i::LEASES_ACQUIRED, MetricValue::Integer(leases.acquired));
    metrics.add_single(&i::LEASES_RENEWED, MetricValue::Integer(leases.renewed));
    metrics.add_single(&i::LEASES_RETURNED, MetricValue::Integer(leases.returned));
    metrics.add_single(&i::LEASES_EXPIRED, MetricValue::Integer(leases.expired));
}

/// Adaptive rules. There are few of them: each has its own gate.
fn adaptive(sluice: &Sluice, metrics: &mut MetricSet) {
    let gates: Vec<_> =
        sluice.gates().into_iter().take(MAX_RULE_SERIES).map(|(rule, gate)| (rule.name, gate)).collect();
    let each = |value: &dyn Fn(&Gate) -> Option<MetricValue>| {
        gates.iter().filter_map(|(name, gate)| Some(point("rule", name, value(gate)?))).collect::<Vec<_>>()
    };
    let states = gates.iter().map(|(name, gate)| (name, gate.notice().state)).filter(|(_, state)| !state.is_empty());
    let labels = |name: &String, state: &str| vec![("rule", name.clone()), ("state", state.to_owned())];
    metrics.add_family(
        &i::ADAPTIVE_STATE,
        states.map(|(name, state)| MetricPoint { labels: labels(name, state), value: 1.into() }),
    );
    metrics
        .add_family(&i::ADAPTIVE_CONCURRENCY_LIMIT, each(&|gate| Some((gate.limits().max_in_flight? as u64).into())));
    let per_second = |gate: &Gate| gate.limits().rate.map(|rate| rate.count / rate.window.as_secs_f64());
    metrics.add_family(
        &i::ADAPTIVE_RATE_LIMIT,
        each(&|gate| per_second(gate).filter(|rate| rate.is_finite()).map(MetricValue::Float)),
    );
    metrics.add_family(&i::ADAPTIVE_IN_FLIGHT, each(&|gate| Some((gate.in_flight() as u64).into())));
    metrics.add_family(&i::ADAPTIVE_ARRIVALS, each(&|gate| Some(gate.throughput().arrivals.into())));
    metrics.add_family(
        &i::ADAPTIVE_AVERAGE_RESPONSE_TIME,
        each(&|gate| gate.throughput().average.map(MetricValue::Float)),
    );
    let times = gates.iter().flat_map(|(name, gate)| {
        let throughput = gate.throughput();
        let shares = [("0.5", throughput.p50), ("0.9", throughput.p90), ("0.99", throughput.p99)];
        shares.into_iter().filter_map(|(share, seconds)| {
            Some(MetricPoint {
                labels: vec![("rule", name.clone()), ("share", share.to_owned())],
                value: MetricValue::Float(seconds?),
            })
        })
    });
    metrics.add_family(&i::ADAPTIVE_RESPONSE_TIME, times.collect::<Vec<_>>());
}

/// Readable host signals.
fn host(readings: &Readings, metrics: &mut MetricSet) {
    let read = |signal| readings.get(signal).filter(|value| value.is_finite()).map(MetricValue::Float);
    let each = |label: &'static str, signals: [(&'static str, Signal); 2]| {
        signals.into_iter().filter_map(move |(name, signal)| Some(point(label, name, read(signal)?)))
    };
    metrics.add_family(&i::HOST_LOAD, each("over", [("1m", Signal::Load1), ("5m", Signal::Load5)]));
    metrics.add_single(&i::HOST_LOAD_PER_CORE, read(Signal::LoadPerCore));
    metrics.add_family(&i::HOST_CPU, each("of", [("process", Signal::Cpu), ("host", Signal::HostCpu)]));
    metrics.add_single(&i::HOST_CPU_PRESSURE, read(Signal::CpuPressure));
    metrics.add_single(&i::HOST_CPU_THROTTLED, read(Signal::CpuThrottled));
    metrics.add_single(&i::HOST_MEMORY, read(Signal::Memory));
    metrics.add_single(&i::HOST_CONNECTIONS, read(Signal::Connections));
    metrics.add_single(&i::HOST_TRAFFIC, read(Signal::Traffic));
    let readable = Signal::ALL.into_iter().filter_map(|signal| match readings.reading(signal) {
        Reading::Value(_) => Some(point("signal", signal.name(), 1)),
        Reading::Unreadable => Some(point("signal", signal.name(), 0)),
        Reading::NotYet => None,
    });
    metrics.add_family(&i::HOST_SIGNAL_READABLE, readable);
}

fn gateway(reading: &GatewayStats, metrics: &mut MetricSet) {
    connections(
        &reading.connections,
        [&i::GATEWAY_CONNECTIONS, &i::GATEWAY_CONNECTIONS_ACCEPTED, &i::GATEWAY_CONNECTIONS_REJECTED],
        metrics,
    );
    metrics.add_single(&i::GATEWAY_CONNECTIONS_MIGRATED, MetricValue::Integer(reading.migrated_connections));
    metrics.add_single(&i::GATEWAY_IN_FLIGHT, MetricValue::Integer(reading.in_flight));
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(&reading.responses_by_class);
    metrics.add_family(&i::GATEWAY_REQUESTS, classes.map(|(class, count)| point("status", class, *count)));
    if let Some(log) = reading.access_log {
        metrics.add_single(&i::ACCESS_LOG_DROPPED_LINES, MetricValue::Integer(log.dropped_lines));
        metrics.add_single(&i::ACCESS_LOG_FAILURES, MetricValue::Integer(log.failures));
    }
    let servers = reading.upstreams.iter().flat_map(|upstream| {
        [("up", upstream.up), ("down", upstream.down)].map(|(state, count)| MetricPoint {
            labels: vec![("upstream", upstream.name.clone()), ("state", state.to_owned())],
            value: count.into(),
        })
    });
    metrics.add_family(&i::UPSTREAM_SERVERS, servers);
    let each = |value: fn(&crate::providers::UpstreamStats) -> u64| {
        reading.upstreams.iter().map(move |upstream| point("upstream", &upstream.name, value(upstream)))
    };
    metrics.add_family(&i::UPSTREAM_IN_FLIGHT, each(|upstream| upstream.in_flight));
    metrics.add_family(&i::UPSTREAM_FAILURES, each(|upstream| upstream.failures));
}

fn server(reading: &ServerStats, metrics: &mut MetricSet) {
    connections(
        &reading.connections,
        [&i::SERVER_CONNECTIONS, &i::SERVER_CONNECTIONS_ACCEPTED, &i::SERVER_CONNECTIONS_REJECTED],
        metrics,
    );
    metrics
        .add_family(&i::SERVER_REQUESTS, reading.requests.iter().map(|(name, count)| point("protocol", *name, *count)));
    metrics.add_family(&i::DESCRIPTORS, envoy_stats::descriptor_points(&reading.values));
}

/// Open, accepted and rejected connections.
fn connections(reading: &ConnectionStats, instruments: [&'static Instrument; 3], metrics: &mut MetricSet) {
    let [current, accepted, rejected] = instruments;
    metrics.add_family(current, [point("state", "open", reading.open), point("state", "queued", reading.queued)]);
    metrics.add_single(accepted, MetricValue::Integer(reading.admitted));
    metrics.add_single(rejected, MetricValue::Integer(reading.rejected));
}

fn process_metrics(metrics: &mut MetricSet) {
    metrics.add_family(&i::BUILD_INFO, [point("version", env!("CARGO_PKG_VERSION"), 1)]);
    let process = process::read();
    metrics.add_single(&i::PROCESS_START_TIME, process.started.map(MetricValue::Float));
    metrics.add_single(&i::PROCESS_CPU, process.cpu_seconds.map(MetricValue::Float));
    metrics.add_single(&i::PROCESS_RESIDENT_MEMORY, process.resident_bytes.map(MetricValue::Integer));
    metrics.add_single(&i::PROCESS_OPEN_FDS, process.open_files.map(MetricValue::Integer));
    metrics.add_single(&i::PROCESS_MAX_FDS, process.max_files.map(MetricValue::Integer));
}

/// Upper bounds of all wait time buckets except the last, which is unbounded.
pub(crate) fn wait_bounds() -> impl Iterator<Item = f64> {
    WAIT_BOUNDS.iter().map(std::time::Duration::as_secs_f64)
}
