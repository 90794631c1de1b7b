//! The values of all instruments at one moment.

use sluicegate::adaptive::readings::{Reading, Readings};
use sluicegate::cluster::store_of;
use sluicegate_cluster::{Health, State};
use sluicegate_engine::gate::Gate;
use sluicegate_engine::rule::{Mode, Rule, Signal};
use sluicegate_engine::sluice::{RuleCounts, WAIT_BOUNDS, WaitTimes};
use sluicegate_engine::{Limit, Sluice};

use super::instrument::{self as i, Instrument};
use super::process;
use super::values;
use crate::sources::{ConnectionReading, GatewayReading, ServerReading, Sources};

/// How many rules are told apart. What the others count is told together.
pub(super) const MOST_RULES: usize = 2_000;

/// What the others are called. No rule can have this name, as names have no parentheses.
pub(super) const OTHERS: &str = "(others)";

/// An instrument with its values.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) instrument: &'static Instrument,
    pub(crate) points: Vec<Point>,
}

/// A value.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: Value,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
    Times(WaitTimes),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// Gathers families.
#[derive(Default)]
struct Gathered(Vec<Family>);

impl Gathered {
    /// All values of an instrument. One without any is left out.
    fn family(&mut self, instrument: &'static Instrument, points: impl IntoIterator<Item = Point>) {
        let points: Vec<Point> = points.into_iter().collect();
        if !points.is_empty() {
            self.0.push(Family { instrument, points });
        }
    }

    /// An instrument with one value, if that is known.
    fn one(&mut self, instrument: &'static Instrument, value: impl Into<Option<Value>>) {
        self.family(instrument, value.into().map(|value| Point { labels: Vec::new(), value }));
    }
}

fn point(label: &'static str, name: impl Into<String>, value: impl Into<Value>) -> Point {
    Point { labels: vec![(label, name.into())], value: value.into() }
}

/// Everything.
pub(crate) fn all(sources: &Sources) -> Vec<Family> {
    let mut gathered = Gathered::default();
    let of_server = sources.server.as_ref().map(|read| read());
    rules(sources, of_server.as_ref(), &mut gathered);
    if let Some(store) = store_of(&sources.sluice) {
        of_store(&store.health(), &mut gathered);
    }
    adaptive(&sources.sluice, &mut gathered);
    if let Some(read) = &sources.readings {
        machine(&read(), &mut gathered);
    }
    if let Some(read) = &sources.gateway {
        gateway(&read(), &mut gathered);
    }
    if let Some(reading) = &of_server {
        server(reading, &mut gathered);
    }
    own(&mut gathered);
    gathered.0
}

/// A rule's numbers, or those of many together.
struct OfRule {
    name: String,
    counts: RuleCounts,
    is_shadow: bool,
    makes_wait: bool,
    is_keyed: bool,
}

fn rules(sources: &Sources, of_server: Option<&ServerReading>, to: &mut Gathered) {
    let sluice = &sources.sluice;
    let (rules, counts) = (sluice.rules(), sluice.counts());
    let count = counts.len() as u64;
    let all = rules.iter().zip(counts).filter(|(rule, counts)| rule.name == counts.rule);
    let told = bounded(all.map(|(rule, counts)| OfRule::new(rule, counts)));
    let each = |points: &dyn Fn(&OfRule) -> Vec<Point>| told.iter().flat_map(points).collect::<Vec<_>>();
    let some = |value: &dyn Fn(&OfRule) -> Option<Value>| {
        let points = told.iter().filter_map(|it| Some(point("rule", &it.name, value(it)?)));
        points.collect::<Vec<_>>()
    };
    let zero_limits = of_server.map(|reading| reading.zero_limits.as_slice()).unwrap_or_default();
    to.family(&i::DECISIONS, values::with_zero_limits(each(&OfRule::decisions), zero_limits));
    to.family(&i::DECISIONS_DEGRADED, some(&|it| Some(it.counts.degraded.into())));
    to.family(&i::WAIT, some(&|it| it.makes_wait.then_some(Value::Times(it.counts.waits))));
    to.family(&i::WAITING, some(&|it| it.makes_wait.then_some((it.counts.waiting as u64).into())));
    to.family(&i::PERMITS, some(&|it| it.counts.permits.map(Value::from)));
    to.family(&i::USED, some(&|it| it.counts.used.filter(|used| used.is_finite()).map(Value::from)));
    to.family(&i::PASSED, some(&|it| (it.counts.bytes > 0).then_some(it.counts.bytes.into())));
    to.family(&i::KEYS_FORGOTTEN, some(&|it| it.is_keyed.then_some(it.counts.forgotten_early.into())));
    to.one(&i::MEMORY, Value::Whole(sluice.bytes() as u64));
    let lists = sluice.list_counts();
    to.family(&i::LIST_HITS, [point("list", "allow", lists.allowed), point("list", "deny", lists.denied)]);
    to.one(&i::BANS, Value::Whole(sluice.bans().len() as u64));
    to.one(&i::RULES, Value::Whole(count));
    let status = sources.keeper.status();
    to.one(&i::RULES_VERSION, Value::Whole(status.version));
    let reloads = [("success", status.reloads), ("failure", status.failed_reloads)];
    to.family(&i::RELOADS, reloads.map(|(result, count)| point("result", result, count)));
    to.one(&i::LAST_RELOAD, Value::Whole(status.trouble.is_none().into()));
}

impl OfRule {
    fn new(rule: &Rule, counts: RuleCounts) -> Self {
        let paces = |limit: &Limit| matches!(limit, Limit::LeakyBucket(_) | Limit::WarmUp(_) | Limit::Bandwidth(_));
        let makes_wait = rule.on_limit.queue.is_some() || rule.limits.iter().any(paces) || counts.waited > 0;
        Self {
            name: rule.name.clone(),
            counts,
            is_shadow: rule.mode == Mode::Shadow,
            makes_wait,
            is_keyed: !rule.key.is_empty(),
        }
    }

    fn decisions(&self) -> Vec<Point> {
        let RuleCounts { admitted, refused, banned, .. } = self.counts;
        let verdicts: &[(&str, u64)] = match self.is_shadow {
            true => &[("admitted", admitted), ("would_refuse", refused + banned)],
            false => &[("admitted", admitted), ("refused", refused), ("banned", banned)],
        };
        let told = |(verdict, count): &(&str, u64)| Point {
            labels: vec![("rule", self.name.clone()), ("verdict", (*verdict).to_owned())],
            value: (*count).into(),
        };
        verdicts.iter().map(told).collect()
    }

    /// Both together, as rules that act.
    fn add(&mut self, other: Self) {
        let (own, other_counts) = (&mut self.counts, other.counts);
        own.admitted += other_counts.admitted;
        // What would have been refused was let through all the same.
        own.refused += if other.is_shadow { 0 } else { other_counts.refused };
        own.banned += if other.is_shadow { 0 } else { other_counts.banned };
        own.degraded += other_counts.degraded;
        own.bytes += other_counts.bytes;
        own.forgotten_early += other_counts.forgotten_early;
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
        self.makes_wait |= other.makes_wait;
        self.is_keyed |= other.is_keyed;
    }
}

/// The first of them one by one, and the rest together.
fn bounded(mut rules: impl Iterator<Item = OfRule>) -> Vec<OfRule> {
    let mut told: Vec<OfRule> = rules.by_ref().take(MOST_RULES).collect();
    let rest = rules.reduce(|mut all, one| {
        all.add(one);
        all
    });
    if let Some(rest) = rest {
        let refused = if rest.is_shadow { 0 } else { rest.counts.refused };
        let counts = RuleCounts { used: None, refused, ..rest.counts };
        told.push(OfRule { name: OTHERS.to_owned(), counts, is_shadow: false, ..rest });
    }
    told
}

fn of_store(health: &Health, to: &mut Gathered) {
    to.one(&i::STORE_UP, Value::Whole((health.state == State::Connected).into()));
    to.one(&i::STORE_NODES, health.live_nodes.map(|nodes| Value::Whole(nodes.into())));
    to.one(&i::STORE_ASKS, Value::Whole(health.asks));
    to.one(&i::STORE_CALLS, Value::Whole(health.calls));
    to.one(&i::STORE_TIMEOUTS, Value::Whole(health.timeouts));
    to.one(&i::STORE_OVERLOADS, Value::Whole(health.overloads));
    to.one(&i::STORE_REFUSALS, Value::Whole(health.refusals));
    to.one(&i::STORE_LATE, Value::Whole(health.late_answers));
    let failures = sluicegate_cluster::StoreErrorKind::ALL
        .iter()
        .map(|kind| point("reason", kind.name(), health.failures.get(kind).copied().unwrap_or(0)));
    to.family(&i::STORE_FAILURES, failures);
    to.one(&i::STORE_BREAKER, Value::Whole(health.breaker_openings));
    to.one(&i::STORE_RECONNECTS, Value::Whole(health.reconnects));
    let leases = &health.leases;
    to.one(&i::LEASES, Value::Whole(leases.keys));
    to.one(&i::LEASE_TOKENS, Value::Whole(leases.tokens));
    to.one(&i::LEASES_TAKEN, Value::Whole(leases.taken));
    to.one(&i::LEASES_RENEWED, Value::Whole(leases.renewed));
    to.one(&i::LEASES_RETURNED, Value::Whole(leases.returned));
    to.one(&i::LEASES_EXPIRED, Value::Whole(leases.expired));
}

/// Rules that protect the process. There are few of them: each has a gate of its own.
fn adaptive(sluice: &Sluice, to: &mut Gathered) {
    let gates: Vec<_> = sluice.gates().into_iter().take(MOST_RULES).map(|(rule, gate)| (rule.name, gate)).collect();
    let each = |value: &dyn Fn(&Gate) -> Option<Value>| {
        gates.iter().filter_map(|(name, gate)| Some(point("rule", name, value(gate)?))).collect::<Vec<_>>()
    };
    let states = gates.iter().map(|(name, gate)| (name, gate.notice().state)).filter(|(_, state)| !state.is_empty());
    let labels = |name: &String, state: &str| vec![("rule", name.clone()), ("state", state.to_owned())];
    to.family(&i::ADAPTIVE_STATE, states.map(|(name, state)| Point { labels: labels(name, state), value: 1.into() }));
    to.family(&i::ADAPTIVE_PLACES, each(&|gate| Some((gate.orders().places? as u64).into())));
    let per_second = |gate: &Gate| gate.orders().rate.map(|height| height.count / height.window.as_secs_f64());
    to.family(&i::ADAPTIVE_RATE, each(&|gate| per_second(gate).filter(|rate| rate.is_finite()).map(Value::Real)));
    to.family(&i::ADAPTIVE_IN_FLIGHT, each(&|gate| Some((gate.in_flight() as u64).into())));
    to.family(&i::ADAPTIVE_ARRIVALS, each(&|gate| Some(gate.passing().arrivals.into())));
    to.family(&i::ADAPTIVE_AVERAGE, each(&|gate| gate.passing().average.map(Value::Real)));
    let times = gates.iter().flat_map(|(name, gate)| {
        let passing = gate.passing();
        let shares = [("0.5", passing.p50), ("0.9", passing.p90), ("0.99", passing.p99)];
        shares.into_iter().filter_map(|(share, seconds)| {
            Some(Point {
                labels: vec![("rule", name.clone()), ("share", share.to_owned())],
                value: Value::Real(seconds?),
            })
        })
    });
    to.family(&i::ADAPTIVE_TIMES, times.collect::<Vec<_>>());
}

/// The machine, as far as it could be read.
fn machine(readings: &Readings, to: &mut Gathered) {
    let read = |signal| readings.get(signal).filter(|value| value.is_finite()).map(Value::Real);
    let each = |label: &'static str, signals: [(&'static str, Signal); 2]| {
        signals.into_iter().filter_map(move |(name, signal)| Some(point(label, name, read(signal)?)))
    };
    to.family(&i::LOAD, each("over", [("1m", Signal::Load1), ("5m", Signal::Load5)]));
    to.one(&i::LOAD_PER_CORE, read(Signal::LoadPerCore));
    to.family(&i::CPU, each("of", [("process", Signal::Cpu), ("machine", Signal::HostCpu)]));
    to.one(&i::CPU_PRESSURE, read(Signal::CpuPressure));
    to.one(&i::CPU_THROTTLED, read(Signal::CpuThrottled));
    to.one(&i::MACHINE_MEMORY, read(Signal::Memory));
    to.one(&i::MACHINE_CONNECTIONS, read(Signal::Connections));
    to.one(&i::TRAFFIC, read(Signal::Traffic));
    let readable = Signal::ALL.into_iter().filter_map(|signal| match readings.known(signal) {
        Reading::Value(_) => Some(point("signal", signal.name(), 1)),
        Reading::Unreadable => Some(point("signal", signal.name(), 0)),
        Reading::NotYet => None,
    });
    to.family(&i::SIGNAL_READABLE, readable);
}

fn gateway(reading: &GatewayReading, to: &mut Gathered) {
    connections(&reading.connections, [&i::GATEWAY_CONNECTIONS, &i::GATEWAY_ENTERED, &i::GATEWAY_REFUSED], to);
    to.one(&i::GATEWAY_MOVED, Value::Whole(reading.moved));
    to.one(&i::GATEWAY_IN_FLIGHT, Value::Whole(reading.in_flight));
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(&reading.answered);
    to.family(&i::GATEWAY_REQUESTS, classes.map(|(class, count)| point("status", class, *count)));
    if let Some(log) = reading.log {
        to.one(&i::ACCESS_LOG_LOST, Value::Whole(log.lost));
        to.one(&i::ACCESS_LOG_FAILURES, Value::Whole(log.failures));
    }
    let servers = reading.upstreams.iter().flat_map(|upstream| {
        [("up", upstream.up), ("down", upstream.down)].map(|(state, count)| Point {
            labels: vec![("upstream", upstream.name.clone()), ("state", state.to_owned())],
            value: count.into(),
        })
    });
    to.family(&i::UPSTREAM_SERVERS, servers);
    let each = |value: fn(&crate::sources::UpstreamReading) -> u64| {
        reading.upstreams.iter().map(move |upstream| point("upstream", &upstream.name, value(upstream)))
    };
    to.family(&i::UPSTREAM_IN_FLIGHT, each(|upstream| upstream.in_flight));
    to.family(&i::UPSTREAM_FAILURES, each(|upstream| upstream.failures));
}

fn server(reading: &ServerReading, to: &mut Gathered) {
    connections(&reading.connections, [&i::SERVER_CONNECTIONS, &i::SERVER_ENTERED, &i::SERVER_REFUSED], to);
    to.family(&i::SERVER_REQUESTS, reading.requests.iter().map(|(name, count)| point("protocol", *name, *count)));
    to.family(&i::DESCRIPTORS, values::told(&reading.values));
}

/// What there is now, what came in, and what was refused.
fn connections(reading: &ConnectionReading, told: [&'static Instrument; 3], to: &mut Gathered) {
    let [now, entered, refused] = told;
    to.family(now, [point("state", "open", reading.open), point("state", "queued", reading.queued)]);
    to.one(entered, Value::Whole(reading.entered));
    to.one(refused, Value::Whole(reading.refused));
}

fn own(to: &mut Gathered) {
    to.family(&i::BUILD, [point("version", env!("CARGO_PKG_VERSION"), 1)]);
    let process = process::read();
    to.one(&i::PROCESS_START, process.started.map(Value::Real));
    to.one(&i::PROCESS_CPU, process.cpu_seconds.map(Value::Real));
    to.one(&i::PROCESS_MEMORY, process.resident_bytes.map(Value::Whole));
    to.one(&i::PROCESS_FILES, process.open_files.map(Value::Whole));
    to.one(&i::PROCESS_MOST_FILES, process.most_files.map(Value::Whole));
}

/// The upper bounds of all classes of waits but the last, which has none.
pub(crate) fn bounds() -> impl Iterator<Item = f64> {
    WAIT_BOUNDS.iter().map(std::time::Duration::as_secs_f64)
}
