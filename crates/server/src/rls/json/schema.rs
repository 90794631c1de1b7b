//! JSON schemas of the messages, by the protobuf JSON mapping: names in either spelling, numbers also as text.

use serde_json::{Value, json};
use sluicegate_config::settings::Server;
use sluicegate_http_adapter::api::openapi::OpenApi;

use crate::rls::decode::MAX_ENTRIES;

/// Adds the schemas of `RateLimitRequest` and `RateLimitResponse`, and returns references to them.
pub(crate) fn add_schemas(api: &mut OpenApi) -> (Value, Value) {
    let max_checks = Server::default().max_checks;
    let limit = api.add_schema("RateLimitOverride", rate_limit_override());
    let descriptor = api.add_schema("RateLimitDescriptor", descriptor(&limit));
    let mut request = json!({
        "type": "object",
        "description": "Envoy's message in protobuf JSON: names also in snake_case, numbers also as strings, `null` for \
            absent fields.",
        "additionalProperties": false,
        "required": ["domain", "descriptors"],
        "properties": {
            "domain": { "type": "string", "minLength": 1, "description": "The domain of the descriptors." },
            "descriptors": {
                "type": "array",
                "minItems": 1,
                "maxItems": max_checks,
                "items": descriptor,
                "description":
                    format!("At most `max_checks` items, {max_checks} by default. All or none are admitted."),
            },
        },
    });
    let description = "Hits to spend for descriptors without their own value; 0 means 1. A number or a string.";
    add_aliased(&mut request, &[("hitsAddend", "hits_addend", number(0, u32::MAX.into(), description))]);
    (api.add_schema("RateLimitRequest", request), api.add_schema("RateLimitResponse", response()))
}

fn descriptor(limit: &Value) -> Value {
    let mut schema = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["entries"],
        "properties": {
            "entries": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_ENTRIES,
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["key"],
                    "properties": {
                        "key": { "type": "string", "minLength": 1 },
                        "value": { "type": ["string", "null"] },
                    },
                },
                "description": "The entries that describe the request.",
            },
            "limit": { "anyOf": [limit, { "type": "null" }] },
        },
    });
    let hits = number(0, u64::MAX, "Hits to spend; 0 reads the limit and spends nothing. A number or a string.");
    let negative = json!({ "type": ["boolean", "null"], "description": "Refunds the hits." });
    let fields = [("hitsAddend", "hits_addend", hits), ("isNegativeHits", "is_negative_hits", negative)];
    add_aliased(&mut schema, &fields);
    schema
}

fn rate_limit_override() -> Value {
    let units = ["SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"];
    let mut schema = json!({
        "type": "object",
        "description": "A limit override that applies instead of any rule.",
        "additionalProperties": false,
        "required": ["unit"],
        "properties": {
            "unit": {
                "anyOf": [
                    { "type": "string", "enum": units },
                    { "type": "integer", "minimum": 1, "maximum": units.len() },
                ],
                "description": "The unit of time, by name or number.",
            },
        },
    });
    let requests = number(0, u32::MAX.into(), "Requests per unit; 0 admits none. A number or a string.");
    let multiplier = number(1, u32::MAX.into(), "Length of the window in units. A number or a string.");
    let fields =
        [("requestsPerUnit", "requests_per_unit", requests), ("unitMultiplier", "unit_multiplier", multiplier)];
    add_aliased(&mut schema, &fields);
    schema
}

fn response() -> Value {
    let code = json!({ "type": "string", "enum": ["OK", "OVER_LIMIT"] });
    let object =
        |properties: Value| json!({ "type": "object", "additionalProperties": false, "properties": properties });
    let (text, integer) = (json!({ "type": "string" }), json!({ "type": "integer" }));
    let headers = json!({ "type": "array", "items": object(json!({ "key": text, "value": text })) });
    let mut status = object(json!({
        "code": code,
        "currentLimit": object(json!({
            "name": text, "requestsPerUnit": integer, "unit": text, "unitMultiplier": integer,
        })),
        "limitRemaining": integer,
        "durationUntilReset": { "type": "string", "pattern": r"^[0-9]+(\.[0-9]{3,9})?s$" },
    }));
    status["required"] = json!(["code"]);
    json!({
        "type": "object",
        "description": "Envoy's response in protobuf JSON: zero and empty fields are omitted.",
        "additionalProperties": false,
        "required": ["overallCode", "statuses"],
        "properties": {
            "overallCode": code,
            "statuses": { "type": "array", "items": status, "description": "One status per descriptor, in order." },
            "responseHeadersToAdd": headers,
            "requestHeadersToAdd": headers,
            "rawBody": {
                "type": "string",
                "contentEncoding": "base64",
                "description": "The response body, if a rule sets one.",
            },
            "dynamicMetadata": { "type": "object" },
        },
    })
}

/// A number, also as text; `null` if absent.
fn number(min: u64, max: u64, description: &str) -> Value {
    let pattern = if min == 0 { "^[0-9]{1,9}$" } else { "^[0-9]{0,8}[1-9]$" };
    json!({ "description": description, "anyOf": [
        { "type": "integer", "minimum": min, "maximum": max },
        { "type": "string", "pattern": pattern },
        { "type": "null" },
    ] })
}

/// Adds fields in both spellings, of which a message may have one.
fn add_aliased(schema: &mut Value, fields: &[(&str, &str, Value)]) {
    for (camel, snake, field) in fields {
        let mut alias = field.clone();
        alias["description"] = json!(format!("The same as `{camel}`."));
        schema["properties"][*camel] = field.clone();
        schema["properties"][*snake] = alias;
    }
    let both: Vec<Value> = fields.iter().map(|(camel, snake, _)| json!({ "required": [camel, snake] })).collect();
    schema["not"] = json!({ "anyOf": both });
}
