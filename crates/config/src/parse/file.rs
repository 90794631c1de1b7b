//! Parses the root of the file.

use std::collections::HashMap;

use super::ParseContext;
use super::admin::admin;
use super::gateway::gateway;
use super::log::log;
use super::map::FieldMap;
use super::rule::{ParsedRule, rule};
use super::server::server;
use super::store::store;
use super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;
use crate::grammar::tables;
use crate::settings::{DEFAULT_MEMORY_BYTES, HeaderStyle, ListEntry, Lists, RulesFrom, Settings, Store};
use crate::source::Span;
use crate::tree::{Node, Value};

/// Maximum number of rules in a file.
pub const MAX_RULES: usize = 100_000;

/// A parsed file with the spans of its rules and lists, for lints.
pub(crate) struct ParsedFile {
    /// All settings but the rules and lists.
    pub(crate) base: Settings,
    pub(crate) rules: Vec<ParsedRule>,
    pub(crate) lists: Lists,
    /// Spans of the entries of the lists, `allow` first.
    pub(crate) list_spans: Vec<Span>,
}

impl ParsedFile {
    /// The settings, without spans.
    pub(crate) fn into_settings(self) -> Settings {
        let rules = self.rules.into_iter().map(|parsed| parsed.rule).collect();
        Settings { rules, lists: self.lists, ..self.base }
    }
}

/// Parses a file's tree. Errors go to the context.
pub(crate) fn parse_file<'c>(context: &'c ParseContext<'c>, root: &'c Node<'c>) -> Option<ParsedFile> {
    let fields = FieldMap::open(context, root, &tables::FILE)?;
    let store = fields.get("store").and_then(store).unwrap_or(Store::Memory);
    let headers = match fields.keyword("headers") {
        Some("legacy") => HeaderStyle::Legacy,
        Some("x") => HeaderStyle::X,
        Some("none") => HeaderStyle::None,
        _ => HeaderStyle::Ietf,
    };
    let memory = fields.get("memory").and_then(|it| memory(&it)).unwrap_or(DEFAULT_MEMORY_BYTES);
    let mut listeners = Vec::new();
    let gateway = fields.section("gateway").map(|it| gateway(&it, &mut listeners));
    let server = fields.section("server").map(|it| server(&it, &mut listeners));
    let admin = fields.section("admin").map(|it| admin(&it, &mut listeners));
    let rules_from = rules_from(&fields, &store);
    let watch = fields.get("watch").and_then(|it| it.boolean()).unwrap_or(true);
    let log = fields.section("log").map(|it| log(&it)).unwrap_or_default();
    let base =
        Settings { store, headers, memory, gateway, server, admin, rules_from, watch, log, ..Settings::default() };
    Some(with_rules(&fields, base))
}

/// Parses rules and lists from a shared store, for a process with these settings.
pub(crate) fn parse_shared_rules<'c>(
    context: &'c ParseContext<'c>,
    root: &'c Node<'c>,
    base: &Settings,
) -> Option<ParsedFile> {
    let hint = |name: &str| {
        let field = tables::FILE.field(name)?;
        Some(format!("`{}` belongs in the file of each process, not in the shared rules", field.name))
    };
    let fields = FieldMap::open_hinted(context, root, &tables::SHARED, hint)?;
    Some(with_rules(&fields, base.clone()))
}

/// Adds the rules and lists of these fields to `base`.
fn with_rules(fields: &FieldMap<'_>, base: Settings) -> ParsedFile {
    let (lists, list_spans) = fields.section("lists").map(|it| lists(&it)).unwrap_or_default();
    ParsedFile { base, rules: fields.get("rules").map(rules).unwrap_or_default(), lists, list_spans }
}

fn rules_from(fields: &FieldMap<'_>, store: &Store) -> RulesFrom {
    if fields.keyword("rules_from") != Some("store") {
        return RulesFrom::File;
    }
    if *store == Store::Memory && !fields.has_typo_of("store") {
        fields.context.report(
            DiagnosticBuilder::error(fields.value_span("rules_from"), "`rules_from: store` needs a shared store")
                .label("`store` is the memory of this process")
                .help("add a store, such as `store: redis://127.0.0.1:6379`, or remove `rules_from`"),
        );
    }
    RulesFrom::Store
}

fn memory(item: &FieldValue<'_>) -> Option<u64> {
    let memory = item.size()?;
    if memory == 0 {
        item.context.report(
            DiagnosticBuilder::error(item.span(), "`memory` is zero")
                .label("no memory for any key")
                .help("specify a size such as 256MiB"),
        );
        return None;
    }
    Some(memory)
}

/// Parses the lists with the spans of their entries, `allow` first.
fn lists(fields: &FieldMap<'_>) -> (Lists, Vec<Span>) {
    let mut spans = Vec::new();
    let mut list = |name| -> Vec<ListEntry> {
        let mut entries = Vec::new();
        for item in fields.get(name).and_then(|it| it.items()).into_iter().flatten() {
            let (Some(condition), Some(text)) = (item.condition(), item.text()) else { continue };
            entries.push(ListEntry { condition, text: text.to_owned() });
            spans.push(item.span());
        }
        entries
    };
    (Lists { allow: list("allow"), deny: list("deny") }, spans)
}

fn rules(item: FieldValue<'_>) -> Vec<ParsedRule> {
    if let Value::List(nodes) = &item.node.value
        && nodes.len() > MAX_RULES
    {
        let first = nodes.get(MAX_RULES).map_or(item.span(), |node| node.span);
        item.context.report(
            DiagnosticBuilder::error(first, format!("{} rules: the maximum is {MAX_RULES}", nodes.len()))
                .label("one too many")
                .help("replace rules that differ only in one value by a rule with a `key`"),
        );
        return Vec::new();
    }
    let mut names: HashMap<String, Span> = HashMap::new();
    let mut rules = Vec::new();
    for item in item.items().into_iter().flatten() {
        let Some(parsed) = item.section().and_then(|it| rule(&it)) else { continue };
        let (name, span) = (&parsed.rule.name, parsed.spans.name);
        if let Some(first) = names.get(name) {
            item.context.report(
                DiagnosticBuilder::error(span, format!("duplicate rule name `{name}`"))
                    .label("duplicate")
                    .with_related(*first, "first rule with this name")
                    .help("give each rule a unique name; its counts belong to the name"),
            );
        } else {
            names.insert(name.clone(), span);
        }
        rules.push(parsed);
    }
    rules
}
