//! Encodes responses by the protobuf JSON mapping: default values are omitted.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost_types::value::Kind;
use serde_json::{Map, Value, json};

use crate::rls::proto::{Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, Unit};

/// A response as JSON text.
pub(in crate::rls) fn response_json(response: &RateLimitResponse) -> String {
    let mut fields = Map::new();
    code(&mut fields, "overallCode", response.overall_code());
    list(&mut fields, "statuses", &response.statuses, status);
    list(&mut fields, "responseHeadersToAdd", &response.response_headers_to_add, header);
    list(&mut fields, "requestHeadersToAdd", &response.request_headers_to_add, header);
    if !response.raw_body.is_empty() {
        fields.insert("rawBody".to_owned(), STANDARD.encode(&response.raw_body).into());
    }
    if let Some(metadata) = &response.dynamic_metadata {
        fields.insert("dynamicMetadata".to_owned(), object(metadata));
    }
    Value::Object(fields).to_string()
}

fn code(fields: &mut Map<String, Value>, name: &str, code: Code) {
    if code != Code::Unknown {
        fields.insert(name.to_owned(), code.as_str_name().into());
    }
}

fn list<T>(fields: &mut Map<String, Value>, name: &str, items: &[T], write: impl Fn(&T) -> Value) {
    if !items.is_empty() {
        fields.insert(name.to_owned(), items.iter().map(write).collect());
    }
}

fn number(fields: &mut Map<String, Value>, name: &str, number: u32) {
    if number != 0 {
        fields.insert(name.to_owned(), number.into());
    }
}

fn text(fields: &mut Map<String, Value>, name: &str, text: &str) {
    if !text.is_empty() {
        fields.insert(name.to_owned(), text.into());
    }
}

fn status(status: &DescriptorStatus) -> Value {
    let mut fields = Map::new();
    code(&mut fields, "code", status.code());
    if let Some(current) = &status.current_limit {
        fields.insert("currentLimit".to_owned(), limit(current));
    }
    number(&mut fields, "limitRemaining", status.limit_remaining);
    if let Some(time) = &status.duration_until_reset {
        fields.insert("durationUntilReset".to_owned(), duration(time).into());
    }
    Value::Object(fields)
}

fn limit(limit: &RateLimit) -> Value {
    let mut fields = Map::new();
    text(&mut fields, "name", &limit.name);
    number(&mut fields, "requestsPerUnit", limit.requests_per_unit);
    if limit.unit() != Unit::Unknown {
        fields.insert("unit".to_owned(), limit.unit().as_str_name().into());
    }
    if let Some(times) = limit.unit_multiplier {
        fields.insert("unitMultiplier".to_owned(), times.into());
    }
    Value::Object(fields)
}

fn header(header: &HeaderValue) -> Value {
    let mut fields = Map::new();
    text(&mut fields, "key", &header.key);
    text(&mut fields, "value", &header.value);
    Value::Object(fields)
}

/// Seconds with zero, three, six or nine decimals.
fn duration(time: &prost_types::Duration) -> String {
    let prost_types::Duration { seconds, nanos } = *time;
    match nanos {
        0 => format!("{seconds}s"),
        _ if nanos % 1_000_000 == 0 => format!("{seconds}.{:03}s", nanos / 1_000_000),
        _ if nanos % 1_000 == 0 => format!("{seconds}.{:06}s", nanos / 1_000),
        _ => format!("{seconds}.{nanos:09}s"),
    }
}

fn object(fields: &prost_types::Struct) -> Value {
    fields.fields.iter().map(|(name, field)| (name.clone(), value(field))).collect::<Map<_, _>>().into()
}

fn value(field: &prost_types::Value) -> Value {
    match &field.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(bool)) => json!(bool),
        Some(Kind::NumberValue(number)) if number.fract() == 0.0 && number.abs() < 1e15 => json!(*number as i64),
        Some(Kind::NumberValue(number)) => json!(number),
        Some(Kind::StringValue(text)) => json!(text),
        Some(Kind::ListValue(list)) => list.values.iter().map(value).collect(),
        Some(Kind::StructValue(fields)) => object(fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_values_are_omitted() {
        assert_eq!(response_json(&RateLimitResponse::default()), "{}");
        let status = DescriptorStatus { code: 1, current_limit: Some(RateLimit::default()), ..Default::default() };
        let response = RateLimitResponse { overall_code: 1, statuses: vec![status], ..Default::default() };
        assert_eq!(response_json(&response), r#"{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{}}]}"#);
    }

    #[test]
    fn other_values_follow_the_protobuf_json_mapping() {
        let limit = RateLimit { name: "a".to_owned(), requests_per_unit: 3, unit: 7, unit_multiplier: Some(2) };
        let status = DescriptorStatus {
            code: 2,
            current_limit: Some(limit),
            limit_remaining: 1,
            duration_until_reset: Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 }),
        };
        let header = HeaderValue { key: "retry-after".to_owned(), value: "2".to_owned() };
        let response = RateLimitResponse {
            overall_code: 2,
            statuses: vec![status],
            response_headers_to_add: vec![header],
            raw_body: b"no".to_vec(),
            ..Default::default()
        };
        let expected = concat!(
            r#"{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"name":"a","#,
            r#""requestsPerUnit":3,"unit":"WEEK","unitMultiplier":2},"limitRemaining":1,"#,
            r#""durationUntilReset":"1.500s"}],"responseHeadersToAdd":[{"key":"retry-after","value":"2"}],"#,
            r#""rawBody":"bm8="}"#,
        );
        assert_eq!(response_json(&response), expected);
    }

    #[test]
    fn durations_have_zero_three_six_or_nine_decimals() {
        for (nanos, expected) in [(0, "1s"), (1, "1.000000001s"), (1_000, "1.000001s"), (20_000_000, "1.020s")] {
            assert_eq!(duration(&prost_types::Duration { seconds: 1, nanos }), expected);
        }
    }
}
