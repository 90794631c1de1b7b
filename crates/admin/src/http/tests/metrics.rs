//! Metrics, as a scraper reads them.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use sluicegate::adaptive::readings::{Reading, Readings};
use sluicegate_engine::rule::{Adaptive, Attribute, CpuGuard, Request, Rule, Signal};

use super::{Kept, Subject, TOKENS, WRITE, call};
use crate::metrics::checker::{Exposed, read};
use crate::metrics::instrument::{ALL, Instrument, Kind};
use crate::metrics::{self, Format};
use crate::{ConnectionReading, GatewayReading, LimitReading, LogReading, ServerReading, Sources, UpstreamReading};

fn served(sources: &mut Sources) {
    sources.gateway = Some(Arc::new(|| GatewayReading {
        connections: ConnectionReading { open: 4, queued: 1, entered: 9, refused: 2 },
        in_flight: 3,
        answered: vec![0, 5, 0, 1, 0],
        moved: 6,
        log: Some(LogReading { lost: 8, failures: 1 }),
        upstreams: vec![UpstreamReading { name: "shop".to_owned(), up: 2, down: 1, in_flight: 3, failures: 1 }],
    }));
    sources.server = Some(Arc::new(|| ServerReading { requests: vec![("rls", 7)], ..Default::default() }));
}

async fn scrape(subject: &Subject, accept: Option<&str>) -> (String, String) {
    let mut request = call("GET", "/metrics", Some(WRITE), None);
    if let Some(accept) = accept {
        request.headers_mut().insert("accept", accept.parse().unwrap());
    }
    let answer = subject.send(request).await;
    (answer.header("content-type").unwrap().to_owned(), answer.text())
}

const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;\
    q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

#[tokio::test]
async fn metrics_are_as_scrapers_want_them() {
    let subject = Subject::with(Some(TOKENS), served);
    subject.kept.ask("203.0.113.9", 3);
    let (kind, text) = scrape(&subject, Some(PROMETHEUS)).await;
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let exposed = read(&text, Format::OpenMetrics).unwrap();
    let value = |exposed: &Exposed, family: &str, labels: &[(&str, &str)]| {
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
        ("sluicegate_used_ratio", &[("rule", "everything")], 0.002),
        ("sluicegate_list_hits", &[("list", "deny")], 0.0),
        ("sluicegate_rules", &[], 5.0),
        ("sluicegate_rules_version", &[], 1.0),
        ("sluicegate_reloads", &[("result", "success")], 0.0),
        ("sluicegate_last_reload_successful", &[], 1.0),
        ("sluicegate_gateway_connections_moved", &[], 6.0),
        ("sluicegate_gateway_in_flight", &[], 3.0),
        ("sluicegate_access_log_lost", &[], 8.0),
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
    let older = read(&older, Format::Prometheus).unwrap();
    assert_eq!(value(&older, "sluicegate_decisions_total", &[("rule", "per-ip"), ("verdict", "admitted")]), 2.0);
    assert_eq!(older["sluicegate_decisions_total"].kind, "counter");
    assert_eq!(older.len(), exposed.len());
}

/// What Prometheus' own tool has to say about a text that it would scrape: nothing.
pub(super) fn prometheus_approves(text: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = promtool.spawn().expect("promtool, of Debian's package `prometheus`");
    running.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

#[tokio::test]
async fn prometheus_reads_them_and_finds_no_fault_with_the_names() {
    let subject = Subject::with(Some(TOKENS), served);
    subject.kept.ask("203.0.113.9", 3);
    let (_, text) = scrape(&subject, None).await;
    prometheus_approves(&text);
}

/// A key in a label is a series for every client there ever was.
#[tokio::test]
async fn labels_are_few_and_never_a_key() {
    let subject = Subject::with(Some(TOKENS), served);
    subject.kept.ask("203.0.113.9", 5);
    let (_, text) = scrape(&subject, Some(PROMETHEUS)).await;
    let exposed = read(&text, Format::OpenMetrics).unwrap();
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
fn ten_thousand_rules_do_not_become_ten_thousand_series() {
    let kept = Kept::new(Default::default());
    let rule = |nth: usize| {
        let mut rule = Rule::new(format!("rule-{nth}"), ["10/1m".parse().unwrap()]);
        rule.key = vec![Attribute::custom("account").into()];
        rule.max_keys = Some(1);
        rule
    };
    kept.sluice.replace((0..10_000).map(rule).collect(), Default::default()).unwrap();
    let text = metrics::text(&kept.sources(), Format::OpenMetrics);
    let exposed = read(&text, Format::OpenMetrics).unwrap();
    let decisions = &exposed["sluicegate_decisions"].samples;
    assert_eq!(decisions.len(), 2_001 * 3);
    assert!(decisions.iter().any(|sample| sample.labels["rule"] == "(others)"));
    assert_eq!(exposed["sluicegate_rules"].samples[0].value, 10_000.0);
}

/// The decisions of a rule, and what they came to.
fn of_family<'e>(exposed: &'e Exposed, family: &str, rule: &str) -> Vec<(Option<&'e str>, &'e str, f64)> {
    let samples = exposed[family].samples.iter().filter(|sample| sample.labels["rule"] == rule);
    let told =
        samples.map(|it| (it.labels.get("entries").map(String::as_str), it.labels["verdict"].as_str(), it.value));
    let mut told: Vec<_> = told.collect();
    told.sort_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
    told
}

/// Limits of zero have no rule. They are told where the rules are; one that has become a rule goes on in its series.
#[test]
fn limits_of_zero_are_told_beside_the_rules() {
    let kept = Kept::new(Default::default());
    kept.ask("203.0.113.9", 3);
    let mut sources = kept.sources();
    let limit = |name: Option<&str>, refused, would_refuse| LimitReading {
        limit: name.map(str::to_owned),
        refused,
        would_refuse,
        ..Default::default()
    };
    sources.server = Some(Arc::new(move || ServerReading {
        zero_limits: vec![limit(Some("shop.closed"), 4, 2), limit(Some("per-ip"), 5, 0), limit(None, 7, 0)],
        ..Default::default()
    }));
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let exposed = read(&metrics::text(&sources, format), format).unwrap();
        let family = if format == Format::OpenMetrics { "sluicegate_decisions" } else { "sluicegate_decisions_total" };
        let told = |rule| of_family(&exposed, family, rule);
        assert_eq!(told("shop.closed"), [(None, "refused", 4.0), (None, "would_refuse", 2.0)]);
        assert_eq!(told("per-ip"), [(None, "admitted", 2.0), (None, "banned", 0.0), (None, "refused", 6.0)]);
        assert_eq!(told("(others)"), [(None, "refused", 7.0)]);
    }
}

/// Values are told only where somebody counted them, and whatever clients write stays within its quotes.
#[test]
fn values_that_files_ask_for_are_told() {
    let kept = Kept::new(Default::default());
    let mut sources = kept.sources();
    let odd = "path=/a\"} 1\n# EOF\nx{y=\"\\\u{e9}";
    let value = |limit: Option<&str>, entries: &str, admitted, refused| LimitReading {
        limit: limit.map(str::to_owned),
        entries: entries.to_owned(),
        admitted,
        refused,
        would_refuse: 0,
    };
    sources.server = Some(Arc::new(move || ServerReading {
        values: vec![value(Some("shop.path"), "path=/a", 3, 1), value(Some("odd"), odd, 1, 0), value(None, "", 9, 0)],
        ..Default::default()
    }));
    let exposed = read(&metrics::text(&sources, Format::OpenMetrics), Format::OpenMetrics).unwrap();
    let told = |rule| of_family(&exposed, "sluicegate_descriptors", rule);
    assert_eq!(told("shop.path"), [(Some("path=/a"), "admitted", 3.0), (Some("path=/a"), "refused", 1.0)]);
    assert_eq!(told("odd"), [(Some(odd), "admitted", 1.0)]);
    assert_eq!(told("(others)"), [(Some("other"), "admitted", 9.0)]);
    prometheus_approves(&metrics::text(&sources, Format::Prometheus));
}

#[test]
fn odd_names_are_escaped() {
    let kept = Kept::new(Default::default());
    let odd = "a\"b\\c\nd{e}";
    kept.sluice.replace(vec![Rule::new(odd, ["10/1m".parse().unwrap()])], Default::default()).unwrap();
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let exposed = read(&metrics::text(&kept.sources(), format), format).unwrap();
        let rules = exposed.values().flat_map(|family| &family.samples).filter_map(|sample| sample.labels.get("rule"));
        assert!(rules.clone().count() > 0 && rules.into_iter().all(|rule| rule == odd));
    }
}

/// A condition on a signal that went dark never holds: whoever watches must be able to see that.
#[test]
fn every_signal_is_told_and_so_is_one_that_cannot_be_read() {
    let kept = Kept::new(Default::default());
    let guard = Rule { adaptive: Some(Adaptive::Cpu(CpuGuard::default())), ..Rule::new("guard", []) };
    kept.sluice.replace(vec![guard], Default::default()).unwrap();
    drop(kept.sluice.decide(&Request::new("GET", "/")));
    let mut readings = Readings::UNKNOWN;
    for (nth, signal) in Signal::ALL.into_iter().enumerate().filter(|(_, signal)| !signal.is_of_requests()) {
        readings.set(signal, Some(nth as f64));
    }
    readings.set(Signal::Traffic, None);
    readings.note(Signal::CpuPressure, Reading::Unreadable);
    let mut sources = kept.sources();
    sources.readings = Some(Arc::new(move || readings));
    let text = metrics::text(&sources, Format::Prometheus);
    for line in [
        "sluicegate_machine_load{over=\"1m\"} 0",
        "sluicegate_machine_load{over=\"5m\"} 1",
        "sluicegate_machine_load_per_core 2",
        "sluicegate_machine_cpu_ratio{of=\"process\"} 3",
        "sluicegate_machine_cpu_ratio{of=\"machine\"} 4",
        "sluicegate_machine_cpu_throttled_ratio 6",
        "sluicegate_machine_memory_ratio 7",
        "sluicegate_machine_connections 14",
        "sluicegate_machine_signal_readable{signal=\"cpu\"} 1",
        "sluicegate_machine_signal_readable{signal=\"cpu_pressure\"} 0",
        "sluicegate_adaptive_in_flight{rule=\"guard\"} 0",
    ] {
        assert!(text.lines().any(|told| told == line || told == format!("{line}.0")), "{line} in {text}");
    }
    for line in ["sluicegate_adaptive_arrivals{rule=\"guard\"} ", "sluicegate_adaptive_average_response_time_seconds{"]
    {
        assert!(text.lines().any(|told| told.starts_with(line)), "{line} in {text}");
    }
    // What is not known yet is neither.
    assert!(!text.contains("traffic") && !text.contains("pressure_ratio"), "{text}");
    prometheus_approves(&text);
}

/// Names follow from each other, so that whoever knows one finds the other.
#[test]
fn every_instrument_is_named_by_the_conventions() {
    let mut names = BTreeSet::new();
    for instrument in ALL {
        assert!(names.insert(instrument.name), "{} is there twice", instrument.name);
        assert!(instrument.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'.' || byte == b'_'));
        assert!(!instrument.name.ends_with("total") && !instrument.help.ends_with('.'), "{}", instrument.name);
        assert!(!instrument.help.contains(['\\', '\n', '"']), "{}", instrument.name);
        assert!(instrument.kind != Kind::Histogram || instrument.unit.suffix().is_some(), "{}", instrument.name);
    }
}

/// What Prometheus calls an instrument.
fn prometheus_name(instrument: &Instrument) -> String {
    let unit = instrument.unit.suffix().map(|unit| format!("_{unit}")).unwrap_or_default();
    let total = if instrument.kind == Kind::Counter { "_total" } else { "" };
    format!("{}{unit}{total}", instrument.name.replace('.', "_"))
}

#[test]
fn every_instrument_is_in_the_manual() {
    let manual = include_str!("../../../../../docs/operations.md");
    for instrument in ALL {
        let name = format!("`{}`", prometheus_name(instrument));
        assert!(manual.contains(&name) && manual.contains(instrument.help), "{name}");
    }
}

/// A plot of a metric that is not there stays empty, and nobody is told.
#[test]
fn grafana_s_dashboard_asks_for_what_there_is() {
    let dashboard = include_str!("../../../../../examples/grafana/sluicegate.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let known: Vec<String> = ALL.iter().map(|instrument| prometheus_name(instrument)).collect();
    let asked = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut metrics = 0;
    for expression in asked.map(|target| target["expr"].as_str().unwrap()) {
        let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        for word in words.filter(|word| word.starts_with("sluicegate_") || word.starts_with("process_")) {
            let name = word.strip_suffix("_bucket").unwrap_or(word);
            assert!(known.iter().any(|known| known == name), "{word} in {expression}");
            metrics += 1;
        }
    }
    assert!(metrics > 20, "{metrics}");
}
