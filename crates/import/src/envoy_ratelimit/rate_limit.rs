//! Parses a `rate_limit`.

use sluicegate_config::Span;
use sluicegate_config::document::{self, DiagnosticBuilder, FieldMap, FieldValue, MAX_LIMITS, parse_limit};
use sluicegate_engine::algorithm::{LimitArguments, LimitUnit, ParameterValue};
use sluicegate_engine::{Limit, LimitError, Rate};

use super::grammar::{self, REPLACES};
use super::limit::LimitKind;
use super::{RateLimitUnit, lenient_yaml};

/// A parsed `rate_limit`.
pub(super) struct ParsedRateLimit {
    pub(super) kind: LimitKind,
    /// Empty unless the limit counts.
    pub(super) limits: Vec<Limit>,
    pub(super) unit: Option<RateLimitUnit>,
    pub(super) requests_per_unit: u32,
    pub(super) name: Option<String>,
    pub(super) replaces: Vec<String>,
}

/// Parses a `rate_limit`; `None` if it is unusable.
pub(super) fn rate_limit(fields: &FieldMap<'_>) -> Option<ParsedRateLimit> {
    let name =
        fields.get("name").and_then(|it| lenient_yaml::text(&it)).filter(|name| !name.is_empty()).map(str::to_owned);
    let replaces = replaces(fields, name.as_deref());
    let unlimited = fields.get("unlimited").and_then(|it| lenient_yaml::boolean(&it)).unwrap_or(false);
    let unit = fields.get("unit").and_then(|it| unit(&it));
    let requests = fields.get("requests_per_unit").and_then(|it| requests(&it));
    let algorithm = fields.keyword("algorithm");
    let burst = fields.count("burst");
    let own = fields.get("limits").map(limits);
    let parsed = |kind, limits, unit, requests_per_unit| ParsedRateLimit {
        kind,
        limits,
        unit,
        requests_per_unit,
        name,
        replaces,
    };
    if unlimited {
        let unused = ["unit", "algorithm", "burst", "limits"];
        refuse_unused(fields, "unlimited", &unused, "an unlimited descriptor is not counted: remove one of them");
        return Some(parsed(LimitKind::Unlimited, Vec::new(), None, requests.unwrap_or(0)));
    }
    if let Some(own) = own {
        let unused = ["unit", "requests_per_unit", "algorithm", "burst"];
        refuse_unused(fields, "limits", &unused, "`limits` replaces these fields: remove one of them");
        let first = *own.first()?;
        let reported = u32::try_from(first.capacity()).unwrap_or(u32::MAX);
        return Some(parsed(LimitKind::Counted, own, first.window().and_then(RateLimitUnit::from_duration), reported));
    }
    for missing in ["unit", "requests_per_unit"] {
        if !fields.has(missing) && !fields.has_typo_of(missing) {
            fields.context.report(
                DiagnosticBuilder::error(fields.first_key_span(), format!("missing field `{missing}` in a rate_limit"))
                    .label("required field is missing")
                    .help(match missing {
                        "unit" => "add `unit: second`, or `unlimited: true` for no limit",
                        _ => "add `requests_per_unit: 100`; 0 refuses all requests",
                    }),
            );
        }
    }
    refuse_unused_burst(fields, algorithm);
    let (unit, requests) = (unit?, requests?);
    if requests == 0 {
        return Some(parsed(LimitKind::Blocked, Vec::new(), Some(unit), 0));
    }
    let counted = build_limit(algorithm.unwrap_or("fixed_window"), requests, unit, burst)
        .map_err(|error| fields.context.report_limit(error_span(fields), &error, || "lower it".to_owned()))
        .ok()?;
    Some(parsed(LimitKind::Counted, vec![counted], Some(unit), requests))
}

/// Converts Envoy's unit and count to an engine limit.
fn build_limit(algorithm: &str, requests: u32, unit: RateLimitUnit, burst: Option<u64>) -> Result<Limit, LimitError> {
    let rate = Rate::new(u64::from(requests), unit.duration())?;
    let burst = burst.filter(|_| is_bucket(algorithm));
    Limit::from_arguments(
        algorithm,
        &LimitArguments::new([Some(ParameterValue::Rate(rate)), burst.map(ParameterValue::Count)]),
    )
}

/// True if the algorithm has a `burst`.
fn is_bucket(algorithm: &str) -> bool {
    matches!(algorithm, "token_bucket" | "leaky_bucket")
}

/// Best guess at the span of the value that makes a limit invalid.
fn error_span(fields: &FieldMap<'_>) -> Span {
    fields.value_span(if fields.has("burst") { "burst" } else { "requests_per_unit" })
}

fn unit(item: &FieldValue<'_>) -> Option<RateLimitUnit> {
    match &item.node.value {
        document::Value::Text(text) if RateLimitUnit::from_word(text).is_some() => RateLimitUnit::from_word(text),
        // Not a keyword: `keyword` reports the error.
        _ => item.keyword().and_then(RateLimitUnit::from_word),
    }
}

fn requests(item: &FieldValue<'_>) -> Option<u32> {
    let written = item.context.text.get(item.span().start..item.span().end).unwrap_or_default();
    if written.len() > 1 && written.starts_with('0') && written.bytes().all(|b| b.is_ascii_digit()) {
        item.context.report(
            DiagnosticBuilder::error(
                item.span(),
                format!("ambiguous number {written}: some YAML parsers read it as octal"),
            )
            .label("leading zero")
            .help("remove the leading zero"),
        );
        return None;
    }
    item.count().and_then(|count| u32::try_from(count).ok())
}

fn replaces(fields: &FieldMap<'_>, own: Option<&str>) -> Vec<String> {
    let mut replaced = Vec::new();
    for item in fields.get("replaces").and_then(|it| it.items()).into_iter().flatten() {
        let hint = |field: &str| grammar::misplaced_help(&REPLACES, field);
        let Some(entry) = FieldMap::open_hinted(item.context, item.node, &REPLACES, hint) else { continue };
        let Some(name) = entry.get("name").and_then(|it| lenient_yaml::text(&it)) else { continue };
        let message = match name {
            "" => "empty name in `replaces`",
            name if Some(name) == own => "a limit cannot replace itself",
            name => {
                replaced.push(name.to_owned());
                continue;
            }
        };
        let help = "use the `name` of another `rate_limit`";
        item.context.report(DiagnosticBuilder::error(entry.value_span("name"), message).label("here").help(help));
    }
    replaced
}

/// Parses `limits`, as in a rule.
fn limits(item: FieldValue<'_>) -> Vec<Limit> {
    let items: Vec<FieldValue<'_>> = item.items().into_iter().flatten().collect();
    if items.is_empty() && matches!(item.node.value, document::Value::List(_)) {
        item.context.report(
            DiagnosticBuilder::error(item.span(), "empty `limits` in a rate_limit")
                .label("no limits")
                .help("add one such as 100/s, or write `unlimited: true` instead of `limits`"),
        );
    }
    if items.len() > MAX_LIMITS {
        let error = LimitError::TooManyLimits { count: items.len(), max: MAX_LIMITS };
        item.context.report_limit(item.span(), &error, || "remove some of them".to_owned());
    }
    items.into_iter().filter_map(|it| parse_limit(it).filter(|limit| is_supported(&it, limit))).collect()
}

/// True if the limit works for a proxy that only requests decisions.
fn is_supported(item: &FieldValue<'_>, limit: &Limit) -> bool {
    let message = match limit.unit() {
        LimitUnit::Requests => return true,
        LimitUnit::Permits => "a proxy does not report the end of a request",
        LimitUnit::Bytes => "a proxy does not report transferred bytes",
    };
    item.context.report(
        DiagnosticBuilder::error(item.span(), format!("descriptors cannot have a {} limit", limit.algorithm()))
            .label(message)
            .help("use a rate limit, or enforce this limit in the gateway or in the application"),
    );
    false
}

fn refuse_unused(fields: &FieldMap<'_>, given: &'static str, unused: &[&'static str], help: &str) {
    for name in unused.iter().filter(|name| fields.has(name)) {
        fields.context.report(
            DiagnosticBuilder::error(fields.key_span(name), format!("`{name}` together with `{given}`"))
                .label("has no effect")
                .with_related(fields.key_span(given), "because of this field")
                .help(help),
        );
    }
}

fn refuse_unused_burst(fields: &FieldMap<'_>, algorithm: Option<&'static str>) {
    let bucket = algorithm.is_some_and(is_bucket);
    // An unknown algorithm may be a misspelled bucket.
    let unclear = algorithm.is_none() && fields.has("algorithm");
    if fields.has("burst") && !bucket && !unclear {
        fields.context.report(
            DiagnosticBuilder::error(fields.key_span("burst"), "`burst` without a bucket algorithm")
                .label("has no effect")
                .help("add `algorithm: token_bucket`, or remove `burst`"),
        );
    }
}
