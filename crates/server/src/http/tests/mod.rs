//! The API from the client's side, without sockets except in one module.

mod auth;
mod checks;
mod invalid_requests;
mod openapi_conformance;
mod pages;
mod ratelimit_pages;
mod reservations;
mod socket;

use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use sluicegate_config::settings::Server;
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use sluicegate_http_adapter::HeaderStyle;

use super::HttpApi;
use crate::secret::Secret;

const RULES: &str = r#"
lists:
  allow: ["account == 'root'"]
  deny: ["account == 'mallory'"]
rules:
  - { name: per-account, match: service shop, key: account, limits: [{ token_bucket: 1/s, burst: 10 }] }
  - { name: all-accounts, match: service shop, limits: [{ token_bucket: 1/s, burst: 15 }] }
  - { name: trial, match: service shop, limits: [{ token_bucket: 1/s, burst: 1 }], mode: shadow }
  - name: jobs
    match: service jobs
    key: account
    limits: [{ concurrency: 2 }]
    on_limit: { queue: { max_wait: 10s, max_waiting: 5 } }
  - { name: paced, match: service pace, limits: [{ leaky_bucket: 1/s, queue: 5 }] }
  - { name: tokens, match: service llm, limits: [1000/1h] }
  - { name: estimated, match: service llm, cost: { estimate: 100 }, limits: [{ token_bucket: 1/s, burst: 2000 }] }
  - { name: quick, match: service quick, ban: { after: 1, within: 1m, for: 1m }, limits: [{ token_bucket: 1/s, burst: 1 }] }
  - { name: files, match: "GET /files/**", key: client.ip, limits: [{ token_bucket: 1/s, burst: 2 }] }
  - name: searches
    match: GET /search
    key: "query['q']"
    limits: [{ token_bucket: 1/s, burst: 1 }]
    on_limit: { degrade: { json: [] } }
  - { name: protected, match: service protected, adaptive: cpu }
  - { name: tiers, match: service tiers, key: ["header['x-tier']", "cookie['sid']"], limits: [{ token_bucket: 1/s, burst: 1 }] }
"#;

/// An API with rules of every kind and a manual clock.
struct TestApi {
    clock: ManualClock,
    sluice: Sluice,
    api: HttpApi,
}

impl TestApi {
    fn new() -> Self {
        Self::with_settings(&Server {
            max_checks: 5,
            max_reservations: 3,
            max_request_size: 4_096,
            ..Server::default()
        })
    }

    fn with_settings(settings: &Server) -> Self {
        Self::with_rules(RULES, settings, None)
    }

    /// Creates an API with other rules and an optional secret.
    fn with_rules(rules: &str, settings: &Server, secret: Option<Secret>) -> Self {
        let clock = ManualClock::new();
        let loaded = sluicegate_config::parse("rules.yaml", rules).unwrap().settings;
        let builder = Sluice::builder().rules(loaded.rules).lists(loaded.lists.conditions());
        let sluice = builder.clock(clock.clone()).memory(1 << 22).build().unwrap();
        let api = HttpApi::new(sluice.clone(), settings, HeaderStyle::Ietf, secret);
        Self { clock, sluice, api }
    }

    async fn post(&self, path: &str, body: &str) -> ApiResponse {
        self.call(json("POST", path, body)).await
    }

    async fn call(&self, request: Request<Full<Bytes>>) -> ApiResponse {
        self.call_from(request, LOCAL).await
    }

    async fn call_from(&self, request: Request<Full<Bytes>>, peer: &str) -> ApiResponse {
        let sent = request.clone();
        let (head, body) = self.api.handle(request, peer.parse::<SocketAddr>().unwrap()).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let response = ApiResponse { status: head.status, headers: head.headers, body };
        openapi_conformance::assert_described(&sent, &response).await;
        response
    }

    /// Remaining quota of a rule.
    async fn remaining(&self, rule: &str) -> u64 {
        let body = format!(r#"{{"rule":"{rule}","cost":0,"attributes":{{"account":"a"}}}}"#);
        let peeked = self.post("/v1/check", &body).await.json();
        peeked["limits"][0]["remaining"].as_u64().unwrap()
    }

    /// Runs the expiry timer once.
    async fn expire(&self) {
        let mut expiring = pin!(self.api.expire());
        for _ in 0..10 {
            let step = std::future::poll_fn(|context| Poll::Ready(expiring.as_mut().poll(context)));
            assert!(step.await.is_pending());
        }
    }

    /// True if no rule has decided anything.
    fn is_untouched(&self) -> bool {
        let is_zero = self.sluice.counts().iter().all(|rule| rule.admitted + rule.refused + rule.banned == 0);
        is_zero && self.api.reservation_counts().active == 0
    }
}

const LOCAL: &str = "127.0.0.1:4711";

struct ApiResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl ApiResponse {
    fn json(&self) -> Value {
        let text = || String::from_utf8_lossy(&self.body).into_owned();
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.status, text()))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The problem document: status, type without prefix, detail and pointer.
    fn problem(&self) -> (u16, String, String, Option<String>) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let json = self.json();
        assert_eq!(json["status"], self.status.as_u16());
        assert!(!json["title"].as_str().unwrap().is_empty());
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let kind = text("type").unwrap().strip_prefix("urn:sluicegate:").unwrap().to_owned();
        (self.status.as_u16(), kind, text("detail").unwrap(), text("pointer"))
    }
}

fn json(method: &str, path: &str, body: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()
}

fn plain(method: &str, path: &str) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(path).body(Full::default()).unwrap()
}
