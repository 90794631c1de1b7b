//! Every kind of rule, from a rule file through the gateway.

use crate::support;

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_engine::clock::ManualClock;
use sluicegate_testkit::servers::RedisServer;
use support::file::gateway_yaml;
use support::raw::{Client, RawResponse};
use support::scripted::{Latch, ScriptedServer};
use support::upstream::Upstream;
use support::{TestGateway, proxy_yaml, wait_until};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A gateway with one rule and a manual clock.
struct Fixture {
    upstream: Upstream,
    gateway: TestGateway,
    clock: ManualClock,
}

impl Fixture {
    fn with(rules: &str) -> Self {
        Self::in_front_of(Upstream::returning("hello"), rules)
    }

    fn in_front_of(upstream: Upstream, rules: &str) -> Self {
        let clock = ManualClock::new();
        let gateway = TestGateway::with_clock(&proxy_yaml(&[upstream.at], rules), clock.clone());
        Self { upstream, gateway, clock }
    }

    fn client(&self) -> Client {
        Client::connect(self.gateway.at)
    }

    /// The statuses of this many requests, one after the other.
    fn statuses(&self, requests: usize) -> Vec<u16> {
        let mut client = self.client();
        (0..requests).map(|_| client.get("/").status).collect()
    }

    /// Number of requests queued at the first rule.
    fn waiting(&self) -> usize {
        self.gateway.running().sluice().counts()[0].waiting
    }

    /// Sends a request that is queued.
    fn enqueue(&self) -> Client {
        let before = self.waiting();
        let mut client = self.client();
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        wait_until("one more is queued", || self.waiting() == before + 1);
        client
    }
}

/// Sends a request with these headers and body; returns the response.
fn send_request(client: &mut Client, method: &str, path: &str, lines: &str, body: &str) -> RawResponse {
    let length = body.len();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: shop\r\n{lines}Content-Length: {length}\r\n\r\n{body}"));
    client.read_response().expect("a response")
}

/// The remaining quota reported by the response.
fn remaining(response: &RawResponse) -> u64 {
    let header = response.header("ratelimit").unwrap_or_else(|| panic!("{response:?}"));
    header.split(";r=").nth(1).unwrap().split(';').next().unwrap().parse().unwrap()
}

#[test]
fn a_sliding_window_admits_no_more_than_its_limit() {
    let bench = Fixture::with("rules: [{ name: three, limits: [3/1m] }]");
    assert_eq!(bench.statuses(5), [200, 200, 200, 429, 429]);
    bench.clock.advance(MINUTE - SECOND);
    assert_eq!(bench.statuses(1), [429]);
    // The window slides in tenths of its length.
    bench.clock.advance(SECOND + MINUTE / 10);
    assert_eq!(bench.statuses(4), [200, 200, 200, 429]);
    assert_eq!(bench.upstream.requests(), 6);
}

#[test]
fn a_fixed_window_resets() {
    let bench = Fixture::with("rules: [{ name: two, limits: [{ fixed_window: 2/1m, align: first_use }] }]");
    assert_eq!(bench.statuses(3), [200, 200, 429]);
    bench.clock.advance(MINUTE);
    assert_eq!(bench.statuses(3), [200, 200, 429]);
}

#[test]
fn a_burst_passes_immediately_and_refills_at_the_rate() {
    let bench = Fixture::with("rules: [{ name: burst, limits: [{ token_bucket: 2/s, burst: 4 }] }]");
    assert_eq!(bench.statuses(5), [200, 200, 200, 200, 429]);
    bench.clock.advance(SECOND / 2);
    assert_eq!(bench.statuses(2), [200, 429]);
}

#[test]
fn a_log_is_exact_to_the_nanosecond() {
    let bench = Fixture::with("rules: [{ name: two, limits: [{ sliding_log: 2/1m }] }]");
    assert_eq!(bench.statuses(1), [200]);
    bench.clock.advance(10 * SECOND);
    assert_eq!(bench.statuses(2), [200, 429]);
    bench.clock.advance(50 * SECOND - Duration::from_nanos(1));
    assert_eq!(bench.statuses(1), [429]);
    bench.clock.advance(Duration::from_nanos(1));
    assert_eq!(bench.statuses(2), [200, 429], "the first of the two is a minute old");
    bench.clock.advance(10 * SECOND);
    assert_eq!(bench.statuses(2), [200, 429]);
}

/// A plain bucket is decided on the fast path, a rule with a ban by a full decision: for every request, both
/// give the same bytes.
#[test]
fn the_fast_path_renders_the_same_refusal() {
    let rule = "name: burst, key: client.ip, limits: [{ token_bucket: 1/1m, burst: 1 }]";
    let plain = Fixture::with(&format!("rules: [{{ {rule} }}]"));
    let banning = Fixture::with(&format!("rules: [{{ {rule}, ban: {{ after: 1000, within: 1m, for: 1m }} }}]"));
    for bench in [&plain, &banning] {
        assert_eq!(bench.statuses(2), [200, 429]);
        bench.clock.advance(SECOND / 2);
    }
    let expecting = "POST / HTTP/1.1\r\nHost: shop\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    for (request, stays_open) in [
        ("GET / HTTP/1.1\r\nHost: shop\r\n\r\n", true),
        ("HEAD / HTTP/1.1\r\nHost: shop\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n", false),
        ("GET / HTTP/1.0\r\n\r\n", false),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true),
        ("POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 3\r\n\r\nabc", true),
        ("POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 9999\r\n\r\nabc", false),
        ("POST / HTTP/1.1\r\nHost: shop\r\nContent-Type: application/grpc\r\n\r\n", true),
        (expecting, false),
    ] {
        let [plain, banning] = [&plain, &banning].map(|bench| {
            let mut client = bench.client();
            client.send(request);
            if stays_open {
                client.send("GET /next HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n");
            }
            let text = String::from_utf8(client.rest()).unwrap();
            text.lines().filter(|line| !line.starts_with("date: ")).collect::<Vec<_>>().join("\n")
        });
        assert_eq!(plain, banning, "{request}");
        assert_eq!(plain.matches("HTTP/1.1 ").count(), 1 + usize::from(stays_open), "{plain}");
    }
    let counts = [&plain, &banning].map(|bench| bench.gateway.running().sluice().counts());
    assert_eq!(counts[0], counts[1]);
    assert_eq!(plain.upstream.requests(), 1);
}

#[test]
fn a_leaky_bucket_drains_its_queue_at_its_rate() {
    let bench = Fixture::with("rules: [{ name: line, limits: [{ leaky_bucket: 2/s, queue: 3 }] }]");
    assert_eq!(bench.statuses(1), [200]);
    let admitted = || bench.gateway.running().sluice().counts()[0].admitted;
    let mut line = [bench.client(), bench.client()];
    for (number, client) in (2..).zip(&mut line) {
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        wait_until("it is queued", || admitted() == number);
    }
    assert_eq!(bench.statuses(1), [429], "the queue is full");
    for (sent, client) in (1..).zip(&mut line) {
        bench.clock.advance(SECOND / 2 - Duration::from_nanos(1));
        assert_eq!(bench.upstream.requests(), sent);
        bench.clock.advance(Duration::from_nanos(1));
        assert_eq!(client.read_response().unwrap().status, 200);
    }
}

#[test]
fn requests_that_would_wait_too_long_are_refused_immediately() {
    let queue = "on_limit: { queue: { max_wait: 1500ms, max_waiting: 10 }, then: { status: 503, body: later } }";
    let bench = Fixture::with(&format!("rules: [{{ name: q, limits: [{{ token_bucket: 1/s, burst: 1 }}], {queue} }}]"));
    assert_eq!(bench.statuses(1), [200]);
    let mut waiting = bench.enqueue();
    let refused = bench.client().get("/");
    assert_eq!((refused.status, refused.text().as_str()), (503, "later"));
    bench.clock.advance(SECOND);
    assert_eq!(waiting.read_response().unwrap().status, 200);
    assert_eq!(bench.upstream.requests(), 2);
}

#[test]
fn several_limits_hold_together() {
    let bench = Fixture::with("rules: [{ name: both, limits: [3/1m, { token_bucket: 1/s, burst: 2 }] }]");
    assert_eq!(bench.statuses(3), [200, 200, 429]);
    bench.clock.advance(5 * SECOND);
    // The bucket has two tokens again, the window only one.
    assert_eq!(bench.statuses(2), [200, 429]);
    let bench = Fixture::with("rules: [{ name: a, limits: [5/1m] }, { name: b, match: GET /, limits: [2/1m] }]");
    assert_eq!(bench.statuses(3), [200, 200, 429]);
    assert_eq!(bench.client().get("/other").status, 200);
}

/// A server that starts its responses and finishes them once the latch is open.
fn latched() -> (ScriptedServer, Latch) {
    let latch = Latch::default();
    let server = {
        let latch = latch.clone();
        ScriptedServer::new(move |connection| {
            while connection.request() {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegun");
                latch.wait();
                connection.send("ended");
            }
        })
    };
    (server, latch)
}

#[test]
fn a_permit_is_held_until_the_response_ends() {
    let (server, latch) = latched();
    let rules = "rules: [{ name: one, key: \"header['x-account']\", limits: [{ concurrency: 1 }] }]";
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], rules));
    let mut first = Client::connect(gateway.at);
    first.send("GET / HTTP/1.1\r\nHost: shop\r\nX-Account: a\r\n\r\n");
    let mut start = [0; 1];
    first.stream.read_exact(&mut start).unwrap();
    let mut second = Client::connect(gateway.at);
    for _ in 0..3 {
        let refused = send_request(&mut second, "GET", "/", "X-Account: a\r\n", "");
        assert_eq!(refused.status, 429);
    }
    let mut other = Client::connect(gateway.at);
    other.send("GET / HTTP/1.1\r\nHost: shop\r\nX-Account: b\r\n\r\n");
    wait_until("another key is served", || server.requests().len() == 2);
    latch.open();
    assert_eq!(other.read_response().unwrap().text(), "begunended");
    wait_until("the permit is released", || {
        send_request(&mut second, "GET", "/", "X-Account: a\r\n", "").status == 200
    });
}

#[test]
fn streams_of_one_connection_count_each() {
    let (server, latch) = latched();
    let rules = "rules: [{ name: two, key: client.ip, limits: [{ concurrency: 2 }] }]";
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], rules));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(gateway.at).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        let request =
            || Request::get(format!("http://shop.example:{}/", gateway.at.port())).body(Empty::new()).unwrap();
        let mut start = Vec::new();
        for _ in 0..2 {
            let response = sender.send_request(request()).await.unwrap();
            assert_eq!(response.status(), 200);
            start.push(response);
        }
        assert_eq!(sender.send_request(request()).await.unwrap().status(), 429);
        latch.open();
        for response in start {
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "begunended");
        }
        assert_eq!(sender.send_request(request()).await.unwrap().status(), 200);
    });
}

#[test]
fn connections_of_a_client_are_bounded() {
    let upstream = Upstream::returning("hello");
    let route = format!("upstreams: {{ shop: \"http://{}\" }}\nroutes: [{{ path: /, upstream: shop }}]", upstream.at);
    let gateway =
        TestGateway::from_yaml(&gateway_yaml(&format!("connections: {{ max: 100, per_client: 2 }}\n{route}"), ""));
    let mut two: Vec<Client> = (0..2).map(|_| Client::connect(gateway.at)).collect();
    assert!(two.iter_mut().all(|client| client.get("/").status == 200));
    let mut third = Client::connect(gateway.at);
    assert_eq!(third.read_response().unwrap().status, 503);
    assert_eq!(gateway.running().stats().listener().counts().rejected.per_client, 1);
    drop(two.pop());
    wait_until("the buffer has space", || gateway.running().stats().listener().counts().open < 2);
    assert_eq!(Client::connect(gateway.at).get("/").status, 200);
}

#[test]
fn connections_queue_and_beyond_the_queue_are_refused() {
    let upstream = Upstream::returning("hello");
    let route = format!("upstreams: {{ shop: \"http://{}\" }}\nroutes: [{{ path: /, upstream: shop }}]", upstream.at);
    let gateway = TestGateway::from_yaml(&gateway_yaml(&format!("connections: {{ max: 1, queue: 1 }}\n{route}"), ""));
    let mut first = Client::connect(gateway.at);
    assert_eq!(first.get("/").status, 200);
    let mut second = Client::connect(gateway.at);
    wait_until("the request waits", || gateway.running().stats().listener().counts().queued == 1);
    let mut third = Client::connect(gateway.at);
    assert_eq!(third.read_response().unwrap().status, 503);
    second.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    drop(first);
    assert_eq!(second.read_response().unwrap().status, 200);
}

#[test]
fn requests_in_flight_are_bounded_and_others_queue() {
    let (server, latch) = latched();
    let route = format!("upstreams: {{ shop: \"http://{}\" }}\nroutes: [{{ path: /, upstream: shop }}]", server.at);
    let gateway = TestGateway::from_yaml(&gateway_yaml(&format!("max_in_flight: 2\n{route}"), ""));
    let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(gateway.at)).collect();
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n"));
    wait_until("three requests are queued", || gateway.running().stats().listener().counts().requests_queued == 3);
    wait_until("two are in flight", || server.requests().len() == 2);
    latch.open();
    assert!(clients.iter_mut().all(|client| client.read_response().unwrap().text() == "begunended"));
    wait_until("no request is in flight", || gateway.running().stats().listener().counts().in_flight == 0);
}

#[test]
fn bytes_of_a_key_are_paced_on_all_its_connections_together() {
    const BODY: usize = 8 << 10;
    let upstream = Upstream::new(|_| async { Response::new(Bytes::from(vec![b'x'; BODY])) });
    let rules = "rules: [{ name: pace, key: \"header['x-account']\", limits: [{ bandwidth: 1KiB/s, burst: 2KiB }] }]";
    let bench = Fixture::in_front_of(upstream, rules);
    let mut clients: Vec<Client> = (0..3).map(|_| bench.client()).collect();
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: shop\r\nX-Account: a\r\n\r\n"));
    for client in &clients {
        client.stream.set_nonblocking(true).unwrap();
    }
    let mut read = vec![0; 3];
    let mut buffer = vec![0; 64 << 10];
    let mut more = || {
        for (client, read) in clients.iter_mut().zip(&mut read) {
            while let Ok(length @ 1..) = client.stream.read(&mut buffer) {
                // Heads contain an x only in header names.
                *read += buffer[..length].iter().rev().take_while(|byte| **byte == b'x').count();
            }
        }
        read.iter().sum::<usize>()
    };
    let paced = || usize::try_from(bench.gateway.running().sluice().counts()[0].bytes).unwrap();
    for second in 0..4 {
        let bound = (2 + second) << 10;
        // A few bytes do not get a write of their own.
        wait_until("what may pass has passed", || more() + 64 >= bound);
        assert!(more() <= bound && paced() <= bound, "after {second} s");
        bench.clock.advance(SECOND);
    }
    // Another client is not slowed down.
    let mut other = bench.client();
    other.send("GET / HTTP/1.1\r\nHost: shop\r\nX-Account: b\r\n\r\n");
    wait_until("the other key has its own", || paced() > 7 << 10);
}

#[test]
fn the_cost_can_come_from_a_request_header() {
    let bench = Fixture::with("rules: [{ name: tokens, limits: [10/1h], cost: \"header['x-tokens']\" }]");
    let mut client = bench.client();
    let mut spend = |tokens: u32| send_request(&mut client, "GET", "/", &format!("X-Tokens: {tokens}\r\n"), "").status;
    assert_eq!([spend(7), spend(4), spend(3), spend(1), spend(11)], [200, 429, 200, 429, 429]);
    let bench = Fixture::with("rules: [{ name: bytes, limits: [10/1h], cost: \"header['content-length']\" }]");
    let mut client = bench.client();
    let mut send = |body: &str| send_request(&mut client, "POST", "/", "", body).status;
    assert_eq!([send("1234567"), send("1234"), send("123"), send("1")], [200, 429, 200, 429]);
}

#[test]
fn actual_cost_is_settled_when_the_response_ends() {
    let events = "data: {\"usage\": null}\n\ndata: {\"usage\":{\"total_tokens\":30}}\n\ndata: [DONE]\n\n";
    for (actual, kind, text) in [
        ("response.bytes", "text/plain", "123456789012345678901234567890"),
        ("request.bytes", "text/plain", ""),
        ("response.header['x-tokens']", "text/plain", "any"),
        ("response.json['usage.total_tokens']", "application/json", "{\"a\":[1],\"usage\":{\"total_tokens\":30}}"),
        ("response.json['usage.total_tokens']", "text/event-stream", events),
    ] {
        let upstream = Upstream::new(move |_| async move {
            let mut response = Response::new(Bytes::from_static(text.as_bytes()));
            response.headers_mut().insert("content-type", kind.parse().unwrap());
            response.headers_mut().insert("x-tokens", "30".parse().unwrap());
            response
        });
        let rules = format!("rules: [{{ name: t, limits: [100/1h], cost: {{ estimate: 50, actual: \"{actual}\" }} }}]");
        let bench = Fixture::in_front_of(upstream, &rules);
        let mut client = bench.client();
        let mut send = || send_request(&mut client, "POST", "/", "", "123456789012345678901234567890");
        // Fifty are reserved and thirty used: 70 remain, minus the next reservation.
        let responses = [send(), send(), send()];
        assert_eq!(responses.each_ref().map(|response| response.status), [200, 200, 429], "{actual} {kind}");
        assert_eq!([remaining(&responses[0]), remaining(&responses[1])], [50, 20], "{actual} {kind}");
    }
}

#[test]
fn repeated_refusals_lead_to_a_ban() {
    let bench = Fixture::with(
        "rules: [{ name: one, key: client.ip, limits: [1/1s], ban: { after: 2 refusals in 1m, for: 10m } }]",
    );
    assert_eq!(bench.statuses(3), [200, 429, 429]);
    bench.clock.advance(5 * SECOND);
    let banned = bench.client().get("/");
    assert_eq!(banned.status, 429);
    assert!(banned.text().contains("banned"), "{}", banned.text());
    assert_eq!(bench.gateway.running().sluice().counts()[0].banned, 1);
    bench.clock.advance(10 * MINUTE);
    assert_eq!(bench.statuses(1), [200]);
}

#[test]
fn lists_come_before_rules() {
    let lists = "lists: { allow: [\"header['x-who'] == 'friend'\"], deny: [\"header['x-who'] in ['foe', 'friend']\"] }";
    let bench = Fixture::with(&format!("{lists}\nrules: [{{ name: one, limits: [1/1h] }}]"));
    let mut client = bench.client();
    let mut status_for = |who: &str| send_request(&mut client, "GET", "/", &format!("X-Who: {who}\r\n"), "").status;
    assert_eq!([status_for("friend"), status_for("friend"), status_for("foe")], [200, 200, 403]);
    assert_eq!([status_for("any"), status_for("any"), status_for("friend")], [200, 429, 200]);
}

#[test]
fn a_shadow_rule_counts_and_refuses_nothing() {
    let bench = Fixture::with("rules: [{ name: trial, limits: [1/1h], mode: shadow }]");
    assert_eq!(bench.statuses(4), [200; 4]);
    let counts = bench.gateway.running().sluice().counts();
    assert_eq!((counts[0].admitted, counts[0].refused), (1, 3));
}

#[test]
fn over_the_limit_the_configured_reply_is_sent() {
    let folder = std::env::temp_dir().join(format!("sluicegate-degrade-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("busy.html"), "<p>busy</p>").unwrap();
    for (on_limit, status, kind, text) in [
        ("{ degrade: { status: 200, json: { items: [] } } }", 200, Some("application/json"), "{\"items\":[]}"),
        ("{ degrade: { status: 203, body: old, headers: { x-degraded: \"yes\" } } }", 203, None, "old"),
        ("{ degrade: { file: busy.html } }", 200, Some("text/html"), "<p>busy</p>"),
        ("{ status: 503, json: { error: busy } }", 503, Some("application/json"), "{\"error\":\"busy\"}"),
        ("{ redirect: { location: \"/busy\", status: 307 } }", 307, None, ""),
    ] {
        let upstream = Upstream::returning("hello");
        let file =
            proxy_yaml(&[upstream.at], &format!("rules: [{{ name: one, limits: [1/1h], on_limit: {on_limit} }}]"));
        std::fs::write(folder.join("rules.yaml"), file).unwrap();
        let settings =
            sluicegate_config::load(folder.join("rules.yaml")).unwrap_or_else(|report| panic!("{report}")).settings;
        let sluice = sluicegate::enforce(settings.clone()).unwrap();
        let gateway = TestGateway::with_sluice(&folder, &settings, sluice);
        let mut client = Client::connect(gateway.at);
        assert_eq!(client.get("/").status, 200);
        let response = client.get("/");
        assert_eq!(response.status, status, "{on_limit}");
        assert!(response.text().starts_with(text), "{on_limit}: {}", response.text());
        let of_kind = response.header("content-type").unwrap_or_default();
        assert!(kind.is_none_or(|kind| of_kind.starts_with(kind)), "{on_limit}: {of_kind}");
        if on_limit.contains("redirect") {
            assert_eq!(response.header("location"), Some("/busy"));
        }
        if on_limit.contains("x-degraded") {
            assert_eq!(response.header("x-degraded"), Some("yes"));
        }
        assert_eq!(upstream.requests(), 1);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn rules_match_services_and_path_parameters() {
    let (shop, bank) = (Upstream::returning("shop"), Upstream::returning("bank"));
    let routes = format!(
        "upstreams: {{ shop: \"http://{}\", bank: \"http://{}\" }}\n\
         routes: [{{ path: \"/shop/{{*rest}}\", upstream: shop }}, {{ path: \"/{{*rest}}\", upstream: bank }}]",
        shop.at, bank.at
    );
    let rules = "rules: [{ name: shop, match: service shop, limits: [2/1h] }, \
                 { name: user, match: \"GET /users/{id}/**\", key: \"param['id']\", limits: [1/1h] }]";
    let gateway = TestGateway::from_yaml(&gateway_yaml(&routes, rules));
    let mut client = Client::connect(gateway.at);
    let mut statuses = |paths: &[&str]| paths.iter().map(|path| client.get(path).status).collect::<Vec<_>>();
    assert_eq!(statuses(&["/shop/a", "/shop/b", "/shop/c", "/bank"]), [200, 200, 429, 200]);
    assert_eq!(statuses(&["/users/1/x", "/users/1/y", "/users/2/x", "/users//%31/z"]), [200, 429, 200, 429]);
    // Path scans are limited too.
    let gateway = TestGateway::from_yaml(&gateway_yaml(
        "routes: [{ path: /known, respond: { status: 200 } }]",
        "rules: [{ name: all, limits: [3/1h] }]",
    ));
    let mut client = Client::connect(gateway.at);
    let mut statuses = |paths: &[&str]| paths.iter().map(|path| client.get(path).status).collect::<Vec<_>>();
    assert_eq!(statuses(&["/known", "/a", "/b", "/c", "/known"]), [200, 404, 404, 429, 429]);
}

#[test]
fn two_gateways_on_one_store_count_together() {
    let redis = RedisServer::start().unwrap();
    let upstream = Upstream::returning("hello");
    let rules = format!(
        "store: {{ url: \"{}\", timeout: 10s }}\nrules: [{{ name: five, limits: [5/1h], scope: cluster }}]",
        redis.url()
    );
    let settings = sluicegate_config::parse("rules.yaml", &proxy_yaml(&[upstream.at], &rules)).unwrap().settings;
    let gateway = [(); 2]
        .map(|()| TestGateway::with_sluice(Path::new("."), &settings, sluicegate::enforce(settings.clone()).unwrap()));
    let mut clients = gateway.each_ref().map(|gateway| Client::connect(gateway.at));
    let statuses: Vec<u16> = (0..8).map(|number| clients[number % 2].get("/").status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
    assert!(gateway.iter().all(|gateway| gateway.running().sluice().counts()[0].degraded == 0));
}

#[test]
fn headers_use_the_configured_style() {
    for (style, present, absent) in [
        ("ietf", &["ratelimit", "ratelimit-policy"][..], &["ratelimit-limit", "x-ratelimit-limit"][..]),
        ("legacy", &["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"], &["ratelimit", "x-ratelimit-limit"]),
        ("x", &["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"], &["ratelimit", "ratelimit-limit"]),
        ("none", &[], &["ratelimit", "ratelimit-limit", "x-ratelimit-limit"]),
    ] {
        let bench = Fixture::with(&format!("headers: {style}\nrules: [{{ name: one, limits: [1/1h] }}]"));
        let mut client = bench.client();
        for status in [200, 429] {
            let response = client.get("/");
            assert_eq!(response.status, status);
            assert!(present.iter().all(|name| response.header(name).is_some()), "{style}: {response:?}");
            assert!(absent.iter().all(|name| response.header(name).is_none()), "{style}: {response:?}");
            assert_eq!(response.header("retry-after").is_some(), status == 429);
        }
    }
}
