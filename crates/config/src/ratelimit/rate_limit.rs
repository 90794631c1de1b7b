//! One `rate_limit`.

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::{Limit, LimitError, Rate};

use super::grammar::{self, REPLACES};
use super::limit::Kind;
use super::{Unit, relax};
use crate::diagnostic::Finding;
use crate::read::{Fields, Item, MOST_LIMITS, limit, short_form};
use crate::tree::Value;

/// What a `rate_limit` says.
pub(super) struct RateLimit {
    pub(super) kind: Kind,
    /// None unless it counts.
    pub(super) limits: Vec<Limit>,
    pub(super) unit: Option<Unit>,
    pub(super) requests_per_unit: u32,
    pub(super) name: Option<String>,
    pub(super) replaces: Vec<String>,
}

/// Reads a `rate_limit`; `None` if it cannot be used.
pub(super) fn rate_limit(fields: &Fields<'_>) -> Option<RateLimit> {
    let name = fields.get("name").and_then(|it| relax::text(&it)).filter(|name| !name.is_empty()).map(str::to_owned);
    let replaces = replaces(fields, name.as_deref());
    let unlimited = fields.get("unlimited").and_then(|it| relax::truth(&it)).unwrap_or(false);
    let unit = fields.get("unit").and_then(|it| unit(&it));
    let requests = fields.get("requests_per_unit").and_then(|it| requests(&it));
    let algorithm = fields.word("algorithm");
    let burst = fields.count("burst");
    let own = fields.get("limits").map(limits);
    let said =
        |kind, limits, unit, requests_per_unit| RateLimit { kind, limits, unit, requests_per_unit, name, replaces };
    if unlimited {
        let idle = ["unit", "algorithm", "burst", "limits"];
        refuse_beside(fields, "unlimited", &idle, "what is unlimited is not counted: remove one of them");
        return Some(said(Kind::Unlimited, Vec::new(), None, requests.unwrap_or(0)));
    }
    if let Some(own) = own {
        let idle = ["unit", "requests_per_unit", "algorithm", "burst"];
        refuse_beside(fields, "limits", &idle, "`limits` say it all: remove one of them");
        let first = *own.first()?;
        let told = u32::try_from(first.capacity()).unwrap_or(u32::MAX);
        return Some(said(Kind::Counted, own, first.window().and_then(Unit::of), told));
    }
    for missing in ["unit", "requests_per_unit"] {
        if !fields.has(missing) && !fields.has_slip_of(missing) {
            fields.context.report(
                Finding::error(fields.head(), format!("a rate_limit needs `{missing}`")).label("not given here").help(
                    match missing {
                        "unit" => "add `unit: second`; or `unlimited: true` for no limit",
                        _ => "add `requests_per_unit: 100`; 0 refuses everything",
                    },
                ),
            );
        }
    }
    refuse_idle_burst(fields, algorithm);
    let (unit, requests) = (unit?, requests?);
    if requests == 0 {
        return Some(said(Kind::Blocked, Vec::new(), Some(unit), 0));
    }
    let counted = counted(algorithm.unwrap_or("fixed_window"), requests, unit, burst)
        .map_err(|error| fields.context.report_limit(blamed(fields), &error, || "lower it".to_owned()))
        .ok()?;
    Some(said(Kind::Counted, vec![counted], Some(unit), requests))
}

/// The limit in the words of the reference, counted as one of ours.
fn counted(algorithm: &str, requests: u32, unit: Unit, burst: Option<u64>) -> Result<Limit, LimitError> {
    let (count, period) = (u64::from(requests), unit.duration());
    let rate = Rate::new(count, period)?;
    match algorithm {
        "sliding_window" => short_form(rate),
        "interpolated_window" => Limit::interpolated_window(count, period),
        "sliding_log" => Limit::sliding_log(count, period),
        "token_bucket" => Limit::token_bucket(rate, burst.unwrap_or(count)),
        "leaky_bucket" => Limit::leaky_bucket(rate, burst.unwrap_or(count)),
        _ => Limit::fixed_window(count, period, Alignment::Epoch),
    }
}

/// The value that makes a limit impossible, as far as that can be told.
fn blamed(fields: &Fields<'_>) -> crate::Span {
    fields.value_span(if fields.has("burst") { "burst" } else { "requests_per_unit" })
}

fn unit(item: &Item<'_>) -> Option<Unit> {
    match &item.node.value {
        Value::Text(text) if Unit::named(text).is_some() => Unit::named(text),
        // Not one of the words: this says so.
        _ => item.word().and_then(Unit::named),
    }
}

fn requests(item: &Item<'_>) -> Option<u32> {
    let written = item.context.text.get(item.span().start..item.span().end).unwrap_or_default();
    if written.len() > 1 && written.starts_with('0') && written.bytes().all(|b| b.is_ascii_digit()) {
        item.context.report(
            Finding::error(item.span(), format!("{written} is a number of base eight to some readers of YAML"))
                .label("begins with 0")
                .help("write it without the 0"),
        );
        return None;
    }
    item.count().and_then(|count| u32::try_from(count).ok())
}

fn replaces(fields: &Fields<'_>, own: Option<&str>) -> Vec<String> {
    let mut replaced = Vec::new();
    for item in fields.get("replaces").and_then(|it| it.items()).into_iter().flatten() {
        let hint = |field: &str| grammar::belongs(&REPLACES, field);
        let Some(entry) = Fields::open_hinted(item.context, item.node, &REPLACES, hint) else { continue };
        let Some(name) = entry.get("name").and_then(|it| relax::text(&it)) else { continue };
        let fault = match name {
            "" => "an empty name replaces nothing",
            name if Some(name) == own => "a limit cannot replace itself",
            name => {
                replaced.push(name.to_owned());
                continue;
            }
        };
        let help = "name another limit, by the `name` in its `rate_limit`";
        item.context.report(Finding::error(entry.value_span("name"), fault).label("here").help(help));
    }
    replaced
}

/// Limits as in a rule.
fn limits(item: Item<'_>) -> Vec<Limit> {
    let items: Vec<Item<'_>> = item.items().into_iter().flatten().collect();
    if items.is_empty() && matches!(item.node.value, Value::List(_)) {
        item.context.report(
            Finding::error(item.span(), "this rate_limit limits nothing")
                .label("no limit")
                .help("add one such as 100/s, or write `unlimited: true` instead of `limits`"),
        );
    }
    if items.len() > MOST_LIMITS {
        let error = LimitError::TooManyLimits { count: items.len(), most: MOST_LIMITS };
        item.context.report_limit(item.span(), &error, || "remove some".to_owned());
    }
    items.into_iter().filter_map(|it| limit(it).filter(|limit| can_be_asked(&it, limit))).collect()
}

/// Whether a proxy that only asks can be limited by it.
fn can_be_asked(item: &Item<'_>, limit: &Limit) -> bool {
    let fault = match limit {
        Limit::Concurrency(_) => "a proxy does not tell when a request ends",
        Limit::Bandwidth(_) => "a proxy does not tell how many bytes pass",
        _ => return true,
    };
    item.context.report(
        Finding::error(item.span(), format!("descriptors cannot have a {} limit", limit.algorithm()))
            .label(fault)
            .help("limit a rate, or let the gateway or a library keep this limit"),
    );
    false
}

fn refuse_beside(fields: &Fields<'_>, given: &'static str, idle: &[&'static str], help: &str) {
    for name in idle.iter().filter(|name| fields.has(name)) {
        fields.context.report(
            Finding::error(fields.key_span(name), format!("`{name}` beside `{given}`"))
                .label("would have no effect")
                .also(fields.key_span(given), "because of this")
                .help(help),
        );
    }
}

fn refuse_idle_burst(fields: &Fields<'_>, algorithm: Option<&'static str>) {
    let bucket = matches!(algorithm, Some("token_bucket" | "leaky_bucket"));
    // A word that is not known may have been meant as a bucket.
    let unclear = algorithm.is_none() && fields.has("algorithm");
    if fields.has("burst") && !bucket && !unclear {
        fields.context.report(
            Finding::error(fields.key_span("burst"), "`burst` without a bucket")
                .label("would have no effect")
                .help("add `algorithm: token_bucket`, or remove `burst`"),
        );
    }
}
