//! Every route with every kind of caller.

use super::{READ, RULES, TOKENS, TestServer, WRITE, call};
use crate::http::route::{ROUTES, Route, RouteId};
use crate::tokens::Access;
use http::Method;
use serde_json::json;

/// Sample request of a route, and the status an authorized caller gets. The match is exhaustive.
fn sample(page: RouteId, method: &Method) -> (&'static str, Option<String>, u16) {
    let put = json!({"text": RULES, "based_on": 1, "comment": "the same"}).to_string();
    match (page, method.as_str()) {
        (RouteId::Dashboard, _) => ("/", None, 200),
        (RouteId::Asset, _) => ("/assets/none.js", None, 404),
        (RouteId::Health, _) => ("/healthz", None, 200),
        (RouteId::Ready, _) => ("/readyz", None, 200),
        (RouteId::OpenApi, _) => ("/openapi.json", None, 200),
        (RouteId::Docs, _) => ("/docs", None, 308),
        (RouteId::DocsFile, _) => ("/docs/", None, 200),
        (RouteId::Metrics, _) => ("/metrics", None, 200),
        (RouteId::Status, _) => ("/v1/status", None, 200),
        (RouteId::Rules, _) => ("/v1/rules", None, 200),
        (RouteId::Rule, _) => ("/v1/rules/per-ip", None, 200),
        (RouteId::Limits, _) => ("/v1/limits", None, 200),
        (RouteId::Adaptive, _) => ("/v1/adaptive", None, 200),
        (RouteId::Top, _) => ("/v1/top?rule=per-ip&limit=5", None, 200),
        (RouteId::Keys, _) => ("/v1/keys?rule=per-ip&key=203.0.113.9", None, 200),
        (RouteId::Bans, "POST") => ("/v1/bans", Some(r#"{"rule":"per-ip","key":["203.0.113.9"]}"#.to_owned()), 201),
        (RouteId::Bans, "DELETE") => ("/v1/bans?rule=per-ip&key=203.0.113.9", None, 200),
        (RouteId::Bans, _) => ("/v1/bans", None, 200),
        (RouteId::Lists, _) => ("/v1/lists", None, 200),
        (RouteId::List, "POST") => ("/v1/lists/deny", Some(r#"{"condition":"account == 'm'"}"#.to_owned()), 201),
        (RouteId::List, _) => ("/v1/lists/deny?condition=account+%3D%3D+%27m%27", None, 200),
        (RouteId::Shadow, _) => ("/v1/shadow", None, 200),
        (RouteId::Store, _) => ("/v1/store", None, 200),
        (RouteId::Source, "PUT") => ("/v1/source", Some(put), 200),
        (RouteId::Source, _) => ("/v1/source", None, 200),
        (RouteId::SourceCheck, _) => ("/v1/source/check", Some(json!({"text": RULES}).to_string()), 200),
        (RouteId::Versions, _) => ("/v1/versions", None, 200),
        (RouteId::Version, _) => ("/v1/versions/1", None, 200),
        (RouteId::Restore, _) => ("/v1/versions/1/restore", None, 200),
        (RouteId::Reload, _) => ("/v1/reload", None, 200),
        (RouteId::Live, _) => ("/v1/live", None, 200),
        (RouteId::Explain, _) => ("/v1/explain", Some(r#"{"method":"GET","path":"/"}"#.to_owned()), 200),
    }
}

/// Calls every route and collects the results.
async fn call_every_route(
    subject: &TestServer,
    token: Option<&str>,
) -> Vec<(&'static Route, Method, Option<Access>, u16, u16)> {
    let mut seen = Vec::new();
    for route in &ROUTES {
        for (method, need) in route.methods {
            let (path, body, expected) = sample(route.id, method);
            let (found, _) = Route::of(path.split('?').next().unwrap()).unwrap();
            assert_eq!(found.id, route.id, "{path}");
            let request = call(method.as_str(), path, token, body.as_deref());
            // Does not wait for a stream that never ends.
            let status = match route.id {
                RouteId::Live => subject.send_for_head(request).await.status(),
                _ => subject.send(request).await.status,
            };
            seen.push((route, method.clone(), *need, expected, status.as_u16()));
        }
    }
    seen
}

#[tokio::test]
async fn a_missing_or_wrong_token_sees_only_public_pages() {
    let subject = TestServer::start(Some(TOKENS));
    let generation = subject.fixture.sluice.generation();
    for token in [None, Some("alice-alice-alicf"), Some(""), Some("alice"), Some("x")] {
        for (route, method, need, expected, status) in call_every_route(&subject, token).await {
            assert_eq!(status, if need.is_some() { 401 } else { expected }, "{method} {} with {token:?}", route.path);
        }
    }
    assert_eq!(subject.fixture.sluice.generation(), generation);
    assert!(subject.fixture.sluice.bans().is_empty());
}

#[tokio::test]
async fn a_read_token_changes_nothing() {
    let subject = TestServer::start(Some(TOKENS));
    let generation = subject.fixture.sluice.generation();
    for (route, method, need, expected, status) in call_every_route(&subject, Some(READ)).await {
        assert_eq!(status, if need == Some(Access::Write) { 403 } else { expected }, "{method} {}", route.path);
    }
    assert_eq!(subject.fixture.sluice.generation(), generation);
    assert!(subject.fixture.sluice.bans().is_empty());
}

#[tokio::test]
async fn a_write_token_may_call_everything() {
    let subject = TestServer::start(Some(TOKENS));
    for (route, method, _, expected, status) in call_every_route(&subject, Some(WRITE)).await {
        assert_eq!(status, expected, "{method} {}", route.path);
    }
}

#[tokio::test]
async fn loopback_may_read_but_not_write_without_tokens() {
    let subject = TestServer::start(None);
    // A token is ignored if none is configured.
    for token in [None, Some(WRITE)] {
        for (route, method, need, expected, status) in call_every_route(&subject, token).await {
            assert_eq!(status, if need == Some(Access::Write) { 403 } else { expected }, "{method} {}", route.path);
        }
    }
    let refused = subject.send(call("POST", "/v1/reload", None, None)).await;
    refused.assert_problem(403, "forbidden", "set `admin.token_file`");
}

#[tokio::test]
async fn head_and_options_are_supported() {
    let subject = TestServer::start(Some(TOKENS));
    for route in &ROUTES {
        let (path, ..) = sample(route.id, &route.methods[0].0);
        let options = subject.send(call("OPTIONS", path, Some(READ), None)).await;
        assert_eq!(options.status, 204);
        assert_eq!(options.header("allow").unwrap(), route.allowed());
        for method in ["PATCH", "TRACE", "PROPFIND"] {
            let response = subject.send(call(method, path, Some(WRITE), None)).await;
            response.assert_problem(405, "method", "is not allowed");
            assert_eq!(response.header("allow").unwrap(), route.allowed());
        }
        let head = subject.send(call("HEAD", path, Some(READ), None)).await;
        assert!(head.body.is_empty());
        if route.methods.iter().any(|(method, _)| *method == Method::GET) {
            let length = head.header("content-length");
            assert!(
                route.id == RouteId::Live || length.is_some_and(|length| length != "0") || head.status == 308,
                "{path}"
            );
        } else {
            assert_eq!(head.status, 405, "{path}");
        }
    }
}

#[tokio::test]
async fn unauthorized_callers_learn_nothing_about_routes() {
    let subject = TestServer::start(Some(TOKENS));
    for (method, path) in [("GET", "/v1/nothing"), ("PATCH", "/v1/rules"), ("OPTIONS", "/v1/rules"), ("GET", "/admin")]
    {
        let response = subject.send(call(method, path, None, None)).await;
        response.assert_problem(401, "unauthorized", "Authorization: Bearer TOKEN");
        assert_eq!(response.header("www-authenticate"), Some("Bearer"));
    }
    subject.get("/v1/statuss").await.assert_problem(404, "unknown-path", "did you mean /v1/status?");
    subject.get("/v1/rules/").await.assert_problem(404, "unknown-path", "did you mean /v1/rules?");
    subject.get("/wp-login.php").await.assert_problem(404, "unknown-path", "/docs/ lists all paths");
}

#[tokio::test]
async fn host_must_be_loopback_without_tokens() {
    let subject = TestServer::start(None);
    let with_host = |host: &str| {
        let mut request = call("GET", "/v1/status", None, None);
        request.headers_mut().insert("host", host.parse().unwrap());
        request
    };
    for host in ["localhost", "localhost:9900", "127.0.0.1", "[::1]:80"] {
        assert_eq!(subject.send(with_host(host)).await.status, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example:9900", "192.0.2.1", ""] {
        subject.send(with_host(host)).await.assert_problem(403, "forbidden", "is not a loopback name");
    }
    let mut twice = with_host("localhost");
    twice.headers_mut().append("host", "localhost".parse().unwrap());
    assert_ne!(subject.send_for_head(twice).await.status(), 200);
}

#[tokio::test]
async fn duplicate_or_non_bearer_tokens_are_rejected() {
    let subject = TestServer::start(Some(TOKENS));
    let mut twice = call("GET", "/v1/status", Some(WRITE), None);
    twice.headers_mut().append("authorization", format!("Bearer {WRITE}").parse().unwrap());
    subject.send(twice).await.assert_problem(401, "unauthorized", "missing token");
    for line in [format!("Basic {WRITE}"), WRITE.to_owned(), "Bearer".to_owned(), format!("Bearer{WRITE}")] {
        let mut request = call("GET", "/v1/status", None, None);
        request.headers_mut().insert("authorization", line.parse().unwrap());
        assert_eq!(subject.send(request).await.status, 401, "{line}");
    }
    let mut request = call("GET", "/v1/status", None, None);
    request.headers_mut().insert("authorization", format!("bEARER   {WRITE}").parse().unwrap());
    assert_eq!(subject.send(request).await.json()["access"], "write");
    assert_eq!(subject.send(call("GET", "/v1/status", Some(READ), None)).await.json()["access"], "read");
}
