//! What later filters can know of a decision.
//!
//! | field | what it says |
//! |---|---|
//! | `rule` | the rule that the decision hangs on |
//! | `verdict` | `allowed`, `wait`, `denied` or `never` |
//! | `wait_ms` | how long it was held, or when to ask again |
//! | `reason` | the readings for which the rule holds requests back, if it protects a process under strain |
//! | `degraded` | whether the store was lost, and the rule's policy decided instead |
//!
//! Where a limit of the reference's files has metadata or is a quota, its own fields are there too: `domain`,
//! `descriptors`, `hitsAddend`, `metadata` of the limits that were kept, `quotaModeEnabled`, and in
//! `quotaModeViolations` the positions of the descriptors that are over.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use sluicegate_engine::{Outcome, Verdict};

use super::claim::{Claim, Terms};
use super::proto::RateLimitRequest;
use super::standing::Standing;

type Fields = BTreeMap<String, Value>;

/// What is told of the descriptor that the answer hangs on.
pub(super) fn decided(decisive: &Standing<'_>) -> Fields {
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
    let wait = decisive.retry_after().unwrap_or(decisive.pause()).as_nanos().div_ceil(1_000_000);
    if wait > 0 {
        fields.insert("wait_ms".to_owned(), number(wait as f64));
    }
    if let Some(notice) = decisive.outcome.and_then(Outcome::strain) {
        fields.insert("reason".to_owned(), text(&notice.reason));
    }
    let degraded = decisive.outcome.is_some_and(Outcome::is_degraded);
    fields.insert("degraded".to_owned(), value(Kind::BoolValue(degraded)));
    fields
}

/// Adds what the reference tells, if it tells anything.
pub(super) fn configured(
    fields: &mut Fields,
    request: &RateLimitRequest,
    claims: &[Claim],
    standings: &[Standing<'_>],
) {
    let terms = || claims.iter().map(|claim| claim.terms.as_ref());
    if !terms().flatten().any(|terms| terms.quota || terms.metadata.is_some()) {
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
    let is_quota = |terms: Option<&Terms>| terms.is_some_and(|terms| terms.quota);
    fields.insert("quotaModeEnabled".to_owned(), value(Kind::BoolValue(terms().any(is_quota))));
    let over = terms().zip(standings).enumerate();
    let violations = over.filter(|(_, (terms, standing))| is_quota(*terms) && !standing.verdict.is_admitted());
    let violations: Vec<Value> = violations.map(|(index, _)| number(index as f64)).collect();
    if !violations.is_empty() {
        fields.insert("quotaModeViolations".to_owned(), list(violations));
    }
    let mut kept = serde_json::Map::new();
    for (terms, standing) in terms().zip(standings) {
        if let Some(serde_json::Value::Object(metadata)) = terms.and_then(|terms| terms.metadata.as_ref())
            && standing.verdict.is_admitted()
        {
            merge(&mut kept, metadata);
        }
    }
    if !kept.is_empty() {
        fields.insert("metadata".to_owned(), converted(&serde_json::Value::Object(kept)));
    }
}

/// Adds what is not there yet; maps within maps are merged, too.
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

fn converted(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => value(Kind::NullValue(0)),
        serde_json::Value::Bool(bool) => value(Kind::BoolValue(*bool)),
        serde_json::Value::Number(digits) => number(digits.as_f64().unwrap_or_default()),
        serde_json::Value::String(string) => text(string),
        serde_json::Value::Array(values) => list(values.iter().map(converted).collect()),
        serde_json::Value::Object(fields) => {
            map(fields.iter().map(|(name, json)| (name.clone(), converted(json))).collect())
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
