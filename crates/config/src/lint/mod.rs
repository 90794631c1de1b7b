//! What works but is probably not meant, and what can never work.
//!
//! A warning says only what can be proved from the file. What is an error here could not do what it says:
//! a cost that no limit can ever hold, bandwidth beside limits of another kind.

mod bandwidth;
mod binding;
mod contradiction;
mod descriptors;
mod provided;
mod strain;

use std::collections::HashMap;

use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::Algorithm;
use sluicegate_engine::algorithm::gcra::TICKS_PER_NANO;
use sluicegate_engine::fleet::is_leasable;
use sluicegate_engine::limit::parse::Bytes;
use sluicegate_engine::rule::{Attribute, ClusterMode, Cost, Mode, Rule, Scope, Side};

use crate::diagnostic::Finding;
use crate::read::{Context, Places, ReadRule};
use crate::settings::Store;
use crate::source::Span;

pub(crate) use provided::provided;

/// Fewer keys than this are remembered by no useful rule.
const FEWEST_KEYS: u64 = 1_000;

/// What a key takes in the table beside its limits' words: fingerprint and share of its bucket.
const BYTES_PER_KEY: u64 = 16;

/// Looks at the rules of a file, one by one and together.
pub(crate) fn rules(context: &Context<'_>, rules: &[ReadRule], memory: u64, store: &Store) {
    for read @ ReadRule { rule, places, .. } in rules {
        bandwidth::look_at(context, read);
        descriptors::look_at(context, read);
        strain::look_at(context, read);
        never_admitted(context, rule, places);
        never_matches(context, rule, places);
        binding::never_binds(context, rule, places);
        bans(context, rule, places);
        keys(context, rule, places);
        for (limit, span) in rule.limits.iter().zip(&places.limits) {
            differs(context, limit, *span);
        }
    }
    duplicates(context, rules);
    small_memory(context, rules, memory);
    clustered(context, rules, store);
    leased(context, rules);
}

/// A cost larger than a limit: "never", not "later".
fn never_admitted(context: &Context<'_>, rule: &Rule, places: &Places) {
    let (Cost::Fixed(cost) | Cost::Estimate { reserve: cost, .. }) = rule.cost else { return };
    for (limit, span) in rule.limits.iter().zip(&places.limits) {
        // Bandwidth counts the bytes that pass, whatever the rule says a request costs.
        let counted = !bandwidth::is_bandwidth(limit);
        if counted && cost > limit.capacity() {
            context.report(
                Finding::error(places.cost, format!("a cost of {cost} never fits this limit"))
                    .label("every request would be refused")
                    .also(*span, format!("holds at most {}", limit.capacity()))
                    .help("lower the cost, or raise the limit or its burst"),
            );
        }
    }
}

fn never_matches(context: &Context<'_>, rule: &Rule, places: &Places) {
    if let Some(reason) = rule.when.as_ref().and_then(|when| contradiction::find(when, &rule.target)) {
        context.report(
            Finding::warning(places.when, format!("rule `{}` matches nothing", rule.name))
                .label(reason)
                .help("mend the condition, or remove the rule"),
        );
    }
}

fn bans(context: &Context<'_>, rule: &Rule, places: &Places) {
    if rule.ban.is_none() || rule.limits.iter().any(bandwidth::is_bandwidth) {
        return;
    }
    if rule.key.is_empty() {
        context.report(
            Finding::warning(places.ban, format!("the ban of `{}` shuts out everybody at once", rule.name))
                .label("the rule has no key")
                .help("add a `key`, such as client.ip"),
        );
    }
    if rule.mode == Mode::Shadow {
        context.report(
            Finding::warning(places.ban, format!("the ban of `{}` has no effect", rule.name))
                .label("the rule is in shadow mode and refuses nothing")
                .help("remove `ban`, or `mode: shadow`"),
        );
    }
}

fn keys(context: &Context<'_>, rule: &Rule, places: &Places) {
    if rule.key.is_empty() && rule.max_keys.is_some() {
        context.report(
            Finding::warning(places.max_keys, "`max_keys` has no effect")
                .label("the rule has no key")
                .help("add a `key`, or remove `max_keys`"),
        );
    }
    for part in &rule.key {
        match &part.attribute {
            Attribute::ClientIp if rule.side == Side::Outbound => context.report(
                Finding::warning(places.key, "requests going out have no client")
                    .label("always the same, or absent")
                    .help("key by something the call has, such as service, host or account"),
            ),
            Attribute::Param(name) if !names_param(rule, name) => {
                let warning = Finding::warning(places.key, format!("the path pattern has no parameter '{name}'"))
                    .label("never there")
                    .help(format!("write `{{{name}}}` in `match`, or key by another attribute"));
                let written = rule.target.path.is_some();
                context.report(if written { warning.also(places.target, "the pattern") } else { warning });
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

/// Limits that are kept noticeably otherwise than they are written.
fn differs(context: &Context<'_>, limit: &Limit, span: Span) {
    let (rate, interval) = match limit {
        Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket) => (bucket.rate(), bucket.gcra().interval()),
        Limit::SlidingWindow(window) if window.cells() < 4 => {
            let cells = window.cells();
            context.report(
                Finding::warning(
                    span,
                    format!("with {cells} cells a request counts for up to {} of the window", longer(cells)),
                )
                .label("stricter than written")
                .help("use 10 cells or more"),
            );
            return;
        }
        _ => return,
    };
    let written = rate.period().as_nanos() * u128::from(TICKS_PER_NANO);
    let kept = u128::from(interval) * u128::from(rate.count());
    let lost = kept.saturating_sub(written) * 100 / written.max(1);
    if lost >= 1 {
        context.report(
            Finding::warning(span, format!("{rate} is kept as {lost} % less: it is too fast to be counted exactly"))
                .label("stricter than written")
                .help("where that matters, raise the rate by as much"),
        );
    }
}

fn longer(cells: u32) -> String {
    format!("{} %", 100 + 100 / cells.max(1))
}

/// Rules that differ in name only.
fn duplicates(context: &Context<'_>, rules: &[ReadRule]) {
    let mut seen: HashMap<String, &ReadRule> = HashMap::with_capacity(rules.len());
    for read in rules.iter().filter(|read| !read.rule.limits.is_empty()) {
        let Rule { side, target, when, key, limits, cost, mode, scope, .. } = &read.rule;
        let when = when.as_ref().map(ToString::to_string);
        let essence = format!("{side:?} {target:?} {when:?} {key:?} {limits:?} {cost:?} {mode:?} {scope:?}");
        if let Some(first) = seen.get(&essence) {
            let (name, other) = (&read.rule.name, &first.rule.name);
            context.report(
                Finding::warning(read.places.name, format!("`{name}` limits the same as `{other}`"))
                    .label("the same requests, key and limits")
                    .also(first.places.name, "already limited here")
                    .help("remove one of them"),
            );
            continue;
        }
        seen.insert(essence, read);
    }
}

/// Keyed rules share the memory evenly; each should remember a useful number of keys.
fn small_memory(context: &Context<'_>, rules: &[ReadRule], memory: u64) {
    let keyed = || rules.iter().filter(|read| !read.rule.key.is_empty() && read.rule.max_keys.is_none());
    let share = memory / (keyed().count() as u64).max(1);
    let poor = |read: &&ReadRule| share / bytes_per_key(&read.rule) < FEWEST_KEYS;
    if let Some(first) = keyed().find(poor) {
        let name = &first.rule.name;
        let fit = share / bytes_per_key(&first.rule);
        let others = keyed().filter(poor).count() - 1;
        let more = if others > 0 { format!(" (and {others} more rules likewise)") } else { String::new() };
        context.report(
            Finding::warning(first.places.key, format!("`{name}` can remember only {fit} keys{more}"))
                .label(format!("its share of the memory is {}", Bytes(share)))
                .help("raise `memory`, or give the rule a simpler limit; a key that is forgotten while limited shares a strict count"),
        );
    }
}

fn bytes_per_key(rule: &Rule) -> u64 {
    let words: usize = rule.limits.iter().map(words).sum();
    BYTES_PER_KEY + 8 * words as u64
}

fn words(limit: &Limit) -> usize {
    match limit {
        Limit::TokenBucket(limit) | Limit::Bandwidth(limit) => limit.words(),
        Limit::LeakyBucket(limit) => limit.words(),
        Limit::FixedWindow(limit) => limit.words(),
        Limit::SlidingWindow(limit) => limit.words(),
        Limit::InterpolatedWindow(limit) => limit.words(),
        Limit::SlidingLog(limit) => limit.words(),
        Limit::Concurrency(limit) => limit.words(),
        Limit::WarmUp(limit) => limit.words(),
        _ => 1,
    }
}

/// A cluster-wide count needs a store that processes can share.
fn clustered(context: &Context<'_>, rules: &[ReadRule], store: &Store) {
    let clustered = rules.iter().find(|read| matches!(read.rule.scope, Scope::Cluster { .. }));
    if let (Some(read), Store::Memory) = (clustered, store) {
        context.report(
            Finding::warning(read.places.scope, "`scope: cluster` counts for this process alone")
                .label("the store is this process's memory")
                .help("set `store`, such as redis://127.0.0.1:6379"),
        );
    }
}

/// A lease that cannot be: the store decides each request instead, which is dearer than it looks.
fn leased(context: &Context<'_>, rules: &[ReadRule]) {
    for ReadRule { rule, places, .. } in rules {
        let Scope::Cluster { mode: ClusterMode::Lease, .. } = rule.scope else { continue };
        let limits = rule.limits.iter().zip(&places.limits);
        if let Some((_, span)) = limits.into_iter().find(|(limit, _)| !is_leasable(limit)) {
            context.report(
                Finding::warning(places.scope, "`mode: lease` has no effect: the store decides each request")
                    .label("asked for here")
                    .also(*span, "this limit cannot be taken in slices")
                    .help("lease token buckets and windows; put other limits into a rule of their own"),
            );
        }
    }
}
