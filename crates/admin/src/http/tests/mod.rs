//! Admin API tests over real sockets, except for those that need a manual clock.

mod bad_input;
mod cluster;
mod event_stream;
mod metrics;
mod openapi;
mod pages;
mod read_endpoints;
mod routes;
mod timing;
mod write_endpoints;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sluicegate_config::settings;
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::rule;
use sluicegate_net::{Process, Shutdown};
use tokio::net::TcpStream;

use crate::reload::{InitialRules, RuleManager, RulesOrigin};
use crate::{Admin, AdminHandle, Providers};

const RULES: &str = r#"
lists:
  allow: ["account == 'root'"]
  deny: ["client.ip in 198.51.100.0/24"]
rules:
  - { name: per-ip, key: client.ip, limits: [300/1m, 2/5s], ban: { after: 3, within: 1m, for: 10m } }
  - { name: everything, limits: [1000/1m] }
  - { name: trial, match: GET /api/**, limits: [1/1m], mode: shadow }
  - { name: jobs, match: POST /jobs, limits: [{ concurrency: 2 }], on_limit: { queue: { max_wait: 10s, max_waiting: 5 } } }
  - { name: tiers, match: service tiers, key: ["header['x-tier']", account], limits: [{ token_bucket: 1/s, burst: 5 }] }
"#;

const WRITE: &str = "alice-alice-alice";
const READ: &str = "bob-bob-bob-bob-bob";
const TOKENS: &str = "alice alice-alice-alice\nbob bob-bob-bob-bob-bob read\n";

/// Rules in a temporary directory, which is removed on drop.
struct RulesFixture {
    folder: PathBuf,
    sluice: Sluice,
    manager: RuleManager,
}

impl RulesFixture {
    fn new(clock: ClockHandle) -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let index = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sluicegate-admin-{}-{index}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("rules.yaml");
        fs::write(&path, RULES).unwrap();
        let settings = sluicegate_config::load(&path).unwrap().settings;
        let (rules, lists) = (settings.rules.clone(), settings.lists.conditions());
        let builder = Sluice::builder().rules(rules).lists(lists).clock(clock).memory(1 << 22).track_keys();
        let sluice = builder.build().unwrap();
        let start = InitialRules {
            sluice: sluice.clone(),
            origin: RulesOrigin::File(path),
            text: RULES.to_owned(),
            settings,
            side_files: Box::new(()),
        };
        Self { folder, sluice, manager: RuleManager::new(start) }
    }

    fn providers(&self) -> Providers {
        Providers::new(self.sluice.clone(), self.manager.clone())
    }

    /// Sends this number of requests from an address.
    fn send_requests(&self, ip: &str, times: usize) {
        let request = rule::Request::new("GET", "/api/x").with_client_ip(ip.parse::<std::net::IpAddr>().unwrap());
        (0..times).for_each(|_| drop(self.sluice.decide(&request)));
    }
}

impl Drop for RulesFixture {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// A running admin listener.
struct TestServer {
    fixture: RulesFixture,
    handle: Option<AdminHandle>,
    address: SocketAddr,
}

impl TestServer {
    /// Starts a listener, with or without tokens.
    fn start(tokens: Option<&str>) -> Self {
        Self::with(tokens, |_| {})
    }

    fn with(tokens: Option<&str>, change: impl FnOnce(&mut Providers)) -> Self {
        Self::with_clock(ClockHandle::system(), tokens, change)
    }

    /// Starts a listener with this clock.
    fn with_clock(clock: ClockHandle, tokens: Option<&str>, change: impl FnOnce(&mut Providers)) -> Self {
        let fixture = RulesFixture::new(clock);
        let settings = settings::Admin {
            listen: "127.0.0.1:0".parse().unwrap(),
            token_file: tokens.map(|text| write(&fixture.folder, "tokens", text)),
            tls: None,
            otlp: None,
        };
        let mut sources = fixture.providers();
        change(&mut sources);
        let running = Admin::open(&settings, sources, &fixture.folder, &mut Process::standalone()).unwrap();
        let running = running.start(|_| {}).unwrap();
        let address = running.address().unwrap();
        Self { fixture, handle: Some(running), address }
    }

    fn stop(&mut self) -> sluicegate_net::DrainReport {
        self.handle.take().unwrap().stop(Shutdown::Close)
    }

    /// Sends a call and reads the complete response.
    async fn send(&self, request: Request<Full<Bytes>>) -> TestResponse {
        let sent = request.clone();
        let (head, body) = self.send_for_head(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let response = TestResponse { status: head.status, headers: head.headers, body };
        openapi::check_response(&sent, &response);
        response
    }

    /// Sends a call and reads the response head.
    async fn send_for_head(&self, mut request: Request<Full<Bytes>>) -> http::Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let host = self.address.to_string().parse().unwrap();
        request.headers_mut().entry("host").or_insert(host);
        sender.send_request(request).await.unwrap()
    }

    /// GET with a write token.
    async fn get(&self, path: &str) -> TestResponse {
        self.send(call("GET", path, Some(WRITE), None)).await
    }

    /// Any method with a write token.
    async fn write(&self, method: &str, path: &str, body: Option<&str>) -> TestResponse {
        self.send(call(method, path, Some(WRITE), body)).await
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(running) = self.handle.take() {
            running.stop(Shutdown::Close);
        }
    }
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    fs::write(folder.join(name), text).unwrap();
    name.to_owned()
}

/// Creates a request, with JSON if there is a body.
fn call(method: &str, path: &str, token: Option<&str>, body: Option<&str>) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    request.body(Full::new(Bytes::from(body.unwrap_or_default().to_owned()))).unwrap()
}

#[derive(Debug)]
struct TestResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl TestResponse {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text()))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Returns the problem: status, type without its prefix, and detail.
    #[track_caller]
    fn problem(&self) -> (u16, String, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text());
        assert_eq!(self.header("cache-control"), Some("no-store"));
        let json = self.json();
        assert_eq!(json["status"], self.status.as_u16());
        let text = |name: &str| json[name].as_str().unwrap().to_owned();
        let kind = text("type").strip_prefix("urn:sluicegate:").unwrap().to_owned();
        (self.status.as_u16(), kind, text("detail"))
    }

    /// Asserts that the response is this problem and contains this text.
    #[track_caller]
    fn assert_problem(&self, status: u16, kind: &str, text: &str) {
        let (was, of, detail) = self.problem();
        assert_eq!((was, of.as_str()), (status, kind), "{detail}");
        assert!(detail.contains(text), "{detail}");
    }
}
