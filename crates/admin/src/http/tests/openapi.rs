//! Checks all requests and responses of these tests against the OpenAPI document.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use jsonschema::Validator;
use serde_json::{Value, json};

use super::TestResponse;
use crate::http::pages::OPENAPI;
use crate::http::route::{ROUTES, Route};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(&OPENAPI).unwrap());

static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// Asserts that a value matches a schema of the document.
pub(super) fn assert_matches_schema(schema: &Value, value: &Value) {
    let validator = {
        let mut validators = VALIDATORS.lock().unwrap();
        let entry = validators.entry(schema.to_string()).or_insert_with(|| {
            let document = json!({"allOf": [schema], "components": DOCUMENT["components"]});
            Arc::new(jsonschema::options().should_validate_formats(true).build(&document).unwrap())
        });
        Arc::clone(entry)
    };
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{value}: {errors:?}");
}

/// Asserts that a response is documented.
pub(super) fn check_response(call: &Request<Full<Bytes>>, actual: &TestResponse) {
    let Ok((route, _)) = Route::of(call.uri().path()) else {
        assert!([401, 403, 404].contains(&actual.status.as_u16()), "{}", call.uri());
        return;
    };
    let method = if call.method() == "HEAD" { "get" } else { &call.method().as_str().to_lowercase() };
    let Some(operation) = DOCUMENT["paths"][route.path].get(method) else {
        assert!([204, 401, 403, 405].contains(&actual.status.as_u16()), "{} {}", call.method(), call.uri());
        return;
    };
    let responses = &operation["responses"];
    let response = responses.get(actual.status.as_str());
    let response = response.unwrap_or_else(|| panic!("{method} {}: {} {}", call.uri(), actual.status, actual.text()));
    let response = match response.get("$ref") {
        Some(to) => DOCUMENT.pointer(to.as_str().unwrap().strip_prefix('#').unwrap()).unwrap(),
        None => response,
    };
    let kind = actual.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    if let Some(content) = response["content"].get(kind)
        && kind.ends_with("json")
        && !actual.body.is_empty()
    {
        assert_matches_schema(&content["schema"], &actual.json());
    }
}

#[test]
fn openapi_lists_exactly_the_routes() {
    let routes: BTreeSet<(String, String)> = ROUTES
        .iter()
        .flat_map(|route| {
            route.methods.iter().map(|(method, _)| (route.path.to_owned(), method.as_str().to_lowercase()))
        })
        .collect();
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let described: BTreeSet<(String, String)> = paths
        .iter()
        .flat_map(|(path, item)| item.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())))
        .collect();
    assert_eq!(routes, described);
}

#[test]
fn openapi_marks_public_operations() {
    for route in &ROUTES {
        for (method, need) in route.methods {
            let operation = &DOCUMENT["paths"][route.path][method.as_str().to_lowercase()];
            assert_eq!(operation.get("security").is_some(), need.is_none(), "{method} {}", route.path);
        }
    }
}
