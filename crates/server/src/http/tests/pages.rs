//! Paths, methods, the secret, and the OpenAPI document.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sluicegate_config::settings::Server;
use sluicegate_http_adapter::{HeaderStyle, api};

use super::{TestApi, json, openapi_conformance, plain};
use crate::http::pages::OPENAPI;
use crate::http::problem::ApiErrorKind;
use crate::http::route::ROUTES;
use crate::http::{HttpApi, decode};
use crate::secret::Secret;

fn description() -> Value {
    serde_json::from_str(&OPENAPI).unwrap()
}

#[test]
fn the_openapi_document_is_valid() {
    let document = description();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let names: Vec<&str> = operations(&document).map(|operation| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    // Every example matches its schema.
    for operation in operations(&document) {
        let responses = operation["responses"].as_object().unwrap().values();
        for content in responses.chain(operation.get("requestBody")).filter_map(|described| described.get("content")) {
            let json = &content["application/json"];
            if let Some(example) = json.get("example") {
                openapi_conformance::assert_matches_schema(&json["schema"], example);
            }
        }
    }
    // Every reference resolves.
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 20);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

fn operations(document: &Value) -> impl Iterator<Item = &Value> {
    let items = document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap());
    items.filter(|(key, _)| *key != "parameters").map(|(_, operation)| operation)
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            references.extend(fields.get("$ref").map(|to| to.as_str().unwrap().to_owned()));
            fields.values().for_each(|value| collect(value, references));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}

#[test]
fn the_openapi_document_lists_exactly_the_routes() {
    let document = description();
    let described: BTreeMap<&str, BTreeSet<String>> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, item)| {
            let methods = item.as_object().unwrap().keys().filter(|key| *key != "parameters");
            (path.as_str(), methods.map(|method| method.to_uppercase()).collect())
        })
        .collect();
    let routes: BTreeMap<&str, BTreeSet<String>> = ROUTES
        .into_iter()
        .map(|(path, methods)| {
            let methods = if methods == "*" { "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" } else { methods };
            // HEAD and OPTIONS are implied, except for forward auth.
            let implied = |method: &str| path != "/v1/auth" && ["HEAD", "OPTIONS"].contains(&method);
            (path, methods.split(", ").filter(|method| !implied(method)).map(str::to_owned).collect())
        })
        .collect();
    assert_eq!(described, routes);
}

#[test]
fn the_openapi_document_has_every_problem_and_field() {
    let document = description();
    let kinds: BTreeSet<&str> = document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| kind.as_str().unwrap())
        .collect();
    assert_eq!(kinds, ApiErrorKind::ALL.iter().map(|kind| api::ProblemKind::describe(*kind).1).collect());
    for (schema, kind) in [
        ("Check", decode::BodyKind::ListItem),
        ("Reserve", decode::BodyKind::Reserve),
        ("Settle", decode::BodyKind::Settle),
        ("Acquire", decode::BodyKind::Acquire),
        ("Renew", decode::BodyKind::Renew),
    ] {
        let described = document["components"]["schemas"][schema]["properties"].as_object().unwrap();
        let described: BTreeSet<&str> = described.keys().map(String::as_str).collect();
        assert_eq!(described, kind.fields().map(decode::BodyField::name).collect(), "{schema}");
    }
}

#[tokio::test]
async fn pages_are_served_with_a_strict_policy() {
    let subject = TestApi::new();
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/healthz", "text/plain; charset=utf-8"),
        ("/openapi.json", "application/json"),
        ("/docs/", "text/html"),
        ("/docs/index.html", "text/html"),
        ("/docs/swagger-ui.css", "text/css"),
        ("/docs/swagger-ui-bundle.js", "text/javascript"),
        ("/docs/swagger-initializer.js", "text/javascript"),
    ] {
        let page = subject.call(plain("GET", path)).await;
        assert_eq!((page.status.as_u16(), page.header("content-type")), (200, Some(kind)), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{path}");
        let head = subject.call(plain("HEAD", path)).await;
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-length"), Some(page.body.len().to_string().as_str()), "{path}");
    }
    let text = |body: bytes::Bytes| String::from_utf8(body.to_vec()).unwrap();
    assert!(text(subject.call(plain("GET", "/")).await.body).contains("href=\"/docs/\""));
    let initializer = text(subject.call(plain("GET", "/docs/swagger-initializer.js")).await.body);
    assert!(initializer.contains("\"/openapi.json\""), "{initializer}");
    let index = text(subject.call(plain("GET", "/docs/")).await.body);
    assert!(!index.contains("http://") && !index.contains("https://"), "{index}");
    assert!(!index.contains("<script>") && !index.contains("onload="), "{index}");
    assert_eq!(subject.call(plain("GET", "/docs")).await.header("location"), Some("/docs/"));
}

#[tokio::test]
async fn unknown_paths_and_methods_get_suggestions() {
    let subject = TestApi::new();
    for (path, near) in [
        ("/v1/chek", "did you mean /v1/check?"),
        ("/v1/check/", "did you mean /v1/check?"),
        ("/v1/permits/", "did you mean /v1/permits?"),
        ("/health", "did you mean /healthz?"),
        ("/docs/nothing", "unknown path"),
        ("/docs/../secret", "unknown path"),
        ("/nowhere/at/all", "see /docs"),
    ] {
        let problem = subject.call(plain("GET", path)).await.problem();
        assert_eq!((problem.0, problem.1.as_str()), (404, "unknown-path"), "{path}");
        assert!(problem.2.contains(near), "{path}: {}", problem.2);
    }
    for (method, path, allowed) in [
        ("GET", "/v1/check", "POST, OPTIONS"),
        ("HEAD", "/v1/check", "POST, OPTIONS"),
        ("DELETE", "/v1/permits", "POST, OPTIONS"),
        ("POST", "/v1/permits/00", "PUT, DELETE, OPTIONS"),
        ("POST", "/healthz", "GET, HEAD, OPTIONS"),
        ("BREW", "/v1/settle", "POST, OPTIONS"),
    ] {
        let response = subject.call(plain(method, path)).await;
        assert_eq!((response.status.as_u16(), response.header("allow")), (405, Some(allowed)), "{method} {path}");
        let options = subject.call(plain("OPTIONS", path)).await;
        assert_eq!((options.status.as_u16(), options.header("allow")), (204, Some(allowed)), "{path}");
    }
    assert!(subject.is_untouched());
}

/// Health and the API documentation are public: a browser cannot send a secret for a page it opens, and these
/// pages contain nothing about this server's rules or clients.
#[tokio::test]
async fn only_health_and_docs_are_public() {
    let mut subject = TestApi::new();
    let secret = Some(Secret::of("open sesame"));
    subject.api = HttpApi::new(subject.sluice.clone(), &Server::default(), HeaderStyle::Ietf, secret);

    for (path, methods) in ROUTES.into_iter().chain([("/nowhere", "GET")]) {
        for method in methods.replace('*', "GET").split(", ") {
            let path = path.replace("{file}", "index.html").replace("{id}", "00");
            for credentials in
                [None, Some("Bearer open"), Some("Bearer"), Some("Basic open sesame"), Some("open sesame")]
            {
                let mut request = json(method, &path, "{}");
                request
                    .headers_mut()
                    .extend(credentials.map(|value| (http::header::AUTHORIZATION, value.parse().unwrap())));
                let response = subject.call(request).await;
                if ["/healthz", "/openapi.json", "/docs", "/docs/index.html"].contains(&path.as_str()) {
                    assert!(
                        response.status.is_success() || response.status.is_redirection(),
                        "{path} {}",
                        response.status
                    );
                    continue;
                }
                assert_eq!(
                    (response.status.as_u16(), response.header("www-authenticate")),
                    (401, Some("Bearer")),
                    "{path}"
                );
            }
        }
    }
    assert!(subject.is_untouched());
    let authorized = |scheme: &str| {
        let mut request = json("POST", "/v1/check", "{}");
        request.headers_mut().insert("authorization", format!("{scheme} open sesame").parse().unwrap());
        request
    };
    assert_eq!(subject.call(authorized("Bearer")).await.status, 200);
    assert_eq!(subject.call(authorized("bearer")).await.status, 200);
    let mut twice = authorized("Bearer");
    twice.headers_mut().append("authorization", "Bearer open sesame".parse().unwrap());
    assert_eq!(subject.call(twice).await.status, 401);
}
