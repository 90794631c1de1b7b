//! Holds the API to its description: whatever is asked and answered in these tests must be as it says.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use jsonschema::Validator;
use serde_json::{Value, json};

use super::Answer;
use crate::http::pages::DESCRIPTION;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(DESCRIPTION).unwrap());

static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// That a value is as a schema of the description says.
pub(super) fn assert_fits(schema: &Value, value: &Value) {
    let faults: Vec<String> = validator(schema).iter_errors(value).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{value}: {faults:?}");
}

fn validator(schema: &Value) -> Arc<Validator> {
    let mut validators = VALIDATORS.lock().unwrap();
    let known = validators.entry(schema.to_string()).or_insert_with(|| {
        let whole = json!({"allOf": [schema], "components": DOCUMENT["components"]});
        Arc::new(jsonschema::options().should_validate_formats(true).build(&whole).unwrap())
    });
    Arc::clone(known)
}

/// That a call and its answer are described.
pub(super) async fn check(call: &Request<Full<Bytes>>, answer: &Answer) {
    let (path, method) = (call.uri().path(), call.method().as_str());
    let Some(item) = item(path) else {
        assert!([401, 404].contains(&answer.status.as_u16()), "{path}");
        return;
    };
    let described = match method {
        "HEAD" if item.get("head").is_none() => item.get("get"),
        _ => item.get(method.to_lowercase()),
    };
    let Some(operation) = described else {
        let otherwise = [204, 401, 405].contains(&answer.status.as_u16()) || path == "/v1/auth";
        assert!(otherwise, "{method} {path} {}", answer.status);
        return;
    };
    let responses = &operation["responses"];
    let response = responses.get(answer.status.as_str()).or_else(|| responses.get("default"));
    let response = response.unwrap_or_else(|| panic!("{method} {path} {}", answer.status));
    let response = match response.get("$ref") {
        Some(to) => DOCUMENT.pointer(to.as_str().unwrap().strip_prefix('#').unwrap()).unwrap(),
        None => response,
    };
    let kind = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    if let Some(content) = response["content"].get(kind)
        && kind.ends_with("json")
        && !answer.body.is_empty()
    {
        assert_fits(&content["schema"], &answer.json());
    }
    let body = call.body().clone().collect().await.unwrap().to_bytes();
    if answer.status.is_success() && !body.is_empty() {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        // What forward auth is sent is not looked at.
        if !schema.is_null() {
            assert_fits(schema, &serde_json::from_slice(&body).unwrap());
        }
    }
}

/// What is described at a path.
fn item(path: &str) -> Option<&'static Value> {
    let path = if path == "/docs/" { "/docs/index.html" } else { path };
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let is_it = |template: &str| match template.split_once('{') {
        Some((front, _)) => path.strip_prefix(front).is_some_and(|name| !name.is_empty() && !name.contains('/')),
        None => template == path,
    };
    paths.iter().find(|(template, _)| is_it(template)).map(|(_, item)| item)
}
