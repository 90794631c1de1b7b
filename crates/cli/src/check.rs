//! `sluicegate check`: what a rule file says, and what is doubtful about it.

use std::fmt::Write;

use serde_json::{Value, json};
use sluicegate_config::settings::{AdaptiveRule, Comparison, Condition, Server, Service, Signal, Threshold};
use sluicegate_config::{Diagnostic, Loaded, Report, Settings, Severity};
use sluicegate_engine::limit::parse::{Bytes, Span};
use sluicegate_engine::rule::{Rule, Side};
use sluicegate_engine::sluice::{Remembered, remembered};

use crate::answer::{Answer, Exit, Look};
use crate::args::{Check, Format};
use crate::describe::{self, counted};
use crate::routing;
use crate::rules::{self, Read, Unusable};
use crate::table::{Rows, draw};

pub(crate) fn run(args: &Check, look: Look) -> Answer {
    match (rules::load(&args.file, look), args.format) {
        (Ok(Read { loaded, .. }), format) => match rules::enforce(&loaded.settings) {
            Ok(_) => {
                let out = match format {
                    Format::Table => page(&loaded, look),
                    Format::Json => format!("{:#}\n", document(&loaded)),
                };
                let doubtful = args.deny_warnings && !loaded.warnings.is_empty();
                let exit = if doubtful { Exit::Bad } else { Exit::Done };
                Answer { exit, ..Answer::done(out) }
            }
            Err(answer) => answer,
        },
        (Err(Unusable { answer, report: Some(report) }), Format::Json) => {
            let out = format!("{:#}\n", json!({ "usable": false, "errors": diagnostics(&report) }));
            Answer { out, err: String::new(), ..answer }
        }
        (Err(unusable), _) => unusable.answer,
    }
}

/// What each rule remembers, in the order of the rules.
fn memories(settings: &Settings) -> Vec<Remembered> {
    remembered(&settings.rules, usize::try_from(settings.memory).unwrap_or(usize::MAX))
}

fn page(loaded: &Loaded, look: Look) -> String {
    let Loaded { settings, warnings } = loaded;
    let mut page = String::new();
    if !settings.rules.is_empty() {
        let rows = settings.rules.iter().zip(memories(settings)).map(|(rule, memory)| row(rule, memory)).collect();
        let header = ["rule", "for", "key", "limits", "cost", "over the limit", "mode", "scope", "keys kept"];
        page.push_str(&draw(Rows::Ruled, header, rows));
        page.push('\n');
    }
    if !settings.adaptive.is_empty() {
        let rows = settings.adaptive.iter().map(adaptive_row).collect();
        page.push_str(&draw(Rows::Ruled, ["rule", "for", "holds only while", "limit"], rows));
        page.push('\n');
    }
    for (list, entries) in [("allow", &settings.lists.allow), ("deny", &settings.lists.deny)] {
        for entry in entries {
            let _ = writeln!(page, "{list:<5}  {}", entry.text);
        }
    }
    let listed = settings.lists.allow.len() + settings.lists.deny.len();
    if listed > 0 {
        page.push('\n');
    }
    if let Some(gateway) = &settings.gateway {
        let _ = writeln!(page, "{}", routing::page(gateway));
    }
    if let Some(server) = &settings.server {
        let _ = writeln!(page, "{}\n", listening(server));
    }
    if !warnings.is_empty() {
        let _ = writeln!(page, "{}\n", warnings.render(look.out));
    }
    if let Some(note) = not_yet(settings) {
        let _ = writeln!(page, "{note}\n");
    }
    let memory: usize = memories(settings).iter().map(|memory| memory.bytes).sum();
    let _ = writeln!(
        page,
        "{}, {}, {}; {} of memory for keys",
        counted(settings.rules.len() + alone(settings), "rule"),
        if listed == 1 { "1 list entry".to_owned() } else { format!("{listed} list entries") },
        counted(warnings.len(), "warning"),
        if memory == 0 { "no".to_owned() } else { describe::size(memory as u64) },
    );
    page
}

/// Adaptive rules without limits of their own: they are not among the rules.
fn alone(settings: &Settings) -> usize {
    let known = |name: &str| settings.rules.iter().any(|rule| rule.name == name);
    settings.adaptive.iter().filter(|adaptive| !known(&adaptive.rule.name)).count()
}

fn row(rule: &Rule, memory: Remembered) -> [String; 9] {
    [
        rule.name.clone(),
        describe::requests(rule),
        describe::key(rule),
        describe::limits(rule),
        describe::cost(rule),
        describe::on_limit(rule),
        describe::mode(rule).to_owned(),
        describe::scope(rule.scope),
        describe::remembered(memory),
    ]
}

fn adaptive_row(adaptive: &AdaptiveRule) -> [String; 4] {
    let rule = &adaptive.rule;
    let when: Vec<String> = adaptive.when.iter().map(condition).collect();
    [rule.name.clone(), describe::requests(rule), when.join("\n"), describe::limits(rule)]
}

fn condition(condition: &Condition) -> String {
    let signal = match condition.signal {
        Signal::Load1 => "load1",
        Signal::Load5 => "load5",
        Signal::LoadPerCore => "load_per_core",
        Signal::Cpu => "cpu",
        Signal::CpuPressure => "cpu_pressure",
        Signal::Memory => "memory",
        Signal::AverageResponseTime => "avg_rt",
        Signal::InFlight => "in_flight",
        Signal::RequestsPerSecond => "rps",
        Signal::Connections => "connections",
        Signal::Traffic => "traffic",
        _ => "signal",
    };
    let sign = match condition.comparison {
        Comparison::Above => ">",
        Comparison::AtLeast => ">=",
        Comparison::Below => "<",
        Comparison::AtMost => "<=",
    };
    let value = match condition.value {
        Threshold::Number(number) => number.to_string(),
        Threshold::Share(share) => format!("{}%", (share * 10_000.0).round() / 100.0),
        Threshold::Time(time) => Span(time).to_string(),
        Threshold::BytesPerSecond(bytes) => format!("{}/s", Bytes(bytes)),
    };
    format!("{signal} {sign} {value}")
}

/// Where decisions are to be had.
fn listening(server: &Server) -> String {
    let services = [("rls", &server.rls), ("http", &server.http), ("resp", &server.resp)];
    let lines = services.into_iter().filter_map(|(name, service)| {
        let Service { address, unix, tls, secret } = service.as_ref()?;
        let encrypted = if tls.is_some() { " with TLS" } else { "" };
        let network = address.map(|address| format!("{address}{encrypted}"));
        let places: Vec<String> = network.into_iter().chain(unix.clone()).collect();
        let asked = if secret.is_some() { ", for whoever shows the secret" } else { "" };
        Some(format!("{name:<5}  {}{asked}", places.join(" and ")))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What the file asks for and this version only reads.
fn not_yet(settings: &Settings) -> Option<String> {
    let adaptive = !settings.adaptive.is_empty();
    adaptive.then(|| "note: checked, but not acted upon in this version: adaptive".to_owned())
}

fn document(loaded: &Loaded) -> Value {
    let Loaded { settings, warnings } = loaded;
    let entries = |list: &[sluicegate_config::settings::ListEntry]| -> Vec<String> {
        list.iter().map(|entry| entry.text.clone()).collect()
    };
    json!({
        "usable": true,
        "rules": settings.rules.iter().map(rule_document).collect::<Vec<_>>(),
        "adaptive": settings.adaptive.iter().map(|adaptive| json!({
            "rule": rule_document(&adaptive.rule),
            "while": adaptive.when.iter().map(condition).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "lists": { "allow": entries(&settings.lists.allow), "deny": entries(&settings.lists.deny) },
        "memory": settings.memory,
        "gateway": settings.gateway.as_ref().map(routing::document),
        "warnings": diagnostics(warnings),
    })
}

fn rule_document(rule: &Rule) -> Value {
    json!({
        "name": rule.name,
        "side": match rule.side {
            Side::Inbound => "inbound",
            Side::Outbound => "outbound",
            Side::Descriptor => "descriptor",
        },
        "match": rule.target.to_string(),
        "when": rule.when.as_ref().map(ToString::to_string),
        "key": rule.key.iter().map(|part| part.attribute.to_string()).collect::<Vec<_>>(),
        "limits": rule.limits.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "cost": describe::cost(rule).replace('\n', ", "),
        "ban": rule.ban.map(|ban| json!({
            "after": ban.after,
            "within": Span(ban.within).to_string(),
            "for": Span(ban.lasting).to_string(),
        })),
        "on_limit": describe::on_limit(rule).replace('\n', ", "),
        "mode": describe::mode(rule),
        "scope": describe::scope(rule.scope).replace('\n', ", "),
        "max_keys": rule.max_keys,
    })
}

fn diagnostics(report: &Report) -> Vec<Value> {
    let shown = |it: &Diagnostic| {
        json!({
            "severity": match it.severity { Severity::Error => "error", Severity::Warning => "warning" },
            "file": it.file,
            "line": it.line,
            "column": it.column,
            "message": it.message,
            "label": it.label,
            "help": it.help,
        })
    };
    report.diagnostics().iter().map(shown).collect()
}
