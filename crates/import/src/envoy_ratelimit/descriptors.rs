//! Builds a domain and its rules from the tree of one file.

use std::collections::HashMap;

use sluicegate_config::Span;
use sluicegate_config::document::{
    DiagnosticBuilder, FieldMap, FieldValue, MAX_RULES, Node, ParseContext, Value, quoted, to_json,
};
use sluicegate_engine::rule::{Attribute, Direction, KeyPart, Mode, Rule, Target};

use super::grammar::{self, DESCRIPTOR, FILE, RATE_LIMIT};
use super::lenient_yaml;
use super::limit::DescriptorLimit;
use super::matching::{Descriptor, DescriptorLevel};
use super::rate_limit::{ParsedRateLimit, rate_limit};
use super::stat_name::{StatPath, UniqueNames};

/// Maximum length of a domain name, in bytes.
const MAX_DOMAIN_BYTES: usize = 1_024;

/// Attribute that holds a descriptor's [key](super::DescriptorMatch::key) in its rule.
const KEY_ATTRIBUTE: &str = "descriptor";

/// Rules built from all files.
#[derive(Default)]
pub(super) struct RulesBuilder {
    pub(super) rules: Vec<Rule>,
    names: UniqueNames,
    too_many: bool,
}

/// A domain and the span of its name.
pub(super) struct ParsedDomain {
    pub(super) name: String,
    pub(super) span: Span,
    pub(super) level: DescriptorLevel,
}

/// Context of a descriptor: the levels above it.
struct Parent<'a> {
    domain: &'a str,
    path: &'a StatPath,
    depth: u32,
    varying: u64,
    /// Entries without `share_threshold`: their values are counted separately, or there is only one value.
    distinct: u64,
    /// The subset of `distinct` with `value_to_metric`.
    metric_values: u64,
    value_to_metric: bool,
}

/// Parses one file. Errors go to the context.
pub(super) fn domain<'c>(
    context: &'c ParseContext<'c>,
    root: &'c Node<'c>,
    builder: &mut RulesBuilder,
) -> Option<ParsedDomain> {
    let fields = FieldMap::open_hinted(context, root, &FILE, |field| grammar::misplaced_help(&FILE, field))?;
    let name = fields.get("domain").and_then(|it| domain_name(&it));
    // Without a name, descriptors are still parsed, to report all errors at once.
    let domain = name.unwrap_or_default();
    let parent = Parent {
        domain,
        path: &StatPath::new(domain),
        depth: 0,
        varying: 0,
        distinct: 0,
        metric_values: 0,
        value_to_metric: false,
    };
    let level = fields.get("descriptors").map(|it| level(it, &parent, builder)).unwrap_or_default();
    Some(ParsedDomain { name: name?.to_owned(), span: fields.value_span("domain"), level })
}

fn domain_name<'c>(item: &FieldValue<'c>) -> Option<&'c str> {
    let name = lenient_yaml::text(item)?;
    let (message, help) = match name.len() {
        0 => ("empty domain name", "use the domain that the proxies send, such as shop"),
        1..=MAX_DOMAIN_BYTES => return Some(name),
        _ => ("the domain name is longer than 1024 bytes", "shorten it here and in the proxies"),
    };
    item.context.report(DiagnosticBuilder::error(item.span(), message).label("here").help(help));
    None
}

fn level(item: FieldValue<'_>, parent: &Parent<'_>, builder: &mut RulesBuilder) -> DescriptorLevel {
    let mut level = DescriptorLevel::default();
    let mut spans: HashMap<(&str, &str), Span> = HashMap::new();
    for item in item.items().into_iter().flatten() {
        let hint = |field: &str| grammar::misplaced_help(&DESCRIPTOR, field);
        let Some(fields) = FieldMap::open_hinted(item.context, item.node, &DESCRIPTOR, hint) else { continue };
        let key = fields.get("key").and_then(|it| key(&it));
        let value = match fields.get("value") {
            Some(it) => lenient_yaml::text(&it),
            None => Some(""),
        };
        let read = descriptor(&fields, key.unwrap_or_default(), value.unwrap_or_default(), parent, builder);
        let (Some(key), Some(value)) = (key, value) else { continue };
        let span = fields.value_span(if value.is_empty() { "key" } else { "value" });
        if level.add(key, value, read) {
            spans.insert((key, value), span);
        } else {
            item.context.report(duplicate_error(key, value, span, spans.get(&(key, value)).copied()));
        }
    }
    level
}

fn duplicate_error(key: &str, value: &str, span: Span, first: Option<Span>) -> DiagnosticBuilder {
    let what = match value {
        "" => format!("duplicate descriptor with key {} and no value", quoted(key)),
        _ => format!("duplicate descriptor with key {} and value {}", quoted(key), quoted(value)),
    };
    let diagnostic =
        DiagnosticBuilder::error(span, what).label("duplicate").help("remove one of them: only one can match");
    match first {
        Some(first) => diagnostic.with_related(first, "first definition"),
        None => diagnostic,
    }
}

fn key<'c>(item: &FieldValue<'c>) -> Option<&'c str> {
    let key = lenient_yaml::text(item)?;
    let (message, help) = match key {
        "" => ("empty descriptor key", "use the key of the entry, such as remote_address"),
        key if key.contains('*') => ("`*` in a key", "wildcards are allowed only in `value`"),
        key => return Some(key),
    };
    item.context.report(DiagnosticBuilder::error(item.span(), message).label("here").help(help));
    None
}

fn descriptor(
    fields: &FieldMap<'_>,
    key: &str,
    value: &str,
    parent: &Parent<'_>,
    builder: &mut RulesBuilder,
) -> Descriptor {
    let flag = |name| fields.get(name).and_then(|it| lenient_yaml::boolean(&it)).unwrap_or(false);
    let wild = value.contains('*');
    let shared = flag("share_threshold");
    if shared && !wild {
        fields.context.report(
            DiagnosticBuilder::error(
                fields.key_span("share_threshold"),
                "`share_threshold` without a `*` in the value",
            )
            .label("has no effect without a wildcard")
            .help("use a value such as files/*, or remove `share_threshold`"),
        );
    }
    let varies = value.is_empty() || wild && !shared;
    let value_to_metric = flag("value_to_metric");
    // The nesting limit of a file is far below the number of bits.
    let bit = |is_set: bool| u64::from(is_set).checked_shl(parent.depth).unwrap_or(0);
    let path = parent.path.child(key, value);
    let here = Parent {
        domain: parent.domain,
        path: &path,
        depth: parent.depth + 1,
        varying: parent.varying | bit(varies),
        distinct: parent.distinct | bit(!shared),
        metric_values: parent.metric_values | bit(value_to_metric && !shared),
        value_to_metric: parent.value_to_metric | value_to_metric,
    };
    let modes = Modes {
        shadow: flag("shadow_mode"),
        quota: flag("quota_mode"),
        detailed_metric: flag("detailed_metric"),
        metadata: fields.get("metadata").and_then(|it| metadata(&it)),
    };
    let hint = |field: &str| grammar::misplaced_help(&RATE_LIMIT, field);
    let limit = fields
        .get("rate_limit")
        .and_then(|it| FieldMap::open_hinted(it.context, it.node, &RATE_LIMIT, hint))
        .and_then(|it| rate_limit(&it));
    let metric_entries = if modes.detailed_metric { here.distinct } else { here.metric_values };
    let limit = limit.and_then(|it| builder.limit(it, modes, &here, fields));
    let below = fields.get("descriptors").map(|it| level(it, &here, builder)).unwrap_or_default();
    Descriptor { limit, varying: here.varying, metric_entries, below }
}

/// Settings next to a `rate_limit`.
struct Modes {
    shadow: bool,
    quota: bool,
    detailed_metric: bool,
    metadata: Option<serde_json::Value>,
}

fn metadata(item: &FieldValue<'_>) -> Option<serde_json::Value> {
    match &item.node.value {
        Value::Map(entries) if entries.is_empty() => None,
        Value::Map(_) => to_json(item.context, item.node),
        _ => {
            item.mismatch(None);
            None
        }
    }
}

impl RulesBuilder {
    /// Builds the limit of a descriptor, with a rule if it counts.
    fn limit(
        &mut self,
        parsed: ParsedRateLimit,
        modes: Modes,
        here: &Parent<'_>,
        at: &FieldMap<'_>,
    ) -> Option<DescriptorLimit> {
        let rule_name = self.names.unique(here.path.name());
        let mut position = None;
        if !parsed.limits.is_empty() {
            if self.rules.len() == MAX_RULES {
                self.report_too_many(at);
                return None;
            }
            position = Some(self.rules.len());
            self.rules.push(rule(rule_name.clone(), &parsed, &modes, here));
        }
        Some(DescriptorLimit {
            kind: parsed.kind,
            rule: position,
            rule_name,
            name: parsed.name,
            replaces: parsed.replaces,
            unit: parsed.unit,
            requests_per_unit: parsed.requests_per_unit,
            shadow: modes.shadow,
            quota: modes.quota,
            detailed_metric: modes.detailed_metric,
            value_to_metric: here.value_to_metric,
            metadata: modes.metadata,
        })
    }

    /// Reported once, at the first rule beyond the maximum.
    fn report_too_many(&mut self, at: &FieldMap<'_>) {
        if !std::mem::replace(&mut self.too_many, true) {
            at.context.report(
                DiagnosticBuilder::error(at.key_span("rate_limit"), format!("more than {MAX_RULES} limits"))
                    .label("exceeds the maximum")
                    .help("one descriptor without a value, or with `*` in its value, can replace many descriptors"),
            );
        }
    }
}

fn rule(name: String, parsed: &ParsedRateLimit, modes: &Modes, here: &Parent<'_>) -> Rule {
    let varies = here.varying != 0;
    Rule {
        direction: Direction::Descriptor,
        target: Target { service: Some(here.domain.to_owned()), ..Target::default() },
        key: varies.then(|| KeyPart::from(Attribute::custom(KEY_ATTRIBUTE))).into_iter().collect(),
        mode: if modes.shadow { Mode::Shadow } else { Mode::Enforce },
        ..Rule::new(name, parsed.limits.clone())
    }
}
