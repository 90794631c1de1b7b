//! `sluicegate check`: shows the rules of a file and its warnings.

use std::fmt::Write;

use serde_json::{Value, json};
use sluicegate_config::settings::{Server, Service};
use sluicegate_config::{Diagnostic, LoadedConfig, Report, Settings, Severity};
use sluicegate_engine::limit::parse::HumanDuration;
use sluicegate_engine::rule::{Adaptive, Ceiling, Direction, Quorum, Rule};
use sluicegate_engine::sluice::{KeyCapacity, key_capacities};
use sluicegate_terminal::table::{RowStyle, draw};
use sluicegate_terminal::{CommandOutput, Exit, OutputFormat};

use crate::args::Check;
use crate::describe_routes;
use crate::describe_rules::{self, pluralize};
use crate::rules::{self, LoadedRules, RulesError};
use crate::style::TerminalStyle;

pub(crate) fn run(args: &Check, style: TerminalStyle) -> CommandOutput {
    match (rules::load(&args.file, style), args.format) {
        (Ok(LoadedRules { loaded, .. }), format) => match rules::simulate(&loaded.settings) {
            Ok(_) => {
                let out = match format {
                    OutputFormat::Table => render_text(&loaded, style),
                    OutputFormat::Json => format!("{:#}\n", render_json(&loaded)),
                };
                let has_warnings = args.deny_warnings && !loaded.warnings.is_empty();
                let exit = if has_warnings { Exit::Failure } else { Exit::Success };
                CommandOutput { exit, ..CommandOutput::done(out) }
            }
            Err(output) => output,
        },
        (Err(RulesError { output, report: Some(report) }), OutputFormat::Json) => {
            let out = format!("{:#}\n", json!({ "usable": false, "errors": diagnostics(&report) }));
            CommandOutput { out, err: String::new(), ..output }
        }
        (Err(error), _) => error.output,
    }
}

/// Memory for keys per rule, in the order of the rules.
fn key_memory(settings: &Settings) -> Vec<KeyCapacity> {
    key_capacities(&settings.rules, usize::try_from(settings.memory).unwrap_or(usize::MAX))
}

fn render_text(loaded: &LoadedConfig, style: TerminalStyle) -> String {
    let LoadedConfig { settings, warnings } = loaded;
    let mut page = String::new();
    if !settings.rules.is_empty() {
        let rows = settings.rules.iter().zip(key_memory(settings)).map(|(rule, memory)| row(rule, memory)).collect();
        let header = ["rule", "match", "key", "limits", "cost", "over the limit", "mode", "scope", "max keys"];
        page.push_str(&draw(RowStyle::Ruled, header, rows));
        page.push('\n');
    }
    let adaptive_rows: Vec<_> = settings.rules.iter().filter_map(adaptive_row).collect();
    if !adaptive_rows.is_empty() {
        page.push_str(&draw(RowStyle::Ruled, ["rule", "match", "overload protection"], adaptive_rows));
        page.push('\n');
    }
    for (list, entries) in [("allow", &settings.lists.allow), ("deny", &settings.lists.deny)] {
        for entry in entries {
            let _ = writeln!(page, "{list:<5}  {}", entry.text);
        }
    }
    let list_entries = settings.lists.allow.len() + settings.lists.deny.len();
    if list_entries > 0 {
        page.push('\n');
    }
    if let Some(gateway) = &settings.gateway {
        let _ = writeln!(page, "{}", describe_routes::render_text(gateway));
    }
    if let Some(server) = &settings.server {
        let _ = writeln!(page, "{}\n", server_addresses(server));
    }
    if !warnings.is_empty() {
        let _ = writeln!(page, "{}\n", warnings.render(style.out));
    }
    let memory: usize = key_memory(settings).iter().map(|memory| memory.bytes).sum();
    let _ = writeln!(
        page,
        "{}, {}, {}; {} memory for keys",
        pluralize(settings.rules.len(), "rule"),
        if list_entries == 1 { "1 list entry".to_owned() } else { format!("{list_entries} list entries") },
        pluralize(warnings.len(), "warning"),
        if memory == 0 { "no".to_owned() } else { format!("{} of", describe_rules::size(memory as u64)) },
    );
    page
}

fn row(rule: &Rule, memory: KeyCapacity) -> [String; 9] {
    [
        rule.name.clone(),
        describe_rules::requests(rule),
        describe_rules::key(rule),
        describe_rules::limits(rule),
        describe_rules::cost(rule),
        describe_rules::on_limit(rule),
        describe_rules::mode(rule).to_owned(),
        describe_rules::scope(rule.scope),
        describe_rules::key_memory(memory),
    ]
}

/// Table row of an adaptive rule.
fn adaptive_row(rule: &Rule) -> Option<[String; 3]> {
    let protection = match rule.adaptive.as_ref()? {
        Adaptive::Ceiling(Ceiling { conditions, quorum, cap, .. }) => {
            let conditions: Vec<String> = conditions.iter().map(ToString::to_string).collect();
            let separator = match quorum {
                Quorum::All => "\nand ",
                Quorum::Any => "\nor ",
            };
            format!("{cap} while {}", conditions.join(separator))
        }
        other => other.to_string(),
    };
    Some([rule.name.clone(), describe_rules::requests(rule), protection])
}

/// Addresses of the decision server.
fn server_addresses(server: &Server) -> String {
    let services = [("rls", &server.rls), ("http", &server.http), ("resp", &server.resp)];
    let lines = services.into_iter().filter_map(|(name, service)| {
        let Service { address, unix, tls, secret_file: secret } = service.as_ref()?;
        let encrypted = if tls.is_some() { " with TLS" } else { "" };
        let network = address.map(|address| format!("{address}{encrypted}"));
        let endpoints: Vec<String> = network.into_iter().chain(unix.clone()).collect();
        let note = if secret.is_some() { ", requires the secret" } else { "" };
        Some(format!("{name:<5}  {}{note}", endpoints.join(" and ")))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn render_json(loaded: &LoadedConfig) -> Value {
    let LoadedConfig { settings, warnings } = loaded;
    let entries = |list: &[sluicegate_config::settings::ListEntry]| -> Vec<String> {
        list.iter().map(|entry| entry.text.clone()).collect()
    };
    json!({
        "usable": true,
        "rules": settings.rules.iter().map(rule_document).collect::<Vec<_>>(),
        "lists": { "allow": entries(&settings.lists.allow), "deny": entries(&settings.lists.deny) },
        "memory": settings.memory,
        "gateway": settings.gateway.as_ref().map(describe_routes::render_json),
        "warnings": diagnostics(warnings),
    })
}

fn rule_document(rule: &Rule) -> Value {
    json!({
        "name": rule.name,
        "direction": match rule.direction {
            Direction::Inbound => "inbound",
            Direction::Outbound => "outbound",
            Direction::Descriptor => "descriptor",
        },
        "match": rule.target.to_string(),
        "when": rule.when.as_ref().map(ToString::to_string),
        "key": rule.key.iter().map(|part| part.attribute.to_string()).collect::<Vec<_>>(),
        "limits": rule.limits.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "adaptive": rule.adaptive.as_ref().map(ToString::to_string),
        "cost": describe_rules::cost(rule).replace('\n', ", "),
        "ban": rule.ban.map(|ban| json!({
            "after": ban.after,
            "within": HumanDuration(ban.within).to_string(),
            "for": HumanDuration(ban.duration).to_string(),
        })),
        "on_limit": describe_rules::on_limit(rule).replace('\n', ", "),
        "mode": describe_rules::mode(rule),
        "scope": describe_rules::scope(rule.scope).replace('\n', ", "),
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
