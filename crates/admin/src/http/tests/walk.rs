//! Every route, asked by everybody.

use super::{READ, RULES, Subject, TOKENS, WRITE, call};
use crate::http::route::{Page, ROUTES, Route};
use crate::tokens::Access;
use http::Method;
use serde_json::json;

/// How a route is asked, and what whoever may ask is answered. A route that is not here cannot be built.
fn sample(page: Page, method: &Method) -> (&'static str, Option<String>, u16) {
    let put = json!({"text": RULES, "based_on": 1, "comment": "the same"}).to_string();
    match (page, method.as_str()) {
        (Page::Dashboard, _) => ("/", None, 200),
        (Page::Asset, _) => ("/assets/none.js", None, 404),
        (Page::Health, _) => ("/healthz", None, 200),
        (Page::Ready, _) => ("/readyz", None, 200),
        (Page::Description, _) => ("/openapi.json", None, 200),
        (Page::Docs, _) => ("/docs", None, 308),
        (Page::DocsFile, _) => ("/docs/", None, 200),
        (Page::Metrics, _) => ("/metrics", None, 200),
        (Page::Status, _) => ("/v1/status", None, 200),
        (Page::Rules, _) => ("/v1/rules", None, 200),
        (Page::Rule, _) => ("/v1/rules/per-ip", None, 200),
        (Page::Limits, _) => ("/v1/limits", None, 200),
        (Page::Adaptive, _) => ("/v1/adaptive", None, 200),
        (Page::Top, _) => ("/v1/top?rule=per-ip&most=5", None, 200),
        (Page::Keys, _) => ("/v1/keys?rule=per-ip&key=203.0.113.9", None, 200),
        (Page::Bans, "POST") => ("/v1/bans", Some(r#"{"rule":"per-ip","key":["203.0.113.9"]}"#.to_owned()), 201),
        (Page::Bans, "DELETE") => ("/v1/bans?rule=per-ip&key=203.0.113.9", None, 200),
        (Page::Bans, _) => ("/v1/bans", None, 200),
        (Page::Lists, _) => ("/v1/lists", None, 200),
        (Page::List, "POST") => ("/v1/lists/deny", Some(r#"{"condition":"account == 'm'"}"#.to_owned()), 201),
        (Page::List, _) => ("/v1/lists/deny?condition=account+%3D%3D+%27m%27", None, 200),
        (Page::Shadow, _) => ("/v1/shadow", None, 200),
        (Page::Store, _) => ("/v1/store", None, 200),
        (Page::Source, "PUT") => ("/v1/source", Some(put), 200),
        (Page::Source, _) => ("/v1/source", None, 200),
        (Page::SourceCheck, _) => ("/v1/source/check", Some(json!({"text": RULES}).to_string()), 200),
        (Page::Versions, _) => ("/v1/versions", None, 200),
        (Page::Version, _) => ("/v1/versions/1", None, 200),
        (Page::Restore, _) => ("/v1/versions/1/restore", None, 200),
        (Page::Reload, _) => ("/v1/reload", None, 200),
        (Page::Live, _) => ("/v1/live", None, 200),
        (Page::Explain, _) => ("/v1/explain", Some(r#"{"method":"GET","path":"/"}"#.to_owned()), 200),
    }
}

/// Asks for everything, and answers what came of it.
async fn walk(subject: &Subject, token: Option<&str>) -> Vec<(&'static Route, Method, Option<Access>, u16, u16)> {
    let mut seen = Vec::new();
    for route in &ROUTES {
        for (method, need) in route.methods {
            let (path, body, expected) = sample(route.page, method);
            let (found, _) = Route::of(path.split('?').next().unwrap()).unwrap();
            assert_eq!(found.page, route.page, "{path}");
            let request = call(method.as_str(), path, token, body.as_deref());
            // What never ends is not waited for.
            let status = match route.page {
                Page::Live => subject.begin(request).await.status(),
                _ => subject.send(request).await.status,
            };
            seen.push((route, method.clone(), *need, expected, status.as_u16()));
        }
    }
    seen
}

#[tokio::test]
async fn whoever_shows_no_token_or_a_wrong_one_sees_only_the_pages() {
    let subject = Subject::start(Some(TOKENS));
    let edition = subject.kept.sluice.edition();
    for token in [None, Some("alice-alice-alicf"), Some(""), Some("alice"), Some("x")] {
        for (route, method, need, expected, status) in walk(&subject, token).await {
            assert_eq!(status, if need.is_some() { 401 } else { expected }, "{method} {} with {token:?}", route.path);
        }
    }
    assert_eq!(subject.kept.sluice.edition(), edition);
    assert!(subject.kept.sluice.bans().is_empty());
}

#[tokio::test]
async fn a_token_that_may_read_changes_nothing() {
    let subject = Subject::start(Some(TOKENS));
    let edition = subject.kept.sluice.edition();
    for (route, method, need, expected, status) in walk(&subject, Some(READ)).await {
        assert_eq!(status, if need == Some(Access::Write) { 403 } else { expected }, "{method} {}", route.path);
    }
    assert_eq!(subject.kept.sluice.edition(), edition);
    assert!(subject.kept.sluice.bans().is_empty());
}

#[tokio::test]
async fn a_token_that_may_write_does_everything() {
    let subject = Subject::start(Some(TOKENS));
    for (route, method, _, expected, status) in walk(&subject, Some(WRITE)).await {
        assert_eq!(status, expected, "{method} {}", route.path);
    }
}

#[tokio::test]
async fn without_tokens_this_machine_may_look_and_nobody_may_write() {
    let subject = Subject::start(None);
    // A token that nobody asked for changes nothing.
    for token in [None, Some(WRITE)] {
        for (route, method, need, expected, status) in walk(&subject, token).await {
            assert_eq!(status, if need == Some(Access::Write) { 403 } else { expected }, "{method} {}", route.path);
        }
    }
    let refused = subject.send(call("POST", "/v1/reload", None, None)).await;
    refused.is_problem(403, "forbidden", "set `admin.token`");
}

#[tokio::test]
async fn head_and_options_fit_where_they_should() {
    let subject = Subject::start(Some(TOKENS));
    for route in &ROUTES {
        let (path, ..) = sample(route.page, &route.methods[0].0);
        let options = subject.send(call("OPTIONS", path, Some(READ), None)).await;
        assert_eq!(options.status, 204);
        assert_eq!(options.header("allow").unwrap(), route.allowed());
        for method in ["PATCH", "TRACE", "PROPFIND"] {
            let answer = subject.send(call(method, path, Some(WRITE), None)).await;
            answer.is_problem(405, "method", "is not possible here");
            assert_eq!(answer.header("allow").unwrap(), route.allowed());
        }
        let head = subject.send(call("HEAD", path, Some(READ), None)).await;
        assert!(head.body.is_empty());
        if route.methods.iter().any(|(method, _)| *method == Method::GET) {
            let length = head.header("content-length");
            assert!(
                route.page == Page::Live || length.is_some_and(|length| length != "0") || head.status == 308,
                "{path}"
            );
        } else {
            assert_eq!(head.status, 405, "{path}");
        }
    }
}

#[tokio::test]
async fn who_may_not_ask_is_not_told_what_there_is() {
    let subject = Subject::start(Some(TOKENS));
    for (method, path) in [("GET", "/v1/nothing"), ("PATCH", "/v1/rules"), ("OPTIONS", "/v1/rules"), ("GET", "/admin")]
    {
        let answer = subject.send(call(method, path, None, None)).await;
        answer.is_problem(401, "unauthorized", "Authorization: Bearer TOKEN");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    subject.get("/v1/statuss").await.is_problem(404, "unknown-path", "did you mean /v1/status?");
    subject.get("/v1/rules/").await.is_problem(404, "unknown-path", "did you mean /v1/rules?");
    subject.get("/wp-login.php").await.is_problem(404, "unknown-path", "see /docs/");
}

#[tokio::test]
async fn without_tokens_the_name_asked_for_must_be_of_this_machine() {
    let subject = Subject::start(None);
    let with_host = |host: &str| {
        let mut request = call("GET", "/v1/status", None, None);
        request.headers_mut().insert("host", host.parse().unwrap());
        request
    };
    for host in ["localhost", "localhost:9900", "127.0.0.1", "[::1]:80"] {
        assert_eq!(subject.send(with_host(host)).await.status, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example:9900", "192.0.2.1", ""] {
        subject.send(with_host(host)).await.is_problem(403, "forbidden", "is no name of this machine");
    }
    let mut twice = with_host("localhost");
    twice.headers_mut().append("host", "localhost".parse().unwrap());
    assert_ne!(subject.begin(twice).await.status(), 200);
}

#[tokio::test]
async fn a_token_sent_twice_or_by_another_scheme_is_none() {
    let subject = Subject::start(Some(TOKENS));
    let mut twice = call("GET", "/v1/status", Some(WRITE), None);
    twice.headers_mut().append("authorization", format!("Bearer {WRITE}").parse().unwrap());
    subject.send(twice).await.is_problem(401, "unauthorized", "no token was shown");
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
