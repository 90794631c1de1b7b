//! The endpoints of envoyproxy/ratelimit next to our own.

use std::path::Path;

use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use sluicegate_engine::Sluice;

use super::{LOCAL, json, plain};
use crate::active_domains::ActiveDomains;
use crate::protocol::ProtocolHandlers;

async fn handlers() -> ProtocolHandlers {
    let settings = sluicegate_config::parse("rules.yaml", "server: { http: \"127.0.0.1:0\" }").unwrap().settings;
    let sluice = Sluice::builder().build().unwrap();
    let server = settings.server.as_ref().unwrap();
    ProtocolHandlers::new(&settings, server, sluice, ActiveDomains::default(), Path::new(".")).await.unwrap()
}

async fn call(handlers: &ProtocolHandlers, method: &str, path: &str) -> (StatusCode, HeaderMap, usize) {
    let response = handlers.handle_http(plain(method, path), LOCAL.parse().unwrap()).await;
    let (head, body) = response.into_parts();
    (head.status, head.headers, body.collect().await.unwrap().to_bytes().len())
}

/// Regression test: other methods got 404, as if the path did not exist.
#[tokio::test]
async fn json_accepts_only_post() {
    let handlers = handlers().await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "BREW"] {
        let (status, headers, length) = call(&handlers, method, "/json").await;
        assert_eq!((status.as_u16(), headers["allow"].to_str().unwrap()), (405, "POST, OPTIONS"), "{method}");
        assert_eq!(length == 0, method == "HEAD");
    }
    let (status, headers, _) = call(&handlers, "OPTIONS", "/json").await;
    assert_eq!((status.as_u16(), headers["allow"].to_str().unwrap()), (204, "POST, OPTIONS"));
    let body = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}]}]}"#;
    assert_eq!(handlers.handle_http(json("POST", "/json", body), LOCAL.parse().unwrap()).await.status(), 200);
}

#[tokio::test]
async fn healthcheck_accepts_any_method() {
    let handlers = handlers().await;
    for method in ["GET", "HEAD", "POST", "PUT", "OPTIONS", "BREW"] {
        let (status, _, length) = call(&handlers, method, "/healthcheck").await;
        assert_eq!((status.as_u16(), length), (200, if method == "HEAD" { 0 } else { 2 }), "{method}");
    }
    handlers.drain().await;
    assert_eq!(call(&handlers, "POST", "/healthcheck").await.0, 500);
}
