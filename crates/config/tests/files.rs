//! Snapshot tests of all fixture files: `bad/` is refused, `warned/` is accepted with warnings, `good/` is
//! accepted without errors. The snapshots contain the output that the user sees.

use std::fs;
use std::path::Path;

use sluicegate_config::{LoadedConfig, RenderStyle, Report, Settings, parse};
use sluicegate_engine::rule::{Expr, Rule};

fn load(path: &Path) -> Result<LoadedConfig, Report> {
    let name = path.file_name().unwrap().to_string_lossy();
    parse(&name, &fs::read_to_string(path).unwrap())
}

#[test]
fn bad_files_are_refused_with_location_and_remedy() {
    insta::glob!("bad/*.yaml", |path| {
        let report = load(path).unwrap_err();
        for diagnostic in report.diagnostics() {
            assert!(diagnostic.help.is_some(), "no remedy: {diagnostic}");
            assert!(!diagnostic.to_string().contains(char::is_control));
        }
        insta::assert_snapshot!(report.render(RenderStyle::Plain));
    });
}

#[test]
fn warned_files_are_accepted_with_warnings() {
    insta::glob!("warned/*.yaml", |path| {
        let loaded = load(path).unwrap_or_else(|report| panic!("{report}"));
        assert!(!loaded.warnings.is_empty());
        insta::assert_snapshot!(loaded.warnings.render(RenderStyle::Plain));
    });
}

#[test]
fn good_files_become_settings() {
    insta::glob!("good/*.yaml", |path| {
        let loaded = load(path).unwrap_or_else(|report| panic!("{report}"));
        insta::assert_snapshot!(format!("{}\n{}", render(&loaded.settings), loaded.warnings));
    });
}

/// Renders all settings, without engine internals.
fn render(settings: &Settings) -> String {
    let mut text = String::new();
    for rule in &settings.rules {
        text.push_str(&format!("rule {}", render_rule(rule)));
    }
    for entry in &settings.lists.allow {
        text.push_str(&format!("allow {} (parsed as {})\n", entry.text, entry.condition));
    }
    for entry in &settings.lists.deny {
        text.push_str(&format!("deny {} (parsed as {})\n", entry.text, entry.condition));
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

fn render_rule(rule: &Rule) -> String {
    let when = rule.when.as_ref().map_or("always".to_owned(), Expr::to_string);
    let mut text = format!("{}\n  {:?} match {} when {when}\n", rule.name, rule.direction, rule.target);
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
