//! Tests with a real server and client: every kind of key and of refusal in the rule file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::net::SocketAddr;

use jsonwebtoken::{EncodingKey, Header, encode};
use reqwest::{Client, RequestBuilder, redirect::Policy};
use serde_json::{Value, json};
use sluicegate::clock::{ClockHandle, ManualClock};
use sluicegate::config;
use sluicegate::tower::LimitLayer;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Test server, stopped on drop.
struct TestShop {
    address: SocketAddr,
    limits: LimitLayer,
    serving: JoinHandle<()>,
    client: Client,
}

impl TestShop {
    async fn open() -> Self {
        let settings = config::load(concat!(env!("CARGO_MANIFEST_DIR"), "/rules.yaml")).unwrap().settings;
        let limits = shop_http::limits(settings, ClockHandle::new(ManualClock::new())).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = shop_http::app(limits.clone()).into_make_service_with_connect_info::<SocketAddr>();
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let client = Client::builder().redirect(Policy::none()).no_proxy().build().unwrap();
        Self { address, limits, serving, client }
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("http://{}{path}", self.address))
    }

    fn order(&self, account: &str) -> RequestBuilder {
        self.client.post(format!("http://{}/api/orders", self.address)).bearer_auth(token(account, shop_http::SECRET))
    }
}

impl Drop for TestShop {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn token(account: &str, secret: &[u8]) -> String {
    let claims = json!({ "sub": account, "exp": 4_000_000_000_u64 });
    encode(&Header::default(), &claims, &EncodingKey::from_secret(secret)).unwrap()
}

/// Sends sequential requests and returns their statuses.
async fn statuses(count: usize, request: impl Fn() -> RequestBuilder) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(request().send().await.unwrap().status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn clients_behind_a_trusted_proxy_are_keyed_by_a_forwarded_address_they_cannot_forge() {
    let shop = TestShop::open().await;
    // The proxy appends the address of the client to the header that the client sent.
    let from = |claimed: u32, client: &str| {
        shop.get("/busy").header("x-forwarded-for", format!("192.0.2.{}, {client}", claimed % 250)).send()
    };
    let mut admitted = 0;
    for claimed in 0..120 {
        admitted += u32::from(from(claimed, "203.0.113.9").await.unwrap().status() == 200);
    }
    assert_eq!(admitted, 100);
    assert_eq!(from(0, "203.0.113.10").await.unwrap().status(), 200);
    assert_eq!(shop.limits.unknown_peers(), 0);
    assert_eq!(shop.limits.missing_attributes(), [], "every rule of the file applies");
}

#[tokio::test]
async fn accounts_are_keyed_by_verified_tokens() {
    let shop = TestShop::open().await;
    assert_eq!(statuses(4, || shop.order("alice")).await, [200, 200, 200, 429]);
    assert_eq!(statuses(1, || shop.order("bob")).await, [200]);
    let refused = shop.order("alice").send().await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.text().await.unwrap(), "busy, please retry");
    assert_eq!(statuses(1, || shop.order("alice").header("x-tier", "vip")).await, [200]);
    let forged = token("bob", b"another secret with 32 bytes....");
    let forged_request = || shop.client.post(format!("http://{}/api/orders", shop.address)).bearer_auth(&forged);
    assert_eq!(statuses(1, forged_request).await, [200], "an invalid token has no account");
    assert_eq!(statuses(3, || shop.order("bob")).await, [200, 200, 429], "a forged token uses no quota of bob");
}

#[tokio::test]
async fn requests_are_keyed_by_path_parameter_and_refused_with_a_redirect() {
    let shop = TestShop::open().await;
    assert_eq!(statuses(6, || shop.get("/api/items/7")).await, [200, 200, 200, 200, 200, 302]);
    let refused = shop.get("/api//items/7").send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["location"].to_str().unwrap()), (302, "/busy"));
    assert_eq!(statuses(1, || shop.get("/api/items/8")).await, [200]);
}

#[tokio::test]
async fn a_refused_search_gets_the_degraded_response() {
    let shop = TestShop::open().await;
    for _ in 0..5 {
        let found: Value = shop.get("/api/search").send().await.unwrap().json().await.unwrap();
        assert_eq!(found, json!({ "items": ["red shoes"] }));
    }
    let degraded = shop.get("/api/search").send().await.unwrap();
    assert_eq!(degraded.status(), 200);
    assert_eq!(degraded.json::<Value>().await.unwrap(), json!({ "items": [] }));
}

#[tokio::test]
async fn partners_are_keyed_by_api_key_in_header_or_query() {
    let shop = TestShop::open().await;
    let in_header = |key: &'static str| shop.get("/api/stock").header("x-api-key", key);
    assert_eq!(statuses(2, || in_header("k1")).await, [200, 200]);
    assert_eq!(statuses(2, || shop.get("/api/stock?key=k1")).await, [200, 429]);
    assert_eq!(statuses(1, || in_header("k2")).await, [200]);
    let refused = in_header("k1").send().await.unwrap();
    assert_eq!(refused.headers()["content-type"], "application/problem+json");
    let problem: Value = refused.json().await.unwrap();
    assert_eq!(problem["violated-policies"], json!(["partners"]));
}

#[tokio::test]
async fn a_shadow_rule_only_counts() {
    let shop = TestShop::open().await;
    assert_eq!(statuses(3, || shop.get("/busy")).await, [200; 3]);
    let counts = shop.limits.sluice().counts();
    let shadow = counts.iter().find(|rule| rule.rule == "try-me").unwrap();
    assert_eq!((shadow.admitted, shadow.refused), (1, 2));
}

#[tokio::test]
async fn responses_carry_the_remaining_quota() {
    let shop = TestShop::open().await;
    let response = shop.get("/api/search").send().await.unwrap();
    let policies: Vec<_> =
        response.headers().get_all("ratelimit-policy").iter().map(|line| line.to_str().unwrap()).collect();
    assert_eq!(policies, ["\"per-ip/1m\";q=300;w=60, \"per-ip/5s\";q=100;w=5", "\"search\";q=5;w=60"]);
    let remaining = response.headers()["ratelimit"].to_str().unwrap();
    assert!(remaining.starts_with("\"per-ip/5s\";r=99;t=") && remaining.contains(", \"search\";r=4;t="), "{remaining}");
}
