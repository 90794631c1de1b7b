//! `sluicegate check`: what a rule file says, and what is doubtful about it.

use std::fmt::Write;

use serde_json::{Value, json};
use sluicegate_config::settings::{Server, Service};
use sluicegate_config::{Diagnostic, Loaded, Report, Settings, Severity};
use sluicegate_engine::limit::parse::Span;
use sluicegate_engine::rule::{Adaptive, Ceiling, Need, Rule, Side};
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
    let protecting: Vec<_> = settings.rules.iter().filter_map(adaptive_row).collect();
    if !protecting.is_empty() {
        page.push_str(&draw(Rows::Ruled, ["rule", "for", "under strain, all together"], protecting));
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
    let memory: usize = memories(settings).iter().map(|memory| memory.bytes).sum();
    let _ = writeln!(
        page,
        "{}, {}, {}; {} memory for keys",
        counted(settings.rules.len(), "rule"),
        if listed == 1 { "1 list entry".to_owned() } else { format!("{listed} list entries") },
        counted(warnings.len(), "warning"),
        if memory == 0 { "no".to_owned() } else { format!("{} of", describe::size(memory as u64)) },
    );
    page
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

/// A rule that protects the process, and how.
fn adaptive_row(rule: &Rule) -> Option<[String; 3]> {
    let protection = match rule.adaptive.as_ref()? {
        Adaptive::Ceiling(Ceiling { conditions, need, most, .. }) => {
            let conditions: Vec<String> = conditions.iter().map(ToString::to_string).collect();
            let between = match need {
                Need::All => "\nand ",
                Need::Any => "\nor ",
            };
            format!("{most} while {}", conditions.join(between))
        }
        other => other.to_string(),
    };
    Some([rule.name.clone(), describe::requests(rule), protection])
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

fn document(loaded: &Loaded) -> Value {
    let Loaded { settings, warnings } = loaded;
    let entries = |list: &[sluicegate_config::settings::ListEntry]| -> Vec<String> {
        list.iter().map(|entry| entry.text.clone()).collect()
    };
    json!({
        "usable": true,
        "rules": settings.rules.iter().map(rule_document).collect::<Vec<_>>(),
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
        "adaptive": rule.adaptive.as_ref().map(ToString::to_string),
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
