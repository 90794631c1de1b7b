//! The whole file.

use std::collections::HashMap;

use super::Context;
use super::admin::admin;
use super::fields::Fields;
use super::gateway::gateway;
use super::item::Item;
use super::log::log;
use super::rule::{ReadRule, rule};
use super::server::server;
use super::store::store;
use crate::diagnostic::Finding;
use crate::grammar::tables;
use crate::lint;
use crate::settings::{DEFAULT_MEMORY, HeaderStyle, ListEntry, Lists, RulesFrom, Settings, Store};
use crate::source::Span;
use crate::tree::{Node, Value};

/// The most rules of one file.
pub(crate) const MOST_RULES: usize = 100_000;

/// Reads a file's tree. What is wrong with it is in the context's findings.
pub(crate) fn read<'c>(context: &'c Context<'c>, root: &'c Node<'c>) -> Settings {
    let Some(fields) = Fields::open(context, root, &tables::FILE) else { return Settings::default() };
    let store = fields.get("store").and_then(store).unwrap_or(Store::Memory);
    let headers = match fields.word("headers") {
        Some("legacy") => HeaderStyle::Legacy,
        Some("x") => HeaderStyle::X,
        Some("none") => HeaderStyle::None,
        _ => HeaderStyle::Ietf,
    };
    let memory = fields.get("memory").and_then(|it| memory(&it)).unwrap_or(DEFAULT_MEMORY);
    let mut listeners = Vec::new();
    let gateway = fields.section("gateway").map(|it| gateway(&it, &mut listeners));
    let server = fields.section("server").map(|it| server(&it, &mut listeners));
    let admin = fields.section("admin").map(|it| admin(&it, &mut listeners));
    let rules_from = rules_from(&fields, &store);
    let watch = fields.get("watch").and_then(|it| it.truth()).unwrap_or(true);
    let log = fields.section("log").map(|it| log(&it)).unwrap_or_default();
    let base =
        Settings { store, headers, memory, gateway, server, admin, rules_from, watch, log, ..Settings::default() };
    decided(&fields, base)
}

/// Reads the tree of rules and lists that live in a store, for a process with these settings.
pub(crate) fn read_shared<'c>(context: &'c Context<'c>, root: &'c Node<'c>, base: &Settings) -> Settings {
    let hint = |name: &str| {
        let elsewhere = tables::FILE.field(name)?;
        Some(format!("`{}` stands in the file of each process, not with the fleet's rules", elsewhere.name))
    };
    match Fields::open_hinted(context, root, &tables::SHARED, hint) {
        Some(fields) => decided(&fields, base.clone()),
        None => Settings::default(),
    }
}

/// Settings with the rules and lists that these fields have.
fn decided(fields: &Fields<'_>, base: Settings) -> Settings {
    let (lists, list_places) = fields.section("lists").map(|it| lists(&it)).unwrap_or_default();
    let read = fields.get("rules").map(rules).unwrap_or_default();
    lint::rules(fields.context, &read, base.memory, &base.store);
    if let (Some(gateway), None) = (&base.gateway, &base.server) {
        lint::provided(fields.context, gateway, &read, &lists, &list_places);
    }
    let rules = read.into_iter().map(|read| read.rule).collect();
    Settings { rules, lists, ..base }
}

fn rules_from(fields: &Fields<'_>, store: &Store) -> RulesFrom {
    if fields.word("rules_from") != Some("store") {
        return RulesFrom::File;
    }
    if *store == Store::Memory && !fields.has_slip_of("store") {
        fields.context.report(
            Finding::error(fields.value_span("rules_from"), "there is no store that rules could live in")
                .label("`store` is this process' memory")
                .help("name one: `store: redis://127.0.0.1:6379`, or leave `rules_from` out"),
        );
    }
    RulesFrom::Store
}

fn memory(item: &Item<'_>) -> Option<u64> {
    let memory = item.size()?;
    if memory == 0 {
        item.context.report(
            Finding::error(item.span(), "`memory` is zero")
                .label("no key could be remembered")
                .help("give it a size such as 256MiB"),
        );
        return None;
    }
    Some(memory)
}

/// The lists, and where their entries stand: those of `allow` first.
fn lists(fields: &Fields<'_>) -> (Lists, Vec<Span>) {
    let mut places = Vec::new();
    let mut list = |name| -> Vec<ListEntry> {
        let mut entries = Vec::new();
        for item in fields.get(name).and_then(|it| it.items()).into_iter().flatten() {
            let (Some(condition), Some(text)) = (item.condition(), item.text()) else { continue };
            entries.push(ListEntry { condition, text: text.to_owned() });
            places.push(item.span());
        }
        entries
    };
    (Lists { allow: list("allow"), deny: list("deny") }, places)
}

fn rules(item: Item<'_>) -> Vec<ReadRule> {
    if let Value::List(nodes) = &item.node.value
        && nodes.len() > MOST_RULES
    {
        let first = nodes.get(MOST_RULES).map_or(item.span(), |node| node.span);
        item.context.report(
            Finding::error(first, format!("{} rules: the most is {MOST_RULES}", nodes.len()))
                .label("one too many")
                .help("one rule with a key does the work of many rules without"),
        );
        return Vec::new();
    }
    let mut names: HashMap<String, Span> = HashMap::new();
    let mut rules = Vec::new();
    for item in item.items().into_iter().flatten() {
        let Some(read) = item.section().and_then(|it| rule(&it)) else { continue };
        let (name, span) = (&read.rule.name, read.places.name);
        if let Some(first) = names.get(name) {
            item.context.report(
                Finding::error(span, format!("there are two rules `{name}`"))
                    .label("again here")
                    .also(*first, "first here")
                    .help("give each rule a name of its own: its counts belong to its name"),
            );
        } else {
            names.insert(name.clone(), span);
        }
        rules.push(read);
    }
    rules
}
