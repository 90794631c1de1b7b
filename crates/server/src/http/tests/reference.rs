//! The pages that users of envoyproxy/ratelimit know, beside our own.

use std::path::Path;

use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use sluicegate_engine::Sluice;

use super::{LOCAL, json, plain};
use crate::domains::DomainsInForce;
use crate::speaking::Desk;

async fn desk() -> Desk {
    let settings = sluicegate_config::parse("rules.yaml", "server: { http: \"127.0.0.1:0\" }").unwrap().settings;
    let sluice = Sluice::builder().build().unwrap();
    let server = settings.server.as_ref().unwrap();
    Desk::new(&settings, server, sluice, DomainsInForce::default(), Path::new(".")).await.unwrap()
}

async fn call(desk: &Desk, method: &str, path: &str) -> (StatusCode, HeaderMap, usize) {
    let answer = desk.answer(plain(method, path), LOCAL.parse().unwrap()).await;
    let (head, body) = answer.into_parts();
    (head.status, head.headers, body.collect().await.unwrap().to_bytes().len())
}

/// They answered 404 as if there were nothing at all.
#[tokio::test]
async fn json_is_posted_and_nothing_else() {
    let desk = desk().await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "BREW"] {
        let (status, headers, length) = call(&desk, method, "/json").await;
        assert_eq!((status.as_u16(), headers["allow"].to_str().unwrap()), (405, "POST, OPTIONS"), "{method}");
        assert_eq!(length == 0, method == "HEAD");
    }
    let (status, headers, _) = call(&desk, "OPTIONS", "/json").await;
    assert_eq!((status.as_u16(), headers["allow"].to_str().unwrap()), (204, "POST, OPTIONS"));
    let asked = r#"{"domain": "edge", "descriptors": [{"entries": [{"key": "a"}]}]}"#;
    assert_eq!(desk.answer(json("POST", "/json", asked), LOCAL.parse().unwrap()).await.status(), 200);
}

#[tokio::test]
async fn health_may_be_asked_by_any_method() {
    let desk = desk().await;
    for method in ["GET", "HEAD", "POST", "PUT", "OPTIONS", "BREW"] {
        let (status, _, length) = call(&desk, method, "/healthcheck").await;
        assert_eq!((status.as_u16(), length), (200, if method == "HEAD" { 0 } else { 2 }), "{method}");
    }
    desk.drain().await;
    assert_eq!(call(&desk, "POST", "/healthcheck").await.0, 500);
}
