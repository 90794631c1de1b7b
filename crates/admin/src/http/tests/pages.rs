//! Pages and their security headers.

use super::{TOKENS, TestServer, call};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[tokio::test]
async fn the_dashboard_has_a_strict_content_security_policy() {
    let subject = TestServer::start(Some(TOKENS));
    let page = subject.send(call("GET", "/", None, None)).await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-security-policy"), Some(POLICY));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    if let Some(tag) = page.header("etag") {
        let mut again = call("GET", "/", None, None);
        again.headers_mut().insert("if-none-match", format!("W/{tag}, \"x\"").parse().unwrap());
        assert_eq!(subject.send(again).await.status, 304);
    }
    for path in ["/assets/", "/assets/../Cargo.toml", "/assets/%2e%2e/Cargo.toml", "/assets//etc/passwd"] {
        assert_eq!(subject.send(call("GET", path, None, None)).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn openapi_and_swagger_ui_are_served() {
    let subject = TestServer::start(Some(TOKENS));
    let page = subject.send(call("GET", "/docs/", None, None)).await;
    assert!(page.text().contains("swagger-ui"), "{}", page.text());
    assert!(page.header("content-security-policy").unwrap().contains("style-src 'self' 'unsafe-inline'"));
    let to = subject.send(call("GET", "/docs", None, None)).await;
    assert_eq!((to.status.as_u16(), to.header("location")), (308, Some("/docs/")));
    assert_eq!(subject.send(call("GET", "/docs/nothing.js", None, None)).await.status, 404);
    let document = subject.send(call("GET", "/openapi.json", None, None)).await.json();
    assert_eq!(document["openapi"], "3.1.0");
}

#[tokio::test]
async fn readiness_needs_no_token() {
    let subject = TestServer::start(Some(TOKENS));
    let ready = async || subject.send(call("GET", "/readyz", None, None)).await;
    assert_eq!(ready().await.text(), "OK\n");
    subject.fixture.sluice.replace(Vec::new(), Default::default()).unwrap();
    ready().await.assert_problem(503, "unavailable", "no rules are active");
    assert_eq!(subject.send(call("GET", "/healthz", None, None)).await.text(), "OK\n");
}
