//! Every fixture file, and what is made of it. `bad/` is refused, `warned/` is taken with warnings,
//! `good/` is taken without errors; the snapshots show exactly what a user sees.

#![allow(clippy::unwrap_used, clippy::panic, reason = "functions that tests share are tests too")]

use std::fs;
use std::path::Path;

use sluicegate_config::{Loaded, Report, Settings, Style, parse};
use sluicegate_engine::rule::{Expr, Rule};

fn read(path: &Path) -> Result<Loaded, Report> {
    let name = path.file_name().unwrap().to_string_lossy();
    parse(&name, &fs::read_to_string(path).unwrap())
}

#[test]
fn bad_files_are_refused_with_place_and_remedy() {
    insta::glob!("bad/*.yaml", |path| {
        let report = read(path).unwrap_err();
        for diagnostic in report.diagnostics() {
            assert!(diagnostic.help.is_some(), "no remedy: {diagnostic}");
            assert!(!diagnostic.to_string().contains(char::is_control));
        }
        insta::assert_snapshot!(report.render(Style::Plain));
    });
}

#[test]
fn doubtful_files_are_taken_with_warnings() {
    insta::glob!("warned/*.yaml", |path| {
        let loaded = read(path).unwrap_or_else(|report| panic!("{report}"));
        assert!(!loaded.warnings.is_empty());
        insta::assert_snapshot!(loaded.warnings.render(Style::Plain));
    });
}

#[test]
fn good_files_become_settings() {
    insta::glob!("good/*.yaml", |path| {
        let loaded = read(path).unwrap_or_else(|report| panic!("{report}"));
        insta::assert_snapshot!(format!("{}\n{}", shown(&loaded.settings), loaded.warnings));
    });
}

/// Settings as text: everything they say, and nothing of how the engine keeps it.
fn shown(settings: &Settings) -> String {
    let mut text = String::new();
    for rule in &settings.rules {
        text.push_str(&format!("rule {}", shown_rule(rule)));
    }
    for entry in &settings.lists.allow {
        text.push_str(&format!("allow {} (read as {})\n", entry.text, entry.condition));
    }
    for entry in &settings.lists.deny {
        text.push_str(&format!("deny {} (read as {})\n", entry.text, entry.condition));
    }
    text.push_str(&format!("store {:?}\n", settings.store));
    text.push_str(&format!("headers {:?}\n", settings.headers));
    text.push_str(&format!("memory {}\n", settings.memory));
    text.push_str(&format!("gateway {:#?}\n", settings.gateway));
    text.push_str(&format!("server {:?}\n", settings.server));
    text.push_str(&format!("admin {:?}\n", settings.admin));
    let (from, watch, log) = (settings.rules_from, settings.watch, settings.log);
    text.push_str(&format!("rules from {from:?}, watch {watch}, log {log:?}\n"));
    text
}

fn shown_rule(rule: &Rule) -> String {
    let when = rule.when.as_ref().map_or("always".to_owned(), Expr::to_string);
    let mut text = format!("{}\n  {:?} match {} when {when}\n", rule.name, rule.side, rule.target);
    for part in &rule.key {
        text.push_str(&format!("  key {} /{} /{}\n", part.attribute, part.ipv4_prefix, part.ipv6_prefix));
    }
    for limit in &rule.limits {
        text.push_str(&format!("  limit {limit}\n"));
    }
    if let Some(adaptive) = &rule.adaptive {
        text.push_str(&format!("  adaptive {adaptive}\n    {adaptive:?}\n"));
    }
    text.push_str(&format!("  cost {:?}, priority {:?}, mode {:?}\n", rule.cost, rule.priority, rule.mode));
    text.push_str(&format!("  scope {:?}\n", rule.scope));
    text.push_str(&format!("  ban {:?}\n", rule.ban));
    text.push_str(&format!("  on limit {:?}\n", rule.on_limit));
    text.push_str(&format!("  max keys {:?}\n", rule.max_keys));
    text
}
