//! Lints: warnings about valid settings, and errors about settings that cannot work.
//!
//! A warning is reported only if the file proves it. Errors are settings that cannot work: a
//! cost that exceeds a limit, or bandwidth combined with other limits.

mod bandwidth;
mod descriptors;
mod missing_attributes;
mod overload;
mod redundant_limits;
mod unsatisfiable;

use std::collections::HashMap;

use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::Imprecision;
use sluicegate_engine::limit::parse::HumanBytes;
use sluicegate_engine::rule::{Attribute, ClusterMode, Cost, Direction, Mode, Rule, Scope};
use sluicegate_engine::store::is_leasable;

use crate::diagnostic::DiagnosticBuilder;
use crate::parse::{ParseContext, ParsedFile, ParsedRule, RuleSpans};
use crate::settings::Store;
use crate::source::Span;

use missing_attributes::missing_attributes;

/// Minimum number of keys of a useful rule.
const MIN_KEYS: u64 = 1_000;

/// Bytes per key in the table in addition to the limit state: fingerprint and share of its bucket.
const BYTES_PER_KEY: u64 = 16;

/// Checks a parsed file.
pub(crate) fn file(context: &ParseContext<'_>, parsed: &ParsedFile) {
    let ParsedFile { base, rules: parsed_rules, lists, list_spans } = parsed;
    rules(context, parsed_rules, base.memory, &base.store);
    if let (Some(gateway), None) = (&base.gateway, &base.server) {
        missing_attributes(context, gateway, parsed_rules, lists, list_spans);
    }
}

/// Checks the rules of a file, individually and together.
fn rules(context: &ParseContext<'_>, rules: &[ParsedRule], memory: u64, store: &Store) {
    for parsed @ ParsedRule { rule, spans } in rules {
        bandwidth::check(context, parsed);
        descriptors::check(context, parsed);
        overload::check(context, parsed);
        never_admitted(context, rule, spans);
        never_matches(context, rule, spans);
        redundant_limits::check(context, rule, spans);
        check_bans(context, rule, spans);
        check_keys(context, rule, spans);
        for (limit, span) in rule.limits.iter().zip(&spans.limits) {
            check_rounding(context, limit, *span);
        }
    }
    check_duplicates(context, rules);
    check_memory(context, rules, memory);
    check_scope(context, rules, store);
    check_leases(context, rules);
}

/// Reports a cost larger than a limit: the request is never admitted.
fn never_admitted(context: &ParseContext<'_>, rule: &Rule, spans: &RuleSpans) {
    let (Cost::Fixed(cost) | Cost::Estimate { reserve: cost, .. }) = rule.cost else { return };
    for (limit, span) in rule.limits.iter().zip(&spans.limits) {
        // Bandwidth counts bytes, regardless of the rule's cost.
        let counts_cost = !bandwidth::is_bandwidth(limit);
        if counts_cost && cost > limit.capacity() {
            context.report(
                DiagnosticBuilder::error(spans.cost, format!("the cost {cost} exceeds the limit"))
                    .label("every request would be refused")
                    .with_related(*span, format!("maximum {}", limit.capacity()))
                    .help("lower the cost, or raise the limit or its burst"),
            );
        }
    }
}

fn never_matches(context: &ParseContext<'_>, rule: &Rule, spans: &RuleSpans) {
    if let Some(reason) = rule.when.as_ref().and_then(|when| unsatisfiable::find(when, &rule.target)) {
        context.report(
            DiagnosticBuilder::warning(spans.when, format!("rule `{}` never matches", rule.name))
                .label(reason)
                .help("correct the condition, or remove the rule"),
        );
    }
}

fn check_bans(context: &ParseContext<'_>, rule: &Rule, spans: &RuleSpans) {
    if rule.ban.is_none() || rule.limits.iter().any(bandwidth::is_bandwidth) {
        return;
    }
    if rule.key.is_empty() {
        context.report(
            DiagnosticBuilder::warning(
                spans.ban,
                format!("the ban of `{}` applies to all clients together", rule.name),
            )
            .label("the rule has no key")
            .help("add a `key`, such as client.ip"),
        );
    }
    if rule.mode == Mode::Shadow {
        context.report(
            DiagnosticBuilder::warning(spans.ban, format!("the ban of `{}` has no effect", rule.name))
                .label("the rule is in shadow mode and refuses nothing")
                .help("remove `ban`, or `mode: shadow`"),
        );
    }
}

fn check_keys(context: &ParseContext<'_>, rule: &Rule, spans: &RuleSpans) {
    if rule.key.is_empty() && rule.max_keys.is_some() {
        context.report(
            DiagnosticBuilder::warning(spans.max_keys, "`max_keys` has no effect")
                .label("the rule has no key")
                .help("add a `key`, or remove `max_keys`"),
        );
    }
    for part in &rule.key {
        match &part.attribute {
            Attribute::ClientIp if rule.direction == Direction::Outbound => context.report(
                DiagnosticBuilder::warning(spans.key, "outbound requests have no client address")
                    .label("constant or missing")
                    .help("use a key that the call has, such as service, host or account"),
            ),
            Attribute::Param(name) if !names_param(rule, name) => {
                let warning =
                    DiagnosticBuilder::warning(spans.key, format!("the path pattern has no parameter '{name}'"))
                        .label("always missing")
                        .help(format!("add `{{{name}}}` to the path in `match`, or use another key"));
                let has_path = rule.target.path.is_some();
                context.report(if has_path { warning.with_related(spans.target, "path pattern") } else { warning });
            }
            _ => {}
        }
    }
}

fn names_param(rule: &Rule, name: &str) -> bool {
    let path = rule.target.path.as_deref().unwrap_or_default();
    let mut names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    names.any(|inner| inner.trim_start_matches('*').split(':').next() == Some(name))
}

/// Reports limits whose stored form differs noticeably from the written one.
fn check_rounding(context: &ParseContext<'_>, limit: &Limit, span: Span) {
    if let Some(Imprecision { description, remedy }) = limit.imprecision() {
        context.report(DiagnosticBuilder::warning(span, description).label("stricter than configured").help(remedy));
    }
}

/// Reports rules that differ only in name.
fn check_duplicates(context: &ParseContext<'_>, rules: &[ParsedRule]) {
    let mut seen: HashMap<String, &ParsedRule> = HashMap::with_capacity(rules.len());
    for parsed in rules.iter().filter(|parsed| !parsed.rule.limits.is_empty()) {
        let Rule { direction, target, when, key, limits, cost, mode, scope, .. } = &parsed.rule;
        let when = when.as_ref().map(ToString::to_string);
        let fingerprint = format!("{direction:?} {target:?} {when:?} {key:?} {limits:?} {cost:?} {mode:?} {scope:?}");
        if let Some(first) = seen.get(&fingerprint) {
            let (name, other) = (&parsed.rule.name, &first.rule.name);
            context.report(
                DiagnosticBuilder::warning(parsed.spans.name, format!("`{name}` is a duplicate of `{other}`"))
                    .label("same requests, key and limits")
                    .with_related(first.spans.name, "first rule")
                    .help("remove one of them"),
            );
            continue;
        }
        seen.insert(fingerprint, parsed);
    }
}

/// Reports rules with too few keys: keyed rules share the memory evenly.
fn check_memory(context: &ParseContext<'_>, rules: &[ParsedRule], memory: u64) {
    let keyed = || rules.iter().filter(|parsed| !parsed.rule.key.is_empty() && parsed.rule.max_keys.is_none());
    let share = memory / (keyed().count() as u64).max(1);
    let is_short = |parsed: &&ParsedRule| share / bytes_per_key(&parsed.rule) < MIN_KEYS;
    if let Some(first) = keyed().find(is_short) {
        let name = &first.rule.name;
        let max_keys = share / bytes_per_key(&first.rule);
        let others = keyed().filter(is_short).count() - 1;
        let more = if others > 0 { format!(" (also {others} more rules)") } else { String::new() };
        context.report(
            DiagnosticBuilder::warning(first.spans.key, format!("`{name}` has memory for only {max_keys} keys{more}"))
                .label(format!("its share of `memory` is {}", HumanBytes(share)))
                .help("raise `memory`, or use a limit with less state; keys that are evicted while limited share one strict count"),
        );
    }
}

fn bytes_per_key(rule: &Rule) -> u64 {
    let words: usize = rule.limits.iter().map(Limit::words).sum();
    BYTES_PER_KEY + 8 * words as u64
}

/// Reports a cluster-wide rule without a shared store.
fn check_scope(context: &ParseContext<'_>, rules: &[ParsedRule], store: &Store) {
    let clustered = rules.iter().find(|parsed| matches!(parsed.rule.scope, Scope::Cluster { .. }));
    if let (Some(parsed), Store::Memory) = (clustered, store) {
        context.report(
            DiagnosticBuilder::warning(parsed.spans.scope, "`scope: cluster` has no effect without a shared store")
                .label("`store` is the memory of this process")
                .help("add a store, such as `store: redis://127.0.0.1:6379`"),
        );
    }
}

/// Reports a lease that is not possible: each request would need a store round trip.
fn check_leases(context: &ParseContext<'_>, rules: &[ParsedRule]) {
    for ParsedRule { rule, spans } in rules {
        let Scope::Cluster { mode: ClusterMode::Lease, .. } = rule.scope else { continue };
        let limits = rule.limits.iter().zip(&spans.limits);
        if let Some((_, span)) = limits.into_iter().find(|(limit, _)| !is_leasable(limit)) {
            context.report(
                DiagnosticBuilder::warning(spans.scope, "`mode: lease` has no effect: the store decides each request")
                    .label("rule with `mode: lease`")
                    .with_related(*span, "this limit does not support leases")
                    .help("use leases for token buckets and windows; move other limits to a separate rule"),
            );
        }
    }
}
