//! Holds the API to its description: whatever is asked and answered in these tests must be as it says.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use jsonschema::Validator;
use serde_json::{Value, json};

use super::Answer;
use crate::http::pages::DESCRIPTION;
use crate::http::route::{ROUTES, Route};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(DESCRIPTION).unwrap());

static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// That a value is as a schema of the description says.
pub(super) fn assert_fits(schema: &Value, value: &Value) {
    let known = {
        let mut validators = VALIDATORS.lock().unwrap();
        let made = validators.entry(schema.to_string()).or_insert_with(|| {
            let whole = json!({"allOf": [schema], "components": DOCUMENT["components"]});
            Arc::new(jsonschema::options().should_validate_formats(true).build(&whole).unwrap())
        });
        Arc::clone(made)
    };
    let faults: Vec<String> = known.iter_errors(value).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{value}: {faults:?}");
}

/// That an answer is described.
pub(super) fn check(call: &Request<Full<Bytes>>, answer: &Answer) {
    let Ok((route, _)) = Route::of(call.uri().path()) else {
        assert!([401, 403, 404].contains(&answer.status.as_u16()), "{}", call.uri());
        return;
    };
    let method = if call.method() == "HEAD" { "get" } else { &call.method().as_str().to_lowercase() };
    let Some(operation) = DOCUMENT["paths"][route.path].get(method) else {
        assert!([204, 401, 403, 405].contains(&answer.status.as_u16()), "{} {}", call.method(), call.uri());
        return;
    };
    let responses = &operation["responses"];
    let response = responses.get(answer.status.as_str());
    let response = response.unwrap_or_else(|| panic!("{method} {}: {} {}", call.uri(), answer.status, answer.text()));
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
}

#[test]
fn every_route_is_described_and_nothing_else() {
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
fn what_needs_no_token_is_described_so() {
    for route in &ROUTES {
        for (method, need) in route.methods {
            let operation = &DOCUMENT["paths"][route.path][method.as_str().to_lowercase()];
            assert_eq!(operation.get("security").is_some(), need.is_none(), "{method} {}", route.path);
        }
    }
}
