//! Parses a rule.

use std::time::Duration;

use sluicegate_engine::limit::parse;
use sluicegate_engine::rule::{
    Attribute, Ban, ClusterMode, Direction, KeyPart, Mode, OnStoreFailure, Priority, Rule, Scope, Target,
};
use sluicegate_engine::{Limit, LimitError};

use super::adaptive::adaptive;
use super::cost::cost;
use super::limit::limit;
use super::map::FieldMap;
use super::on_limit::on_limit;
use super::value::FieldValue;
use crate::diagnostic::{DiagnosticBuilder, quoted};
use crate::expressions;
use crate::grammar::Shape;
use crate::source::Span;
use crate::tree::Value;

/// Maximum length of a name.
const MAX_NAME_BYTES: usize = 128;

/// Maximum number of limits per rule.
pub const MAX_LIMITS: usize = 16;

/// A rule with the spans of its fields, for lints.
pub(crate) struct ParsedRule {
    pub(crate) rule: Rule,
    pub(crate) spans: RuleSpans,
}

/// Spans of a rule's fields.
pub(crate) struct RuleSpans {
    pub(crate) name: Span,
    pub(crate) target: Span,
    pub(crate) when: Span,
    pub(crate) key: Span,
    pub(crate) limits: Vec<Span>,
    pub(crate) cost: Span,
    pub(crate) ban: Span,
    pub(crate) mode: Span,
    pub(crate) scope: Span,
    pub(crate) on_limit: Span,
    pub(crate) adaptive: Span,
    pub(crate) max_keys: Span,
}

/// Parses an entry of `rules`. All fields are checked, but a rule is returned only if every required part is
/// valid.
pub(crate) fn rule(fields: &FieldMap<'_>) -> Option<ParsedRule> {
    let name = fields.get("name").and_then(|it| name(&it));
    let (target, is_call) = match fields.get("match").and_then(|it| target(&it)) {
        Some((target, is_call)) => (target, is_call),
        None => (Target::default(), false),
    };
    let direction = direction(fields, is_call);
    let when = fields.get("when").and_then(|it| it.condition());
    let key = fields.get("key").map(key).unwrap_or_default();
    let limits = limits(fields);
    let cost = fields.get("cost").and_then(|it| cost(it.narrow())).unwrap_or_default();
    let ban = fields.section("ban").and_then(|it| ban(&it));
    let priority = match fields.keyword("priority") {
        Some("vip") => Priority::Vip,
        Some("background") => Priority::Background,
        _ => Priority::Normal,
    };
    let mode = match fields.keyword("mode") {
        Some("shadow") => Mode::Shadow,
        _ => Mode::Enforce,
    };
    let scope = scope(fields);
    let on_limit = fields.section("on_limit").map(|it| on_limit(&it)).unwrap_or_default();
    let max_keys = fields.count("max_keys").and_then(|count| usize::try_from(count).ok());
    let adaptive = fields.get("adaptive").and_then(adaptive);
    let spans = RuleSpans {
        name: fields.value_span("name"),
        target: fields.value_span("match"),
        when: fields.value_span("when"),
        key: fields.value_span("key"),
        limits: limits.iter().map(|(_, span)| *span).collect(),
        cost: fields.value_span("cost"),
        ban: fields.key_span("ban"),
        mode: fields.value_span("mode"),
        scope: fields.value_span("scope"),
        on_limit: fields.key_span("on_limit"),
        adaptive: fields.key_span("adaptive"),
        max_keys: fields.key_span("max_keys"),
    };
    let limits = limits.into_iter().map(|(limit, _)| limit).collect();
    let rule = Rule {
        name: name?,
        direction,
        target,
        when,
        key,
        limits,
        adaptive,
        cost,
        ban,
        priority,
        mode,
        scope,
        on_limit,
        max_keys,
    };
    Some(ParsedRule { rule, spans })
}

fn name(item: &FieldValue<'_>) -> Option<String> {
    let text = item.text()?;
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let error = match text.as_bytes() {
        [] => "empty",
        [first, ..] if !first.is_ascii_alphanumeric() => "must start with a letter or digit",
        bytes if !bytes.iter().all(|b| is_allowed(*b)) => "only letters, digits, `.`, `_` and `-` are allowed",
        bytes if bytes.len() > MAX_NAME_BYTES => "longer than 128 characters",
        _ => return Some(text.to_owned()),
    };
    item.context.report(
        DiagnosticBuilder::error(item.span(), format!("{} is not a valid rule name", quoted(text)))
            .label(error)
            .help("use a name such as per-ip; it appears in metrics, headers and logs"),
    );
    None
}

/// Parses the target; true if it selects calls to a service.
fn target(item: &FieldValue<'_>) -> Option<(Target, bool)> {
    if let Value::List(_) = item.node.value {
        item.mismatch(Some(
            "a rule has one target; write several methods as GET|HEAD and several paths as /api/**".to_owned(),
        ));
        return None;
    }
    let text = item.text()?;
    let target = expressions::target(text).map_err(|error| item.report_syntax_error(&error)).ok()?;
    Some((target, text.trim_start().starts_with("calls-to")))
}

fn direction(fields: &FieldMap<'_>, is_call: bool) -> Direction {
    let direction = fields.keyword("direction");
    if is_call && direction.is_some_and(|direction| direction != "outbound") {
        fields.context.report(
            DiagnosticBuilder::error(fields.value_span("direction"), "`calls-to` matches only outbound requests")
                .label("not `outbound`")
                .with_related(fields.value_span("match"), "selects outbound requests")
                .help("remove `direction`, or write `direction: outbound`"),
        );
    }
    match direction {
        _ if is_call => Direction::Outbound,
        Some("outbound") => Direction::Outbound,
        Some("descriptor") => Direction::Descriptor,
        _ => Direction::Inbound,
    }
}

fn key(item: FieldValue<'_>) -> Vec<KeyPart> {
    let item = item.narrow();
    let mut parts: Vec<(KeyPart, Span)> = Vec::new();
    match item.shape {
        Shape::List(_) => {
            for part in item.items().into_iter().flatten() {
                let Some(parsed) = key_part(part.narrow()) else { continue };
                if let Some((_, first)) = parts.iter().find(|(other, _)| other.attribute == parsed.attribute) {
                    item.context.report(
                        DiagnosticBuilder::error(part.span(), "duplicate attribute in the key")
                            .label("duplicate")
                            .with_related(*first, "first")
                            .help("remove one of them"),
                    );
                }
                parts.push((parsed, part.span()));
            }
            if matches!(&item.node.value, Value::List(nodes) if nodes.is_empty()) {
                item.context.report(
                    DiagnosticBuilder::error(item.span(), "`key` is empty")
                        .label("no attribute")
                        .help("add an attribute such as client.ip, or remove `key` to count all requests together"),
                );
            }
        }
        _ => parts.extend(key_part(item).map(|part| (part, item.span()))),
    }
    parts.into_iter().map(|(part, _)| part).collect()
}

fn key_part(item: FieldValue<'_>) -> Option<KeyPart> {
    match item.shape {
        Shape::Section(_) => {
            let fields = item.section()?;
            let attribute = fields.get("attribute").and_then(|it| it.attribute());
            let bits = |name| fields.count(name).and_then(|bits| u8::try_from(bits).ok());
            let (ipv6, ipv4) = (bits("ipv6_prefix"), bits("ipv4_prefix"));
            let mut part = KeyPart::from(attribute?);
            if part.attribute != Attribute::ClientIp {
                for name in ["ipv6_prefix", "ipv4_prefix"].into_iter().filter(|name| fields.has(name)) {
                    fields.context.report(
                        DiagnosticBuilder::error(fields.key_span(name), format!("`{name}` applies only to client.ip"))
                            .label("this attribute is not an address")
                            .help("remove it"),
                    );
                }
            }
            part.ipv6_prefix = ipv6.unwrap_or(part.ipv6_prefix);
            part.ipv4_prefix = ipv4.unwrap_or(part.ipv4_prefix);
            Some(part)
        }
        Shape::Attribute => item.attribute().map(KeyPart::from),
        _ => {
            item.mismatch(None);
            None
        }
    }
}

fn limits(fields: &FieldMap<'_>) -> Vec<(Limit, Span)> {
    let mut limits = Vec::new();
    let mut given = 0;
    let list = fields.get("limits");
    for item in list.and_then(|it| it.items()).into_iter().flatten() {
        given += 1;
        limits.extend(limit(item).map(|limit| (limit, item.span())));
    }
    let empty = list.is_some_and(|it| matches!(&it.node.value, Value::List(nodes) if nodes.is_empty()));
    let absent = !["limits", "adaptive"].iter().any(|name| fields.has(name) || fields.has_typo_of(name));
    if empty || absent {
        let span = if empty { fields.value_span("limits") } else { fields.first_key_span() };
        fields.context.report(
            DiagnosticBuilder::error(span, "the rule has no limits")
                .label("`limits` is missing or empty")
                .help("add `limits: [100/s]`, or `adaptive`"),
        );
    }
    if given > MAX_LIMITS {
        let error = LimitError::TooManyLimits { count: given, max: MAX_LIMITS };
        fields.context.report_limit(fields.key_span("limits"), &error, || "remove some limits".to_owned());
    }
    limits
}

fn ban(fields: &FieldMap<'_>) -> Option<Ban> {
    let within = fields.get("within").map(|it| it.nonzero_duration());
    let after = fields.get("after").and_then(|it| {
        let it = it.narrow();
        match it.shape {
            Shape::Count(..) => {
                let after = it.count().and_then(|count| u32::try_from(count).ok());
                if within.is_none() {
                    fields.context.report(
                        DiagnosticBuilder::error(it.span(), "`after` has no period")
                            .label("only a number")
                            .help("write `after: 3 refusals in 1m`, or add `within: 1m`"),
                    );
                }
                after.zip(within.flatten())
            }
            Shape::Refusals => {
                if within.is_some() {
                    fields.context.report(
                        DiagnosticBuilder::error(fields.key_span("within"), "`after` already contains the period")
                            .label("a second period")
                            .with_related(it.span(), "the first")
                            .help("remove `within`"),
                    );
                }
                refusals(&it)
            }
            _ => {
                it.mismatch(None);
                None
            }
        }
    });
    let duration = fields.get("for").and_then(|it| it.nonzero_duration());
    let (after, within) = after?;
    Some(Ban { after, within, duration: duration? })
}

/// Parses `3 refusals in 1m`.
fn refusals(item: &FieldValue<'_>) -> Option<(u32, Duration)> {
    let text = item.text()?;
    let parse = || -> Option<(u32, Duration)> {
        let mut words = text.split_whitespace();
        let after = parse::count(words.next()?).ok().and_then(|count| u32::try_from(count).ok())?;
        let mut word = words.next()?;
        if matches!(word, "refusal" | "refusals") {
            word = words.next()?;
        }
        let within = parse::duration(words.next()?).ok()?;
        (word == "in" && words.next().is_none() && after > 0 && !within.is_zero()).then_some((after, within))
    };
    let refusals = parse();
    if refusals.is_none() {
        item.mismatch(Some("write the number of refusals and the period, both greater than zero".to_owned()));
    }
    refusals
}

fn scope(fields: &FieldMap<'_>) -> Scope {
    let scope = fields.keyword("scope");
    let cluster = fields.section("cluster");
    let mode = match cluster.and_then(|it| it.keyword("mode")) {
        Some("lease") => ClusterMode::Lease,
        _ => ClusterMode::Exact,
    };
    let on_store_failure = match cluster.and_then(|it| it.keyword("on_store_failure")) {
        Some("open") => OnStoreFailure::Open,
        Some("closed") => OnStoreFailure::Closed,
        _ => OnStoreFailure::LocalShare,
    };
    if scope == Some("cluster") {
        return Scope::Cluster { mode, on_store_failure };
    }
    if fields.has("cluster") && (scope == Some("local") || !fields.has("scope")) {
        fields.context.report(
            DiagnosticBuilder::error(fields.key_span("cluster"), "`cluster` without `scope: cluster`")
                .label("has no effect on a local rule")
                .help("add `scope: cluster`, or remove `cluster`"),
        );
    }
    Scope::Local
}
