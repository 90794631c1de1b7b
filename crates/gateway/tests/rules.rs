//! Every kind of rule through the gateway, from a rule file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_engine::clock::ManualClock;
use sluicegate_testkit::servers::RedisServer;
use support::file::gateway;
use support::raw::{Answer, Client};
use support::scripted::{Latch, Scripted};
use support::upstream::Upstream;
use support::{Served, before, until};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A gateway with one rule, whose time stands still unless it is moved.
struct Bench {
    upstream: Upstream,
    served: Served,
    clock: ManualClock,
}

impl Bench {
    fn with(rules: &str) -> Self {
        Self::before(Upstream::saying("hello"), rules)
    }

    fn before(upstream: Upstream, rules: &str) -> Self {
        let clock = ManualClock::new();
        let served = Served::with_clock(&before(&[upstream.at], rules), clock.clone());
        Self { upstream, served, clock }
    }

    fn client(&self) -> Client {
        Client::connect(self.served.at)
    }

    /// The statuses of so many requests, one after the other.
    fn statuses(&self, requests: usize) -> Vec<u16> {
        let mut client = self.client();
        (0..requests).map(|_| client.get("/").status).collect()
    }

    /// How many wait for their turn at the first rule.
    fn waiting(&self) -> usize {
        self.served.running().sluice().counts()[0].waiting
    }

    /// Sends a request that has to wait for its turn.
    fn wait_in_line(&self) -> Client {
        let before = self.waiting();
        let mut client = self.client();
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        until("one more waits", || self.waiting() == before + 1);
        client
    }
}

/// A request with these further lines and a body, answered.
fn ask(client: &mut Client, method: &str, path: &str, lines: &str, body: &str) -> Answer {
    let length = body.len();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: shop\r\n{lines}Content-Length: {length}\r\n\r\n{body}"));
    client.answer().expect("an answer")
}

/// What the answer says is left.
fn left(answer: &Answer) -> u64 {
    let told = answer.header("ratelimit").unwrap_or_else(|| panic!("{answer:?}"));
    told.split(";r=").nth(1).unwrap().split(';').next().unwrap().parse().unwrap()
}

#[test]
fn a_sliding_window_lets_no_more_in_than_it_says() {
    let bench = Bench::with("rules: [{ name: three, limits: [3/1m] }]");
    assert_eq!(bench.statuses(5), [200, 200, 200, 429, 429]);
    bench.clock.advance(MINUTE - SECOND);
    assert_eq!(bench.statuses(1), [429]);
    // It slides in tenths of itself.
    bench.clock.advance(SECOND + MINUTE / 10);
    assert_eq!(bench.statuses(4), [200, 200, 200, 429]);
    assert_eq!(bench.upstream.requests(), 6);
}

#[test]
fn a_fixed_window_begins_anew() {
    let bench = Bench::with("rules: [{ name: two, limits: [{ fixed_window: 2/1m, align: first_use }] }]");
    assert_eq!(bench.statuses(3), [200, 200, 429]);
    bench.clock.advance(MINUTE);
    assert_eq!(bench.statuses(3), [200, 200, 429]);
}

#[test]
fn a_burst_passes_at_once_and_comes_back_at_the_rate() {
    let bench = Bench::with("rules: [{ name: burst, limits: [{ token_bucket: 2/s, burst: 4 }] }]");
    assert_eq!(bench.statuses(5), [200, 200, 200, 200, 429]);
    bench.clock.advance(SECOND / 2);
    assert_eq!(bench.statuses(2), [200, 429]);
}

#[test]
fn a_log_is_exact_to_the_nanosecond() {
    let bench = Bench::with("rules: [{ name: two, limits: [{ sliding_log: 2/1m }] }]");
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

/// Who runs into a plain bucket is refused in few words, and whoever may be banned for it by a full decision: on the wire
/// both are the same, whatever was asked.
#[test]
fn a_refusal_reads_the_same_whichever_way_it_was_decided() {
    let rule = "name: burst, key: client.ip, limits: [{ token_bucket: 1/1m, burst: 1 }]";
    let plain = Bench::with(&format!("rules: [{{ {rule} }}]"));
    let banning = Bench::with(&format!("rules: [{{ {rule}, ban: {{ after: 1000, within: 1m, for: 1m }} }}]"));
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
    let counts = [&plain, &banning].map(|bench| bench.served.running().sluice().counts());
    assert_eq!(counts[0], counts[1]);
    assert_eq!(plain.upstream.requests(), 1);
}

#[test]
fn a_leaky_bucket_lets_its_line_out_at_its_pace() {
    let bench = Bench::with("rules: [{ name: line, limits: [{ leaky_bucket: 2/s, queue: 3 }] }]");
    assert_eq!(bench.statuses(1), [200]);
    let admitted = || bench.served.running().sluice().counts()[0].admitted;
    let mut line = [bench.client(), bench.client()];
    for (number, client) in (2..).zip(&mut line) {
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        until("it has its place in the line", || admitted() == number);
    }
    assert_eq!(bench.statuses(1), [429], "the line is full");
    for (sent, client) in (1..).zip(&mut line) {
        bench.clock.advance(SECOND / 2 - Duration::from_nanos(1));
        assert_eq!(bench.upstream.requests(), sent);
        bench.clock.advance(Duration::from_nanos(1));
        assert_eq!(client.answer().unwrap().status, 200);
    }
}

#[test]
fn who_would_wait_too_long_is_refused_at_once() {
    let queue = "on_limit: { queue: { max_wait: 1500ms, max_waiting: 10 }, then: { status: 503, body: later } }";
    let bench = Bench::with(&format!("rules: [{{ name: q, limits: [{{ token_bucket: 1/s, burst: 1 }}], {queue} }}]"));
    assert_eq!(bench.statuses(1), [200]);
    let mut waiting = bench.wait_in_line();
    let refused = bench.client().get("/");
    assert_eq!((refused.status, refused.text().as_str()), (503, "later"));
    bench.clock.advance(SECOND);
    assert_eq!(waiting.answer().unwrap().status, 200);
    assert_eq!(bench.upstream.requests(), 2);
}

#[test]
fn several_limits_hold_together() {
    let bench = Bench::with("rules: [{ name: both, limits: [3/1m, { token_bucket: 1/s, burst: 2 }] }]");
    assert_eq!(bench.statuses(3), [200, 200, 429]);
    bench.clock.advance(5 * SECOND);
    // The bucket has two again, the window only one.
    assert_eq!(bench.statuses(2), [200, 429]);
    let bench = Bench::with("rules: [{ name: a, limits: [5/1m] }, { name: b, match: GET /, limits: [2/1m] }]");
    assert_eq!(bench.statuses(3), [200, 200, 429]);
    assert_eq!(bench.client().get("/other").status, 200);
}

/// A server that begins its answers, and ends them when it is let.
fn hesitant() -> (Scripted, Latch) {
    let latch = Latch::default();
    let server = {
        let latch = latch.clone();
        Scripted::new(move |caller| {
            while caller.request() {
                caller.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegun");
                latch.wait();
                caller.send("ended");
            }
        })
    };
    (server, latch)
}

#[test]
fn a_permit_is_held_until_the_answer_has_ended() {
    let (server, latch) = hesitant();
    let rules = "rules: [{ name: one, key: \"header['x-account']\", limits: [{ concurrency: 1 }] }]";
    let served = Served::of(&before(&[server.at], rules));
    let mut first = Client::connect(served.at);
    first.send("GET / HTTP/1.1\r\nHost: shop\r\nX-Account: a\r\n\r\n");
    let mut begun = [0; 1];
    first.stream.read_exact(&mut begun).unwrap();
    let mut second = Client::connect(served.at);
    for _ in 0..3 {
        let refused = ask(&mut second, "GET", "/", "X-Account: a\r\n", "");
        assert_eq!(refused.status, 429);
    }
    let mut other = Client::connect(served.at);
    other.send("GET / HTTP/1.1\r\nHost: shop\r\nX-Account: b\r\n\r\n");
    until("another key is served", || server.requests().len() == 2);
    latch.open();
    assert_eq!(other.answer().unwrap().text(), "begunended");
    until("the permit is back", || ask(&mut second, "GET", "/", "X-Account: a\r\n", "").status == 200);
}

#[test]
fn streams_of_one_connection_count_each() {
    let (server, latch) = hesitant();
    let rules = "rules: [{ name: two, key: client.ip, limits: [{ concurrency: 2 }] }]";
    let served = Served::of(&before(&[server.at], rules));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(served.at).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        let request = || Request::get(format!("http://shop.example:{}/", served.at.port())).body(Empty::new()).unwrap();
        let mut begun = Vec::new();
        for _ in 0..2 {
            let answer = sender.send_request(request()).await.unwrap();
            assert_eq!(answer.status(), 200);
            begun.push(answer);
        }
        assert_eq!(sender.send_request(request()).await.unwrap().status(), 429);
        latch.open();
        for answer in begun {
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "begunended");
        }
        assert_eq!(sender.send_request(request()).await.unwrap().status(), 200);
    });
}

#[test]
fn connections_of_a_client_are_bounded() {
    let upstream = Upstream::saying("hello");
    let route = format!("upstreams: {{ shop: \"http://{}\" }}\nroutes: [{{ path: /, upstream: shop }}]", upstream.at);
    let served = Served::of(&gateway(&format!("connections: {{ max: 100, per_client: 2 }}\n{route}"), ""));
    let mut two: Vec<Client> = (0..2).map(|_| Client::connect(served.at)).collect();
    assert!(two.iter_mut().all(|client| client.get("/").status == 200));
    let mut third = Client::connect(served.at);
    assert_eq!(third.answer().unwrap().status, 503);
    assert_eq!(served.running().vitals().door().counts().refused.per_client, 1);
    drop(two.pop());
    until("there is room", || served.running().vitals().door().counts().open < 2);
    assert_eq!(Client::connect(served.at).get("/").status, 200);
}

#[test]
fn connections_wait_in_line_and_beyond_it_are_refused() {
    let upstream = Upstream::saying("hello");
    let route = format!("upstreams: {{ shop: \"http://{}\" }}\nroutes: [{{ path: /, upstream: shop }}]", upstream.at);
    let served = Served::of(&gateway(&format!("connections: {{ max: 1, queue: 1 }}\n{route}"), ""));
    let mut first = Client::connect(served.at);
    assert_eq!(first.get("/").status, 200);
    let mut second = Client::connect(served.at);
    until("it waits", || served.running().vitals().door().counts().queued == 1);
    let mut third = Client::connect(served.at);
    assert_eq!(third.answer().unwrap().status, 503);
    second.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    drop(first);
    assert_eq!(second.answer().unwrap().status, 200);
}

#[test]
fn requests_under_way_are_bounded_and_the_others_wait() {
    let (server, latch) = hesitant();
    let route = format!("upstreams: {{ shop: \"http://{}\" }}\nroutes: [{{ path: /, upstream: shop }}]", server.at);
    let served = Served::of(&gateway(&format!("in_flight: 2\n{route}"), ""));
    let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(served.at)).collect();
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n"));
    until("three wait", || served.running().vitals().door().counts().requests_waiting == 3);
    until("two are under way", || server.requests().len() == 2);
    latch.open();
    assert!(clients.iter_mut().all(|client| client.answer().unwrap().text() == "begunended"));
    until("nobody is under way", || served.running().vitals().door().counts().in_flight == 0);
}

#[test]
fn bytes_of_a_key_are_paced_on_all_its_connections_together() {
    const BODY: usize = 8 << 10;
    let upstream = Upstream::new(|_| async { Response::new(Bytes::from(vec![b'x'; BODY])) });
    let rules = "rules: [{ name: pace, key: \"header['x-account']\", limits: [{ bandwidth: 1KiB/s, burst: 2KiB }] }]";
    let bench = Bench::before(upstream, rules);
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
                // Heads have no x but in their names.
                *read += buffer[..length].iter().rev().take_while(|byte| **byte == b'x').count();
            }
        }
        read.iter().sum::<usize>()
    };
    let paced = || usize::try_from(bench.served.running().sluice().counts()[0].bytes).unwrap();
    for second in 0..4 {
        let bound = (2 + second) << 10;
        // A few bytes are not worth a piece of their own.
        until("what may pass has passed", || more() + 64 >= bound);
        assert!(more() <= bound && paced() <= bound, "after {second} s");
        bench.clock.advance(SECOND);
    }
    // Somebody else is not slowed down by it.
    let mut other = bench.client();
    other.send("GET / HTTP/1.1\r\nHost: shop\r\nX-Account: b\r\n\r\n");
    until("the other key has its own", || paced() > 7 << 10);
}

#[test]
fn what_a_request_says_it_costs() {
    let bench = Bench::with("rules: [{ name: tokens, limits: [10/1h], cost: \"header['x-tokens']\" }]");
    let mut client = bench.client();
    let mut spend = |tokens: u32| ask(&mut client, "GET", "/", &format!("X-Tokens: {tokens}\r\n"), "").status;
    assert_eq!([spend(7), spend(4), spend(3), spend(1), spend(11)], [200, 429, 200, 429, 429]);
    let bench = Bench::with("rules: [{ name: bytes, limits: [10/1h], cost: \"header['content-length']\" }]");
    let mut client = bench.client();
    let mut send = |body: &str| ask(&mut client, "POST", "/", "", body).status;
    assert_eq!([send("1234567"), send("1234"), send("123"), send("1")], [200, 429, 200, 429]);
}

#[test]
fn what_an_answer_cost_is_settled_when_it_has_ended() {
    let events = "data: {\"usage\": null}\n\ndata: {\"usage\":{\"total_tokens\":30}}\n\ndata: [DONE]\n\n";
    for (actual, kind, text) in [
        ("response.bytes", "text/plain", "123456789012345678901234567890"),
        ("request.bytes", "text/plain", ""),
        ("response.header['x-tokens']", "text/plain", "any"),
        ("response.json['usage.total_tokens']", "application/json", "{\"a\":[1],\"usage\":{\"total_tokens\":30}}"),
        ("response.json['usage.total_tokens']", "text/event-stream", events),
    ] {
        let upstream = Upstream::new(move |_| async move {
            let mut answer = Response::new(Bytes::from_static(text.as_bytes()));
            answer.headers_mut().insert("content-type", kind.parse().unwrap());
            answer.headers_mut().insert("x-tokens", "30".parse().unwrap());
            answer
        });
        let rules = format!("rules: [{{ name: t, limits: [100/1h], cost: {{ estimate: 50, actual: \"{actual}\" }} }}]");
        let bench = Bench::before(upstream, &rules);
        let mut client = bench.client();
        let mut send = || ask(&mut client, "POST", "/", "", "123456789012345678901234567890");
        // Fifty are reserved, thirty are spent: what is left then is 70, less the next reserve.
        let answers = [send(), send(), send()];
        assert_eq!(answers.each_ref().map(|answer| answer.status), [200, 200, 429], "{actual} {kind}");
        assert_eq!([left(&answers[0]), left(&answers[1])], [50, 20], "{actual} {kind}");
    }
}

#[test]
fn who_keeps_running_into_limits_is_banned() {
    let bench = Bench::with(
        "rules: [{ name: one, key: client.ip, limits: [1/1s], ban: { after: 2 refusals in 1m, for: 10m } }]",
    );
    assert_eq!(bench.statuses(3), [200, 429, 429]);
    bench.clock.advance(5 * SECOND);
    let banned = bench.client().get("/");
    assert_eq!(banned.status, 429);
    assert!(banned.text().contains("banned"), "{}", banned.text());
    assert_eq!(bench.served.running().sluice().counts()[0].banned, 1);
    bench.clock.advance(10 * MINUTE);
    assert_eq!(bench.statuses(1), [200]);
}

#[test]
fn lists_come_before_rules() {
    let lists = "lists: { allow: [\"header['x-who'] == 'friend'\"], deny: [\"header['x-who'] in ['foe', 'friend']\"] }";
    let bench = Bench::with(&format!("{lists}\nrules: [{{ name: one, limits: [1/1h] }}]"));
    let mut client = bench.client();
    let mut as_who = |who: &str| ask(&mut client, "GET", "/", &format!("X-Who: {who}\r\n"), "").status;
    assert_eq!([as_who("friend"), as_who("friend"), as_who("foe")], [200, 200, 403]);
    assert_eq!([as_who("any"), as_who("any"), as_who("friend")], [200, 429, 200]);
}

#[test]
fn a_rule_on_trial_counts_and_refuses_nobody() {
    let bench = Bench::with("rules: [{ name: trial, limits: [1/1h], mode: shadow }]");
    assert_eq!(bench.statuses(4), [200; 4]);
    let counts = bench.served.running().sluice().counts();
    assert_eq!((counts[0].admitted, counts[0].refused), (1, 3));
}

#[test]
fn over_the_limit_something_else_is_answered() {
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
        let upstream = Upstream::saying("hello");
        let file = before(&[upstream.at], &format!("rules: [{{ name: one, limits: [1/1h], on_limit: {on_limit} }}]"));
        std::fs::write(folder.join("rules.yaml"), file).unwrap();
        let settings =
            sluicegate_config::load(folder.join("rules.yaml")).unwrap_or_else(|report| panic!("{report}")).settings;
        let sluice = sluicegate::enforce(settings.clone()).unwrap();
        let served = Served::enforcing(&folder, &settings, sluice);
        let mut client = Client::connect(served.at);
        assert_eq!(client.get("/").status, 200);
        let answer = client.get("/");
        assert_eq!(answer.status, status, "{on_limit}");
        assert!(answer.text().starts_with(text), "{on_limit}: {}", answer.text());
        let of_kind = answer.header("content-type").unwrap_or_default();
        assert!(kind.is_none_or(|kind| of_kind.starts_with(kind)), "{on_limit}: {of_kind}");
        if on_limit.contains("redirect") {
            assert_eq!(answer.header("location"), Some("/busy"));
        }
        if on_limit.contains("x-degraded") {
            assert_eq!(answer.header("x-degraded"), Some("yes"));
        }
        assert_eq!(upstream.requests(), 1);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn rules_know_upstreams_as_services_and_paths_by_their_parts() {
    let (shop, bank) = (Upstream::saying("shop"), Upstream::saying("bank"));
    let routes = format!(
        "upstreams: {{ shop: \"http://{}\", bank: \"http://{}\" }}\n\
         routes: [{{ path: \"/shop/{{*rest}}\", upstream: shop }}, {{ path: \"/{{*rest}}\", upstream: bank }}]",
        shop.at, bank.at
    );
    let rules = "rules: [{ name: shop, match: service shop, limits: [2/1h] }, \
                 { name: user, match: \"GET /users/{id}/**\", key: \"param['id']\", limits: [1/1h] }]";
    let served = Served::of(&gateway(&routes, rules));
    let mut client = Client::connect(served.at);
    let mut statuses = |paths: &[&str]| paths.iter().map(|path| client.get(path).status).collect::<Vec<_>>();
    assert_eq!(statuses(&["/shop/a", "/shop/b", "/shop/c", "/bank"]), [200, 200, 429, 200]);
    assert_eq!(statuses(&["/users/1/x", "/users/1/y", "/users/2/x", "/users//%31/z"]), [200, 429, 200, 429]);
    // Who tries paths at random is limited too.
    let served = Served::of(&gateway(
        "routes: [{ path: /known, answer: { status: 200 } }]",
        "rules: [{ name: all, limits: [3/1h] }]",
    ));
    let mut client = Client::connect(served.at);
    let mut statuses = |paths: &[&str]| paths.iter().map(|path| client.get(path).status).collect::<Vec<_>>();
    assert_eq!(statuses(&["/known", "/a", "/b", "/c", "/known"]), [200, 404, 404, 429, 429]);
}

#[test]
fn two_gateways_on_one_store_count_together() {
    let redis = RedisServer::start().unwrap();
    let upstream = Upstream::saying("hello");
    let rules = format!(
        "store: {{ url: \"{}\", deadline: 10s }}\nrules: [{{ name: five, limits: [5/1h], scope: cluster }}]",
        redis.url()
    );
    let settings = sluicegate_config::parse("rules.yaml", &before(&[upstream.at], &rules)).unwrap().settings;
    let served =
        [(); 2].map(|()| Served::enforcing(Path::new("."), &settings, sluicegate::enforce(settings.clone()).unwrap()));
    let mut clients = served.each_ref().map(|served| Client::connect(served.at));
    let statuses: Vec<u16> = (0..8).map(|number| clients[number % 2].get("/").status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
    assert!(served.iter().all(|served| served.running().sluice().counts()[0].degraded == 0));
}

#[test]
fn headers_come_in_the_style_that_the_file_says() {
    for (style, present, absent) in [
        ("ietf", &["ratelimit", "ratelimit-policy"][..], &["ratelimit-limit", "x-ratelimit-limit"][..]),
        ("legacy", &["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"], &["ratelimit", "x-ratelimit-limit"]),
        ("x", &["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"], &["ratelimit", "ratelimit-limit"]),
        ("none", &[], &["ratelimit", "ratelimit-limit", "x-ratelimit-limit"]),
    ] {
        let bench = Bench::with(&format!("headers: {style}\nrules: [{{ name: one, limits: [1/1h] }}]"));
        let mut client = bench.client();
        for status in [200, 429] {
            let answer = client.get("/");
            assert_eq!(answer.status, status);
            assert!(present.iter().all(|name| answer.header(name).is_some()), "{style}: {answer:?}");
            assert!(absent.iter().all(|name| answer.header(name).is_none()), "{style}: {answer:?}");
            assert_eq!(answer.header("retry-after").is_some(), status == 429);
        }
    }
}
