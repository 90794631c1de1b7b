//! Dynamic metadata of a decision for later filters.
//!
//! | field | meaning |
//! |---|---|
//! | `rule` | the rule that decided |
//! | `verdict` | `allowed`, `wait`, `denied` or `never` |
//! | `wait_ms` | the delay of the response, or the time until a retry |
//! | `reason` | the readings of an overload rule that refuses requests |
//! | `degraded` | true if the store was unavailable and the rule's failure policy decided |
//!
//! If a limit of the ratelimit configuration has metadata or is a quota, the fields of the reference
//! implementation are added: `domain`, `descriptors`, `hitsAddend`, `metadata` of the limits that were not
//! exceeded, `quotaModeEnabled`, and in `quotaModeViolations` the indexes of the descriptors over their quota.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use sluicegate_engine::{Outcome, Verdict};

use super::descriptor_check::{CheckedLimit, DescriptorCheck};
use super::descriptor_status::DescriptorResult;
use super::proto::RateLimitRequest;

type Fields = BTreeMap<String, Value>;

/// The metadata of the decisive descriptor.
pub(super) fn decision_fields(decisive: &DescriptorResult<'_>) -> Fields {
    let verdict = match decisive.verdict {
        Verdict::Allowed => "allowed",
        Verdict::Wait(_) => "wait",
        Verdict::Denied { .. } => "denied",
        Verdict::Never => "never",
    };
    let mut fields = Fields::new();
    fields.insert("verdict".to_owned(), text(verdict));
    if let Some(rule) = decisive.rule {
        fields.insert("rule".to_owned(), text(rule));
    }
    let wait = decisive.retry_after().unwrap_or(decisive.delay()).as_nanos().div_ceil(1_000_000);
    if wait > 0 {
        fields.insert("wait_ms".to_owned(), number(wait as f64));
    }
    if let Some(notice) = decisive.outcome.and_then(Outcome::overload_notice) {
        fields.insert("reason".to_owned(), text(&notice.reason));
    }
    let degraded = decisive.outcome.is_some_and(Outcome::is_degraded);
    fields.insert("degraded".to_owned(), value(Kind::BoolValue(degraded)));
    fields
}

/// Adds the fields of the reference implementation, if any apply.
pub(super) fn add_configured(
    fields: &mut Fields,
    request: &RateLimitRequest,
    checks: &[DescriptorCheck],
    results: &[DescriptorResult<'_>],
) {
    let limits = || checks.iter().map(|check| check.limit.as_ref());
    if !limits().flatten().any(|limit| limit.quota || limit.metadata.is_some()) {
        return;
    }
    fields.insert("domain".to_owned(), text(&request.domain));
    let descriptors = request.descriptors.iter().map(|descriptor| {
        let entries = descriptor.entries.iter().map(|entry| text(&format!("{}={}", entry.key, entry.value)));
        let mut described = Fields::from([("entries".to_owned(), list(entries.collect()))]);
        if let Some(hits) = descriptor.hits_addend {
            described.insert("hitsAddend".to_owned(), number(hits as f64));
        }
        map(described)
    });
    fields.insert("descriptors".to_owned(), list(descriptors.collect()));
    if request.hits_addend != 0 {
        fields.insert("hitsAddend".to_owned(), number(request.hits_addend.into()));
    }
    let is_quota = |limit: Option<&CheckedLimit>| limit.is_some_and(|limit| limit.quota);
    fields.insert("quotaModeEnabled".to_owned(), value(Kind::BoolValue(limits().any(is_quota))));
    let checked = limits().zip(results).enumerate();
    let violations = checked.filter(|(_, (limit, result))| is_quota(*limit) && !result.verdict.is_admitted());
    let violations: Vec<Value> = violations.map(|(index, _)| number(index as f64)).collect();
    if !violations.is_empty() {
        fields.insert("quotaModeViolations".to_owned(), list(violations));
    }
    let mut merged = serde_json::Map::new();
    for (limit, result) in limits().zip(results) {
        if let Some(serde_json::Value::Object(metadata)) = limit.and_then(|limit| limit.metadata.as_ref())
            && result.verdict.is_admitted()
        {
            merge(&mut merged, metadata);
        }
    }
    if !merged.is_empty() {
        fields.insert("metadata".to_owned(), to_protobuf(&serde_json::Value::Object(merged)));
    }
}

/// Adds missing fields; nested maps are merged.
fn merge(into: &mut serde_json::Map<String, serde_json::Value>, from: &serde_json::Map<String, serde_json::Value>) {
    for (name, value) in from {
        match (into.get_mut(name), value) {
            (Some(serde_json::Value::Object(into)), serde_json::Value::Object(from)) => merge(into, from),
            (Some(_), _) => {}
            (None, value) => {
                into.insert(name.clone(), value.clone());
            }
        }
    }
}

fn to_protobuf(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => value(Kind::NullValue(0)),
        serde_json::Value::Bool(bool) => value(Kind::BoolValue(*bool)),
        serde_json::Value::Number(digits) => number(digits.as_f64().unwrap_or_default()),
        serde_json::Value::String(string) => text(string),
        serde_json::Value::Array(values) => list(values.iter().map(to_protobuf).collect()),
        serde_json::Value::Object(fields) => {
            map(fields.iter().map(|(name, json)| (name.clone(), to_protobuf(json))).collect())
        }
    }
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

fn text(text: &str) -> Value {
    value(Kind::StringValue(text.to_owned()))
}

fn number(number: f64) -> Value {
    value(Kind::NumberValue(number))
}

fn list(values: Vec<Value>) -> Value {
    value(Kind::ListValue(ListValue { values }))
}

fn map(fields: Fields) -> Value {
    value(Kind::StructValue(Struct { fields }))
}
