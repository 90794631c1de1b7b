//! Metrics as read by a scraper.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use sluicegate::adaptive::readings::{Reading, Readings};
use sluicegate_engine::rule::{Adaptive, Attribute, CpuGuard, Request, Rule, Signal};

use super::{RulesFixture, TOKENS, TestServer, WRITE, call};
use crate::metrics::catalogue::{ALL, Instrument, InstrumentKind};
use crate::metrics::exposition_parser::{ParsedExposition, parse};
use crate::metrics::{self, Format};
use crate::{AccessLogStats, ConnectionStats, GatewayStats, LimitStats, Providers, ServerStats, UpstreamStats};

fn with_services(sources: &mut Providers) {
    sources.gateway = Some(Arc::new(|| GatewayStats {
        connections: ConnectionStats { open: 4, queued: 1, admitted: 9, rejected: 2 },
        in_flight: 3,
        responses_by_class: vec![0, 5, 0, 1, 0],
        migrated_connections: 6,
        access_log: Some(AccessLogStats { dropped_lines: 8, failures: 1 }),
        upstreams: vec![UpstreamStats { name: "shop".to_owned(), up: 2, down: 1, in_flight: 3, failures: 1 }],
    }));
    sources.server = Some(Arc::new(|| ServerStats { requests: vec![("rls", 7)], ..Default::default() }));
}

async fn scrape(subject: &TestServer, accept: Option<&str>) -> (String, String) {
    let mut request = call("GET", "/metrics", Some(WRITE), None);
    if let Some(accept) = accept {
        request.headers_mut().insert("accept", accept.parse().unwrap());
    }
    let response = subject.send(request).await;
    (response.header("content-type").unwrap().to_owned(), response.text())
}

const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;\
    q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

#[tokio::test]
async fn metrics_have_the_expected_values() {
    let subject = TestServer::with(Some(TOKENS), with_services);
    subject.fixture.send_requests("203.0.113.9", 3);
    let (kind, text) = scrape(&subject, Some(PROMETHEUS)).await;
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let exposed = parse(&text, Format::OpenMetrics).unwrap();
    let value = |exposed: &ParsedExposition, family: &str, labels: &[(&str, &str)]| {
        let wanted = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let found = exposed[family].samples.iter().find(|sample| sample.labels == wanted);
        found.unwrap_or_else(|| panic!("{family} {labels:?}: {text}")).value
    };
    for (family, labels, count) in [
        ("sluicegate_decisions", &[("rule", "per-ip"), ("verdict", "admitted")] as &[_], 2.0),
        ("sluicegate_decisions", &[("rule", "per-ip"), ("verdict", "refused")], 1.0),
        ("sluicegate_decisions", &[("rule", "per-ip"), ("verdict", "banned")], 0.0),
        ("sluicegate_decisions", &[("rule", "trial"), ("verdict", "would_refuse")], 1.0),
        ("sluicegate_permits", &[("rule", "jobs")], 0.0),
        ("sluicegate_limit_used_ratio", &[("rule", "everything")], 0.002),
        ("sluicegate_list_hits", &[("list", "deny")], 0.0),
        ("sluicegate_rules", &[], 5.0),
        ("sluicegate_rules_version", &[], 1.0),
        ("sluicegate_reloads", &[("result", "success")], 0.0),
        ("sluicegate_last_reload_successful", &[], 1.0),
        ("sluicegate_gateway_connections_migrated", &[], 6.0),
        ("sluicegate_gateway_in_flight", &[], 3.0),
        ("sluicegate_access_log_dropped_lines", &[], 8.0),
        ("sluicegate_access_log_failures", &[], 1.0),
        ("sluicegate_gateway_requests", &[("status", "2xx")], 5.0),
        ("sluicegate_upstream_servers", &[("upstream", "shop"), ("state", "down")], 1.0),
        ("sluicegate_server_requests", &[("protocol", "rls")], 7.0),
        ("sluicegate_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0),
    ] {
        assert_eq!(value(&exposed, family, labels), count, "{family} {labels:?}");
    }
    assert!(value(&exposed, "process_resident_memory_bytes", &[]) > 1e6);
    assert!(value(&exposed, "process_start_time_seconds", &[]) > 1.7e9);
    assert!(exposed["process_cpu_seconds"].samples[0].name == "process_cpu_seconds_total");
    assert_eq!(exposed["sluicegate_wait_seconds"].kind, "histogram");

    let (kind, older) = scrape(&subject, None).await;
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    let older = parse(&older, Format::Prometheus).unwrap();
    assert_eq!(value(&older, "sluicegate_decisions_total", &[("rule", "per-ip"), ("verdict", "admitted")]), 2.0);
    assert_eq!(older["sluicegate_decisions_total"].kind, "counter");
    assert_eq!(older.len(), exposed.len());
}

/// Asserts that `promtool check metrics` finds nothing to report.
pub(super) fn assert_promtool_accepts(text: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = promtool.spawn().expect("promtool, of Debian's package `prometheus`");
    running.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    let messages = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && messages.is_empty(), "{}", String::from_utf8_lossy(&messages));
}

#[tokio::test]
async fn promtool_accepts_the_metrics() {
    let subject = TestServer::with(Some(TOKENS), with_services);
    subject.fixture.send_requests("203.0.113.9", 3);
    let (_, text) = scrape(&subject, None).await;
    assert_promtool_accepts(&text);
}

/// A key in a label would be one series per client.
#[tokio::test]
async fn labels_never_contain_keys() {
    let subject = TestServer::with(Some(TOKENS), with_services);
    subject.fixture.send_requests("203.0.113.9", 5);
    let (_, text) = scrape(&subject, Some(PROMETHEUS)).await;
    let exposed = parse(&text, Format::OpenMetrics).unwrap();
    let names: BTreeSet<&str> = exposed
        .values()
        .flat_map(|family| &family.samples)
        .flat_map(|sample| sample.labels.keys())
        .map(String::as_str)
        .collect();
    let known = ["le", "list", "protocol", "result", "rule", "state", "status", "upstream", "verdict", "version"];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), known);
    assert!(!text.contains("203.0.113"));
}

#[test]
fn series_are_bounded_with_many_rules() {
    let fixture = RulesFixture::new(Default::default());
    let rule = |index: usize| {
        let mut rule = Rule::new(format!("rule-{index}"), ["10/1m".parse().unwrap()]);
        rule.key = vec![Attribute::custom("account").into()];
        rule.max_keys = Some(1);
        rule
    };
    fixture.sluice.replace((0..10_000).map(rule).collect(), Default::default()).unwrap();
    let text = metrics::text(&fixture.providers(), Format::OpenMetrics);
    let exposed = parse(&text, Format::OpenMetrics).unwrap();
    let decisions = &exposed["sluicegate_decisions"].samples;
    assert_eq!(decisions.len(), 2_001 * 3);
    assert!(decisions.iter().any(|sample| sample.labels["rule"] == "(others)"));
    assert_eq!(exposed["sluicegate_rules"].samples[0].value, 10_000.0);
}

/// Decisions of a rule by verdict.
fn decisions_of_rule<'e>(
    exposed: &'e ParsedExposition,
    family: &str,
    rule: &str,
) -> Vec<(Option<&'e str>, &'e str, f64)> {
    let samples = exposed[family].samples.iter().filter(|sample| sample.labels["rule"] == rule);
    let decisions =
        samples.map(|it| (it.labels.get("entries").map(String::as_str), it.labels["verdict"].as_str(), it.value));
    let mut decisions: Vec<_> = decisions.collect();
    decisions.sort_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
    decisions
}

/// Zero limits have no rule. They are reported with the rules; one that becomes a rule continues its
/// series.
#[test]
fn zero_limits_are_reported_with_the_rules() {
    let fixture = RulesFixture::new(Default::default());
    fixture.send_requests("203.0.113.9", 3);
    let mut sources = fixture.providers();
    let limit = |name: Option<&str>, refused, would_refuse| LimitStats {
        limit: name.map(str::to_owned),
        refused,
        would_refuse,
        ..Default::default()
    };
    sources.server = Some(Arc::new(move || ServerStats {
        zero_limits: vec![limit(Some("shop.closed"), 4, 2), limit(Some("per-ip"), 5, 0), limit(None, 7, 0)],
        ..Default::default()
    }));
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let exposed = parse(&metrics::text(&sources, format), format).unwrap();
        let family = if format == Format::OpenMetrics { "sluicegate_decisions" } else { "sluicegate_decisions_total" };
        let decisions = |rule| decisions_of_rule(&exposed, family, rule);
        assert_eq!(decisions("shop.closed"), [(None, "refused", 4.0), (None, "would_refuse", 2.0)]);
        assert_eq!(decisions("per-ip"), [(None, "admitted", 2.0), (None, "banned", 0.0), (None, "refused", 6.0)]);
        assert_eq!(decisions("(others)"), [(None, "refused", 7.0)]);
    }
}

/// Values are reported only if they are counted, and client input is escaped.
#[test]
fn descriptor_values_are_reported() {
    let fixture = RulesFixture::new(Default::default());
    let mut sources = fixture.providers();
    let odd = "path=/a\"} 1\n# EOF\nx{y=\"\\\u{e9}";
    let value = |limit: Option<&str>, entries: &str, admitted, refused| LimitStats {
        limit: limit.map(str::to_owned),
        entries: entries.to_owned(),
        admitted,
        refused,
        would_refuse: 0,
    };
    sources.server = Some(Arc::new(move || ServerStats {
        values: vec![value(Some("shop.path"), "path=/a", 3, 1), value(Some("odd"), odd, 1, 0), value(None, "", 9, 0)],
        ..Default::default()
    }));
    let exposed = parse(&metrics::text(&sources, Format::OpenMetrics), Format::OpenMetrics).unwrap();
    let decisions = |rule| decisions_of_rule(&exposed, "sluicegate_descriptors", rule);
    assert_eq!(decisions("shop.path"), [(Some("path=/a"), "admitted", 3.0), (Some("path=/a"), "refused", 1.0)]);
    assert_eq!(decisions("odd"), [(Some(odd), "admitted", 1.0)]);
    assert_eq!(decisions("(others)"), [(Some("other"), "admitted", 9.0)]);
    assert_promtool_accepts(&metrics::text(&sources, Format::Prometheus));
}

#[test]
fn rule_names_are_escaped() {
    let fixture = RulesFixture::new(Default::default());
    let odd = "a\"b\\c\nd{e}";
    fixture.sluice.replace(vec![Rule::new(odd, ["10/1m".parse().unwrap()])], Default::default()).unwrap();
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let exposed = parse(&metrics::text(&fixture.providers(), format), format).unwrap();
        let rules = exposed.values().flat_map(|family| &family.samples).filter_map(|sample| sample.labels.get("rule"));
        assert!(rules.clone().count() > 0 && rules.into_iter().all(|rule| rule == odd));
    }
}

/// A condition on an unreadable signal never holds: metrics must show that.
#[test]
fn readable_and_unreadable_signals_are_reported() {
    let fixture = RulesFixture::new(Default::default());
    let guard = Rule { adaptive: Some(Adaptive::Cpu(CpuGuard::default())), ..Rule::new("guard", []) };
    fixture.sluice.replace(vec![guard], Default::default()).unwrap();
    drop(fixture.sluice.decide(&Request::new("GET", "/")));
    let mut readings = Readings::UNKNOWN;
    for (index, signal) in Signal::ALL.into_iter().enumerate().filter(|(_, signal)| !signal.is_per_rule()) {
        readings.set(signal, Some(index as f64));
    }
    readings.set(Signal::Traffic, None);
    readings.record(Signal::CpuPressure, Reading::Unreadable);
    let mut sources = fixture.providers();
    sources.readings = Some(Arc::new(move || readings));
    let text = metrics::text(&sources, Format::Prometheus);
    for line in [
        "sluicegate_host_load{over=\"1m\"} 0",
        "sluicegate_host_load{over=\"5m\"} 1",
        "sluicegate_host_load_per_core 2",
        "sluicegate_host_cpu_ratio{of=\"process\"} 3",
        "sluicegate_host_cpu_ratio{of=\"host\"} 4",
        "sluicegate_host_cpu_throttled_ratio 6",
        "sluicegate_host_memory_ratio 7",
        "sluicegate_host_connections 14",
        "sluicegate_host_signal_readable{signal=\"cpu\"} 1",
        "sluicegate_host_signal_readable{signal=\"cpu_pressure\"} 0",
        "sluicegate_adaptive_in_flight{rule=\"guard\"} 0",
    ] {
        assert!(text.lines().any(|sample| sample == line || sample == format!("{line}.0")), "{line} in {text}");
    }
    for line in ["sluicegate_adaptive_arrivals{rule=\"guard\"} ", "sluicegate_adaptive_average_response_time_seconds{"]
    {
        assert!(text.lines().any(|sample| sample.starts_with(line)), "{line} in {text}");
    }
    // A signal that is not known yet has no value.
    assert!(!text.contains("traffic") && !text.contains("pressure_ratio"), "{text}");
    assert_promtool_accepts(&text);
}

/// Metric names follow the naming conventions.
#[test]
fn instrument_names_follow_the_conventions() {
    let mut names = BTreeSet::new();
    for instrument in ALL {
        assert!(names.insert(instrument.name), "duplicate name {}", instrument.name);
        assert!(instrument.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'.' || byte == b'_'));
        assert!(!instrument.name.ends_with("total") && !instrument.help.ends_with('.'), "{}", instrument.name);
        assert!(!instrument.help.contains(['\\', '\n', '"']), "{}", instrument.name);
        assert!(
            instrument.kind != InstrumentKind::Histogram || instrument.unit.suffix().is_some(),
            "{}",
            instrument.name
        );
    }
}

/// Prometheus name of an instrument.
fn prometheus_name(instrument: &Instrument) -> String {
    let unit = instrument.unit.suffix().map(|unit| format!("_{unit}")).unwrap_or_default();
    let total = if instrument.kind == InstrumentKind::Counter { "_total" } else { "" };
    format!("{}{unit}{total}", instrument.name.replace('.', "_"))
}

#[test]
fn every_instrument_is_documented() {
    let page = include_str!("../../../../../docs/monitoring.md");
    for instrument in ALL {
        let name = format!("| `{}` |", prometheus_name(instrument));
        let row = page.lines().find(|line| line.starts_with(&name));
        assert!(row.is_some_and(|row| row.contains(instrument.help)), "{name} {}", instrument.help);
    }
}

/// A plot of a missing metric would stay empty without an error.
#[test]
fn grafana_dashboard_uses_existing_metrics() {
    let dashboard = include_str!("../../../../../examples/grafana/sluicegate.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let known: Vec<String> = ALL.iter().map(|instrument| prometheus_name(instrument)).collect();
    let targets = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut metrics = 0;
    for expression in targets.map(|target| target["expr"].as_str().unwrap()) {
        let words = expression.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
        for word in words.filter(|word| word.starts_with("sluicegate_") || word.starts_with("process_")) {
            let name = word.strip_suffix("_bucket").unwrap_or(word);
            assert!(known.iter().any(|known| known == name), "{word} in {expression}");
            metrics += 1;
        }
    }
    assert!(metrics > 20, "{metrics}");
}
