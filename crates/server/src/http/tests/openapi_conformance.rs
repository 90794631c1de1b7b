//! Conformance to the OpenAPI document: every call and response of these tests must match it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use jsonschema::Validator;
use serde_json::{Value, json};

use super::ApiResponse;
use crate::http::pages::OPENAPI;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(&OPENAPI).unwrap());

static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// Asserts that a value matches a schema of the document.
pub(super) fn assert_matches_schema(schema: &Value, value: &Value) {
    let errors: Vec<String> = validator(schema).iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{value}: {errors:?}");
}

fn validator(schema: &Value) -> Arc<Validator> {
    let mut validators = VALIDATORS.lock().unwrap();
    let known = validators.entry(schema.to_string()).or_insert_with(|| {
        let full_schema = json!({"allOf": [schema], "components": DOCUMENT["components"]});
        Arc::new(jsonschema::options().should_validate_formats(true).build(&full_schema).unwrap())
    });
    Arc::clone(known)
}

/// Asserts that a call and its response are described.
pub(super) async fn assert_described(call: &Request<Full<Bytes>>, response: &ApiResponse) {
    let (path, method) = (call.uri().path(), call.method().as_str());
    let Some(item) = path_item(path) else {
        assert!([401, 404].contains(&response.status.as_u16()), "{path}");
        return;
    };
    let described = match method {
        "HEAD" if item.get("head").is_none() => item.get("get"),
        _ => item.get(method.to_lowercase()),
    };
    let Some(operation) = described else {
        let is_expected = [204, 401, 405].contains(&response.status.as_u16()) || path == "/v1/auth";
        assert!(is_expected, "{method} {path} {}", response.status);
        return;
    };
    let responses = &operation["responses"];
    let described = responses.get(response.status.as_str()).or_else(|| responses.get("default"));
    let described = described.unwrap_or_else(|| panic!("{method} {path} {}", response.status));
    let described = match described.get("$ref") {
        Some(to) => DOCUMENT.pointer(to.as_str().unwrap().strip_prefix('#').unwrap()).unwrap(),
        None => described,
    };
    let kind = response.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    if let Some(content) = described["content"].get(kind)
        && kind.ends_with("json")
        && !response.body.is_empty()
    {
        assert_matches_schema(&content["schema"], &response.json());
    }
    let body = call.body().clone().collect().await.unwrap().to_bytes();
    if response.status.is_success() && !body.is_empty() {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        // The body of forward auth is not read.
        if !schema.is_null() {
            assert_matches_schema(schema, &serde_json::from_slice(&body).unwrap());
        }
    }
}

/// The path item of a path.
fn path_item(path: &str) -> Option<&'static Value> {
    let path = if path == "/docs/" { "/docs/index.html" } else { path };
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let matches = |template: &str| match template.split_once('{') {
        Some((front, _)) => path.strip_prefix(front).is_some_and(|name| !name.is_empty() && !name.contains('/')),
        None => template == path,
    };
    paths.iter().find(|(template, _)| matches(template)).map(|(_, item)| item)
}
