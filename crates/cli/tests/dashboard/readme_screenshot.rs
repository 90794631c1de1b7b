//! Takes the screenshot of the README: the overview of the dashboard under load.
//!
//! It is written to `docs/images/dashboard.png`. Run it with `make screenshot`.

use std::f64::consts::TAU;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::browser::Viewport;
use super::fixture::Dashboard;
use super::http::send_request;

const RULES: &str = "lists:
  allow: [\"client.ip in 10.0.0.0/8\"]
  deny: [\"client.ip in 192.0.2.0/28\"]
rules:
  - name: per-client
    key: client.ip
    limits: [{ token_bucket: 12/s, burst: 24 }]
    ban: { after: 150, within: 30s, for: 10m }
  - name: login
    match: POST /login
    key: client.ip
    limits: [10/1m]
  - name: checkout
    match: POST /checkout
    limits: [{ leaky_bucket: 8/s, queue: 40 }]
  - name: search
    match: GET /search
    limits: [60/1s]
  - name: api-total
    match: /api/**
    limits: [{ token_bucket: 80/s, burst: 120 }]
  - name: stricter-per-client
    key: client.ip
    limits: [6/1s]
    mode: shadow
  - name: overload
    adaptive: auto
";

/// Time of the load before the dashboard is opened.
const WARM_UP: Duration = Duration::from_secs(2);

/// Time between opening the dashboard and the picture. The charts show one minute.
const OBSERVED: Duration = Duration::from_secs(58);

/// Maximum duration of the load.
const LOAD_DURATION: Duration = Duration::from_secs(75);

/// Maximum size of the picture, in bytes.
const MAX_PICTURE_BYTES: usize = 400_000;

/// A client that sends requests at a rate that varies over time.
#[derive(Clone, Copy)]
struct Client {
    address: &'static str,
    method: &'static str,
    path: &'static str,
    /// Mean number of requests per second.
    rate: f64,
    /// Relative amplitude of the variation.
    variation: f64,
    /// Period of the variation in seconds.
    period: f64,
    /// Start and end, in seconds.
    active: (f64, f64),
}

const ALWAYS: (f64, f64) = (0.0, f64::MAX);

const CLIENTS: [Client; 15] = [
    client("203.0.113.10", "GET", "/api/items", 9.0, 0.5, 23.0, ALWAYS),
    client("203.0.113.24", "GET", "/api/items", 8.0, 0.6, 17.0, ALWAYS),
    client("203.0.113.31", "GET", "/api/cart", 7.0, 0.4, 31.0, ALWAYS),
    client("203.0.113.47", "GET", "/search", 9.0, 0.7, 19.0, ALWAYS),
    client("203.0.113.52", "GET", "/search", 8.0, 0.8, 13.0, ALWAYS),
    client("198.51.100.7", "GET", "/search", 6.0, 0.5, 27.0, ALWAYS),
    client("198.51.100.19", "GET", "/api/orders", 9.0, 0.6, 21.0, ALWAYS),
    client("198.51.100.88", "POST", "/login", 0.6, 0.5, 11.0, ALWAYS),
    client("203.0.113.63", "POST", "/checkout", 5.0, 0.9, 16.0, ALWAYS),
    client("203.0.113.64", "POST", "/checkout", 5.0, 0.9, 16.0, ALWAYS),
    client("10.0.0.3", "GET", "/healthz", 2.0, 0.0, 10.0, ALWAYS),
    client("192.0.2.5", "GET", "/api/items", 3.0, 0.5, 10.0, ALWAYS),
    // A client over its limit, and two that are banned for it.
    client("198.51.100.140", "GET", "/api/orders", 16.0, 0.2, 7.0, (36.0, f64::MAX)),
    client("192.0.2.44", "GET", "/api/export", 26.0, 0.35, 9.0, (14.0, 40.0)),
    client("192.0.2.200", "GET", "/api/items", 40.0, 0.25, 8.0, (24.0, f64::MAX)),
];

const fn client(
    address: &'static str,
    method: &'static str,
    path: &'static str,
    rate: f64,
    variation: f64,
    period: f64,
    active: (f64, f64),
) -> Client {
    Client { address, method, path, rate, variation, period, active }
}

impl Client {
    /// Sends requests until the load ends. Each runs on its own thread, because a queued request takes a while.
    fn run(self, gateway: SocketAddr, start: Instant) -> JoinHandle<()> {
        thread::spawn(move || {
            while start.elapsed() < LOAD_DURATION {
                let seconds = start.elapsed().as_secs_f64();
                if seconds < self.active.0 || seconds > self.active.1 {
                    thread::sleep(Duration::from_millis(100));
                    continue;
                }
                let wave = 1.0 + self.variation * (TAU * seconds / self.period).sin();
                thread::spawn(move || {
                    let headers = [("x-forwarded-for", self.address)];
                    drop(send_request(gateway, self.method, self.path, &headers, ""));
                });
                thread::sleep(Duration::from_secs_f64(1.0 / (self.rate * wave).max(0.2)));
            }
        })
    }
}

#[test]
#[ignore = "writes docs/images/dashboard.png; run it with `make screenshot`"]
fn take_readme_screenshot() {
    let dashboard = Dashboard::start(RULES);
    let start = Instant::now();
    let clients = CLIENTS.map(|client| client.run(dashboard.gateway, start));
    thread::sleep(WARM_UP);
    let viewport = Viewport { width: 1280, height: 800, ..Viewport::WIDE };
    let browser = dashboard.open_dashboard(viewport);
    browser.wait_for_text("main", "per-client");
    thread::sleep(OBSERVED);
    let picture = browser.capture_viewport(viewport, 2);
    browser.save_screenshot("readme");
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(picture.len() < MAX_PICTURE_BYTES, "{} bytes", picture.len());
    fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images/dashboard.png"), picture).unwrap();
}
