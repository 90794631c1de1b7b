//! One rule.

use std::time::Duration;

use sluicegate_engine::limit::parse;
use sluicegate_engine::rule::{
    Attribute, Ban, ClusterMode, KeyPart, Mode, OnStoreFailure, Priority, Rule, Scope, Side, Target,
};
use sluicegate_engine::{Limit, LimitError};

use super::adaptive::adaptive;
use super::cost::cost;
use super::fields::Fields;
use super::item::Item;
use super::limit::limit;
use super::on_limit::on_limit;
use crate::diagnostic::{Finding, quoted};
use crate::grammar::Shape;
use crate::notation;
use crate::source::Span;
use crate::tree::Value;

/// The longest name.
const LONGEST_NAME: usize = 128;

/// The most limits one rule may have.
pub(crate) const MOST_LIMITS: usize = 16;

/// A rule with the places of what it says, for warnings.
pub(crate) struct ReadRule {
    pub(crate) rule: Rule,
    pub(crate) places: Places,
}

/// Where a rule says what.
pub(crate) struct Places {
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

/// Reads one of `rules`. A rule is answered only if nothing it needs is wrong, but everything it says
/// is looked at.
pub(crate) fn rule(fields: &Fields<'_>) -> Option<ReadRule> {
    let name = fields.get("name").and_then(|it| name(&it));
    let (target, called) = match fields.get("match").and_then(|it| target(&it)) {
        Some((target, called)) => (target, called),
        None => (Target::default(), false),
    };
    let side = side(fields, called);
    let when = fields.get("when").and_then(|it| it.condition());
    let key = fields.get("key").map(key).unwrap_or_default();
    let limits = limits(fields);
    let cost = fields.get("cost").and_then(|it| cost(it.narrow())).unwrap_or_default();
    let ban = fields.section("ban").and_then(|it| ban(&it));
    let priority = match fields.word("priority") {
        Some("vip") => Priority::Vip,
        Some("background") => Priority::Background,
        _ => Priority::Normal,
    };
    let mode = match fields.word("mode") {
        Some("shadow") => Mode::Shadow,
        _ => Mode::Enforce,
    };
    let scope = scope(fields);
    let on_limit = fields.section("on_limit").map(|it| on_limit(&it)).unwrap_or_default();
    let max_keys = fields.count("max_keys").and_then(|count| usize::try_from(count).ok());
    let adaptive = fields.get("adaptive").and_then(adaptive);
    let places = Places {
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
        side,
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
    Some(ReadRule { rule, places })
}

fn name(item: &Item<'_>) -> Option<String> {
    let text = item.text()?;
    let letters = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let fault = match text.as_bytes() {
        [] => "empty",
        [first, ..] if !first.is_ascii_alphanumeric() => "must begin with a letter or digit",
        bytes if !bytes.iter().all(|b| letters(*b)) => "letters, digits, `.`, `_` and `-` only",
        bytes if bytes.len() > LONGEST_NAME => "longer than 128 characters",
        _ => return Some(text.to_owned()),
    };
    item.context.report(
        Finding::error(item.span(), format!("{} is no name for a rule", quoted(text)))
            .label(fault)
            .help("write a name such as per-ip; it stands in metrics, headers and logs"),
    );
    None
}

/// The target, and whether it is of the calling side.
fn target(item: &Item<'_>) -> Option<(Target, bool)> {
    if let Value::List(_) = item.node.value {
        item.mismatch(Some(
            "a rule has one target: several methods are written GET|HEAD, many paths /api/**".to_owned(),
        ));
        return None;
    }
    let text = item.text()?;
    let target = notation::target(text).map_err(|fault| item.report_fault(&fault)).ok()?;
    Some((target, text.trim_start().starts_with("caller-of")))
}

fn side(fields: &Fields<'_>, called: bool) -> Side {
    let said = fields.word("side");
    if called && said.is_some_and(|side| side != "outbound") {
        fields.context.report(
            Finding::error(fields.value_span("side"), "`caller-of` is about requests going out")
                .label("says otherwise")
                .also(fields.value_span("match"), "calls of ours")
                .help("remove `side`, or write `side: outbound`"),
        );
    }
    match said {
        _ if called => Side::Outbound,
        Some("outbound") => Side::Outbound,
        Some("descriptor") => Side::Descriptor,
        _ => Side::Inbound,
    }
}

fn key(item: Item<'_>) -> Vec<KeyPart> {
    let item = item.narrow();
    let mut parts: Vec<(KeyPart, Span)> = Vec::new();
    match item.shape {
        Shape::List(_) => {
            for part in item.items().into_iter().flatten() {
                let Some(read) = key_part(part.narrow()) else { continue };
                if let Some((_, first)) = parts.iter().find(|(other, _)| other.attribute == read.attribute) {
                    item.context.report(
                        Finding::error(part.span(), "this attribute is in the key already")
                            .label("again here")
                            .also(*first, "first here")
                            .help("keep one of them"),
                    );
                }
                parts.push((read, part.span()));
            }
            if matches!(&item.node.value, Value::List(nodes) if nodes.is_empty()) {
                item.context.report(
                    Finding::error(item.span(), "the key is empty")
                        .label("no attribute")
                        .help("name an attribute such as client.ip, or leave `key` out to count everything together"),
                );
            }
        }
        _ => parts.extend(key_part(item).map(|part| (part, item.span()))),
    }
    parts.into_iter().map(|(part, _)| part).collect()
}

fn key_part(item: Item<'_>) -> Option<KeyPart> {
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
                        Finding::error(fields.key_span(name), format!("`{name}` goes with client.ip only"))
                            .label("this attribute is no address")
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

fn limits(fields: &Fields<'_>) -> Vec<(Limit, Span)> {
    let mut limits = Vec::new();
    let mut given = 0;
    let list = fields.get("limits");
    for item in list.and_then(|it| it.items()).into_iter().flatten() {
        given += 1;
        limits.extend(limit(item).map(|limit| (limit, item.span())));
    }
    let empty = list.is_some_and(|it| matches!(&it.node.value, Value::List(nodes) if nodes.is_empty()));
    let absent = !["limits", "adaptive"].iter().any(|name| fields.has(name) || fields.has_slip_of(name));
    if empty || absent {
        let span = if empty { fields.value_span("limits") } else { fields.head() };
        fields.context.report(
            Finding::error(span, "this rule limits nothing")
                .label("no `limits`")
                .help("add `limits: [100/s]`, or `adaptive`"),
        );
    }
    if given > MOST_LIMITS {
        let error = LimitError::TooManyLimits { count: given, most: MOST_LIMITS };
        fields.context.report_limit(fields.key_span("limits"), &error, || "remove some".to_owned());
    }
    limits
}

fn ban(fields: &Fields<'_>) -> Option<Ban> {
    let within = fields.get("within").map(|it| it.some_duration());
    let after = fields.get("after").and_then(|it| {
        let it = it.narrow();
        match it.shape {
            Shape::Count(..) => {
                let after = it.count().and_then(|count| u32::try_from(count).ok());
                if within.is_none() {
                    fields.context.report(
                        Finding::error(it.span(), "refusals within how long?")
                            .label("a number alone")
                            .help("write `after: 3 refusals in 1m`, or add `within: 1m`"),
                    );
                }
                after.zip(within.flatten())
            }
            Shape::Refusals => {
                if within.is_some() {
                    fields.context.report(
                        Finding::error(fields.key_span("within"), "`after` says already within how long")
                            .label("a second time")
                            .also(it.span(), "said here")
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
    let lasting = fields.get("for").and_then(|it| it.some_duration());
    let (after, within) = after?;
    Some(Ban { after, within, lasting: lasting? })
}

/// `3 refusals in 1m`.
fn refusals(item: &Item<'_>) -> Option<(u32, Duration)> {
    let text = item.text()?;
    let read = || -> Option<(u32, Duration)> {
        let mut words = text.split_whitespace();
        let after = parse::count(words.next()?).ok().and_then(|count| u32::try_from(count).ok())?;
        let mut word = words.next()?;
        if matches!(word, "refusal" | "refusals") {
            word = words.next()?;
        }
        let within = parse::duration(words.next()?).ok()?;
        (word == "in" && words.next().is_none() && after > 0 && !within.is_zero()).then_some((after, within))
    };
    let found = read();
    if found.is_none() {
        item.mismatch(Some("write how many refusals in which time, both more than zero".to_owned()));
    }
    found
}

fn scope(fields: &Fields<'_>) -> Scope {
    let said = fields.word("scope");
    let cluster = fields.section("cluster");
    let mode = match cluster.and_then(|it| it.word("mode")) {
        Some("lease") => ClusterMode::Lease,
        _ => ClusterMode::Exact,
    };
    let on_store_failure = match cluster.and_then(|it| it.word("on_store_failure")) {
        Some("open") => OnStoreFailure::Open,
        Some("closed") => OnStoreFailure::Closed,
        _ => OnStoreFailure::LocalShare,
    };
    if said == Some("cluster") {
        return Scope::Cluster { mode, on_store_failure };
    }
    if fields.has("cluster") && (said == Some("local") || !fields.has("scope")) {
        fields.context.report(
            Finding::error(fields.key_span("cluster"), "`cluster` without `scope: cluster`")
                .label("has no effect on a local rule")
                .help("add `scope: cluster`, or remove `cluster`"),
        );
    }
    Scope::Local
}
