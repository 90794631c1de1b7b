//! The admin API as its clients see it, over real sockets but for what only a clock that stands still can show.

mod bad;
mod described;
mod fleet;
mod live;
mod metrics;
mod pages;
mod reading;
mod standing;
mod walk;
mod writing;

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
use sluicegate_listen::{Process, Stop};
use tokio::net::TcpStream;

use crate::keeper::{Keeper, Origin, Start};
use crate::{Admin, Running, Sources};

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

/// Rules in a folder of their own, which is gone with it.
struct Kept {
    folder: PathBuf,
    sluice: Sluice,
    keeper: Keeper,
}

impl Kept {
    fn new(clock: ClockHandle) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sluicegate-admin-{}-{nth}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("rules.yaml");
        fs::write(&path, RULES).unwrap();
        let settings = sluicegate_config::load(&path).unwrap().settings;
        let (rules, lists) = (settings.rules.clone(), settings.lists.conditions());
        let builder = Sluice::builder().rules(rules).lists(lists).clock(clock).memory(1 << 22).watch_keys();
        let sluice = builder.build().unwrap();
        let start = Start {
            sluice: sluice.clone(),
            origin: Origin::File(path),
            text: RULES.to_owned(),
            settings,
            beside: Box::new(()),
        };
        Self { folder, sluice, keeper: Keeper::new(start) }
    }

    fn sources(&self) -> Sources {
        Sources::new(self.sluice.clone(), self.keeper.clone())
    }

    /// Sends so many requests from an address.
    fn ask(&self, ip: &str, times: usize) {
        let request = rule::Request::new("GET", "/api/x").with_client_ip(ip.parse::<std::net::IpAddr>().unwrap());
        (0..times).for_each(|_| drop(self.sluice.decide(&request)));
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// A listener that serves.
struct Subject {
    kept: Kept,
    running: Option<Running>,
    address: SocketAddr,
}

impl Subject {
    /// One with tokens, or without.
    fn start(tokens: Option<&str>) -> Self {
        Self::with(tokens, |_| {})
    }

    fn with(tokens: Option<&str>, change: impl FnOnce(&mut Sources)) -> Self {
        Self::by(ClockHandle::system(), tokens, change)
    }

    /// One whose time is that of this clock.
    fn by(clock: ClockHandle, tokens: Option<&str>, change: impl FnOnce(&mut Sources)) -> Self {
        let kept = Kept::new(clock);
        let settings = settings::Admin {
            listen: "127.0.0.1:0".parse().unwrap(),
            token: tokens.map(|text| write(&kept.folder, "tokens", text)),
            tls: None,
            otlp: None,
        };
        let mut sources = kept.sources();
        change(&mut sources);
        let running = Admin::open(&settings, sources, &kept.folder, &mut Process::alone()).unwrap();
        let running = running.start(|_| {}).unwrap();
        let address = running.address().unwrap();
        Self { kept, running: Some(running), address }
    }

    fn stop(&mut self) -> sluicegate_listen::Report {
        self.running.take().unwrap().stop(Stop::Close)
    }

    /// Sends a call, and reads the answer whole.
    async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let asked = request.clone();
        let (head, body) = self.begin(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let answer = Answer { status: head.status, headers: head.headers, body };
        described::check(&asked, &answer);
        answer
    }

    /// Sends a call, and reads the head of the answer.
    async fn begin(&self, mut request: Request<Full<Bytes>>) -> http::Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let host = self.address.to_string().parse().unwrap();
        request.headers_mut().entry("host").or_insert(host);
        sender.send_request(request).await.unwrap()
    }

    /// Looks at something, as whoever may write.
    async fn get(&self, path: &str) -> Answer {
        self.send(call("GET", path, Some(WRITE), None)).await
    }

    /// Does something, as whoever may write.
    async fn act(&self, method: &str, path: &str, body: Option<&str>) -> Answer {
        self.send(call(method, path, Some(WRITE), body)).await
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop(Stop::Close);
        }
    }
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    fs::write(folder.join(name), text).unwrap();
    name.to_owned()
}

/// A call with JSON in it, if there is anything.
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
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text()))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The problem it tells: status, type without its prefix, and detail.
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

    /// That it is this problem, and says this.
    #[track_caller]
    fn is_problem(&self, status: u16, kind: &str, says: &str) {
        let (was, of, detail) = self.problem();
        assert_eq!((was, of.as_str()), (status, kind), "{detail}");
        assert!(detail.contains(says), "{detail}");
    }
}
