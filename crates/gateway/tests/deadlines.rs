//! Timeouts of each phase of a request that other tests do not cover: a stalled phase ends exactly at its
//! timeout and releases its resources.

use crate::support;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use sluicegate_engine::clock::{Clock, ManualClock};
use support::certificate::CertificateDir;
use support::file::gateway_yaml;
use support::frames::{GREETING, Http2, StreamResult, count_requests, get};
use support::raw::Client;
use support::scripted::{Latch, ScriptedServer};
use support::upstream::Upstream;
use support::{TestGateway, wait_until};

const SECOND: Duration = Duration::from_secs(1);
const NANOSECOND: Duration = Duration::from_nanos(1);

/// Rule file with these gateway fields, and this server with its upstream settings.
fn file(fields: &str, server: &str, upstream: &str, rules: &str) -> String {
    let upstream = format!("upstreams: {{ shop: {{ servers: [\"{server}\"], {upstream} }} }}");
    gateway_yaml(&format!("{fields}\n{upstream}\nroutes: [{{ path: \"/{{*rest}}\", upstream: shop }}]"), rules)
}

fn serve(fields: &str, server: SocketAddr, upstream: &str) -> (TestGateway, ManualClock) {
    let clock = ManualClock::new();
    let rules = "rules: [{ name: four, limits: [{ concurrency: 4 }] }]";
    let yaml = file(fields, &format!("http://{server}"), upstream, rules);
    (TestGateway::with_clock(&yaml, clock.clone()), clock)
}

/// Advances the clock in steps until the condition holds.
fn advance_until(clock: &ManualClock, label: &str, mut holds: impl FnMut() -> bool) {
    wait_until(label, || {
        clock.advance(SECOND / 20);
        std::thread::sleep(Duration::from_millis(1));
        holds()
    });
}

fn in_flight(gateway: &TestGateway) -> u64 {
    gateway.running().stats().upstreams()[0].servers[0].in_flight
}

fn assert_all_permits_released(gateway: &TestGateway) {
    wait_until("a request is at a server", || in_flight(gateway) == 0);
    wait_until("requests are in flight", || gateway.running().stats().listener().counts().in_flight == 0);
    let request = sluicegate_engine::rule::Request::new("GET", "/");
    wait_until("permits leaked", || {
        let all: Vec<_> = (0..4).map(|_| gateway.running().sluice().decide(&request)).collect();
        all.iter().all(sluicegate_engine::Outcome::is_admitted)
    });
}

fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// A server that starts a response and finishes it once the latch is open.
fn latched() -> (ScriptedServer, Latch) {
    let latch = Latch::default();
    let waits = latch.clone();
    let server = ScriptedServer::new(move |connection| {
        while connection.request() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegun");
            waits.wait();
            connection.send("ended");
        }
    });
    (server, latch)
}

/// A server that sends nothing.
fn silent() -> ScriptedServer {
    ScriptedServer::new(|connection| connection.wait_for_end())
}

/// The TLS handshake is part of the head timeout.
#[test]
fn a_stalled_tls_handshake_times_out() {
    let (upstream, folder) = (Upstream::returning("hello"), CertificateDir::new());
    let clock = ManualClock::new();
    let yaml = file(CertificateDir::LISTEN, &format!("http://{}", upstream.at), "", "");
    let gateway = TestGateway::in_dir(folder.path(), &yaml, clock.clone());
    let counts = || gateway.running().stats().listener().counts();
    // Nothing at all, the start of a TLS record, and a record header without its body.
    let begins = [&b""[..], b"\x16\x03", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"];
    let mut clients = begins.map(|begin| {
        let mut client = Client::connect(gateway.at);
        client.send(begin);
        client
    });
    wait_until("all are connected", || counts().open == 3);
    clock.advance(10 * SECOND - NANOSECOND);
    assert!(clients.iter().all(|client| is_open(&client.stream)));
    assert_eq!(counts().header_timeouts, 0);
    clock.advance(NANOSECOND);
    wait_until("all are closed", || counts().open == 0);
    assert!(clients.iter_mut().all(Client::is_closed));
    assert_eq!(counts().header_timeouts, 3);
    assert_eq!(upstream.requests(), 0);
}

#[test]
fn a_stalled_proxy_header_times_out() {
    let upstream = Upstream::returning("hello");
    let fields = "listen: { address: 127.0.0.1:0, proxy_protocol: true }\ntrusted_proxies: [127.0.0.0/8]";
    let (gateway, clock) = serve(fields, upstream.at, "");
    let counts = || gateway.running().stats().listener().counts();
    let mut clients = [&b""[..], b"PROXY TCP4 192.0.2.1", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0"].map(|begin| {
        let mut client = Client::connect(gateway.at);
        client.send(begin);
        client
    });
    wait_until("all are connected", || counts().open == 3);
    clock.advance(10 * SECOND - NANOSECOND);
    assert!(clients.iter().all(|client| is_open(&client.stream)));
    clock.advance(NANOSECOND);
    wait_until("all are closed", || counts().open == 0);
    assert!(clients.iter_mut().all(Client::is_closed));
}

#[test]
fn http2_connections_have_an_idle_timeout() {
    let upstream = Upstream::returning("hello");
    let (gateway, clock) = serve("timeouts: { idle: 20s }", upstream.at, "");
    let mut client = Http2::connect(gateway.at);
    client.send(get(1, "/"));
    assert_eq!(client.stream_result(1), StreamResult::Status(200));
    assert_eq!(client.body(1), b"hello");
    let closed = || gateway.running().stats().listener().counts().idle_timeouts;
    assert_eq!(closed(), 0);
    advance_until(&clock, "the server connection is released", || closed() == 1);
    // The connection gets a GOAWAY without error and is closed soon, whether the client reads it or not.
    advance_until(&clock, "it is closed", || gateway.running().stats().listener().counts().open == 0);
    assert_eq!(client.end(), StreamResult::GoAway(0));
}

#[test]
fn a_stalled_upstream_handshake_is_a_504() {
    let server = silent();
    let clock = ManualClock::new();
    for protocol in ["http1", "http2"] {
        let upstream = format!("protocol: {protocol}, timeouts: {{ connect: 700ms }}");
        let rules = "rules: [{ name: four, limits: [{ concurrency: 4 }] }]";
        let yaml = file("", &format!("https://{}", server.at), &upstream, rules);
        let gateway = TestGateway::with_clock(&yaml, clock.clone());
        let before = server.accepted();
        let mut client = Client::connect(gateway.at);
        client.send("POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 1\r\n\r\nx");
        wait_until("it is connected", || server.accepted() == before + 1);
        clock.advance(Duration::from_millis(650));
        assert!(is_open(&client.stream));
        advance_until(&clock, "the response has arrived", || !is_open(&client.stream));
        assert_eq!(client.read_response().unwrap().status, 504, "{protocol}");
        wait_until("the connection leaked", || server.open() == 0);
        assert_all_permits_released(&gateway);
    }
}

#[test]
fn waiting_for_an_upstream_connection_times_out() {
    let (server, latch) = latched();
    // Idle connections of other threads would be closed as well, but a moment later.
    let (gateway, clock) = serve("threads: 1", server.at, "max_connections: 1, timeouts: { response: 3s, body: 1h }");
    let mut first = Client::connect(gateway.at);
    first.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    assert_eq!(first.line().as_deref(), Some("HTTP/1.1 200 OK"));
    let mut second = Client::connect(gateway.at);
    second.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    wait_until("both are in flight", || in_flight(&gateway) == 2);
    clock.advance(2 * SECOND);
    assert!(is_open(&second.stream));
    advance_until(&clock, "the response has arrived", || !is_open(&second.stream));
    let response = second.read_response().unwrap();
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    // The first request is not affected, and the next one is served.
    latch.open();
    while first.line().is_some_and(|line| !line.is_empty()) {}
    assert_eq!(first.exactly(10).unwrap(), b"begunended");
    assert_eq!(second.get("/").text(), "begunended");
    assert_eq!(server.requests().len(), 2);
    assert_all_permits_released(&gateway);
}

/// An HTTP/2 server that completes the protocol handshake and responds to its first request with these frames.
fn http2_server(response: &'static [u8]) -> ScriptedServer {
    ScriptedServer::new(move |connection| {
        connection.send(GREETING);
        connection.read_until(|received| count_requests(received) == 1);
        connection.send(response);
        connection.wait_for_end();
    })
}

#[test]
fn http2_upstreams_have_a_response_timeout() {
    let server = http2_server(b"");
    let (gateway, clock) = serve("", server.at, "protocol: http2, timeouts: { response: 3s }");
    let mut client = Client::connect(gateway.at);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    wait_until("the request is in flight", || in_flight(&gateway) == 1 && server.accepted() == 1);
    clock.advance(2 * SECOND);
    assert!(is_open(&client.stream));
    advance_until(&clock, "the response has arrived", || !is_open(&client.stream));
    assert_eq!(client.read_response().unwrap().status, 504);
    assert_all_permits_released(&gateway);
}

#[test]
fn a_stalled_http2_response_is_aborted() {
    // `:status 200`, and five bytes of an unfinished body.
    let server = http2_server(b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x05\0\0\0\0\0\x01begun");
    let (gateway, clock) = serve("", server.at, "protocol: http2, timeouts: { body: 3s }");
    let mut client = Client::connect(gateway.at);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    client.exactly(15).unwrap();
    let reading = std::thread::spawn(move || client.rest());
    clock.advance(2 * SECOND);
    assert!(!reading.is_finished());
    advance_until(&clock, "the response is aborted", || reading.is_finished());
    let rest = String::from_utf8(reading.join().unwrap()).unwrap();
    assert!(rest.contains("begun") && !rest.ends_with("0\r\n\r\n"), "{rest:?}");
    assert_all_permits_released(&gateway);
}

#[test]
fn an_idle_tunnel_is_closed() {
    let server = ScriptedServer::new(|connection| {
        connection.request();
        connection.send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
        while connection.read_until(|received| received.ends_with(b"?")) {
            connection.forget();
            connection.send("!");
        }
    });
    let (gateway, clock) = serve("", server.at, "timeouts: { body: 5s }");
    let mut client = Client::connect(gateway.at);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    assert_eq!(client.read_response().unwrap().status, 101);
    // The tunnel stays open while data is transferred.
    for _ in 0..4 {
        clock.advance(4 * SECOND);
        client.send("?");
        assert_eq!(client.exactly(1).unwrap(), b"!");
    }
    assert_eq!(in_flight(&gateway), 1);
    clock.advance(4 * SECOND);
    assert!(is_open(&client.stream));
    advance_until(&clock, "the tunnel is closed", || !is_open(&client.stream));
    assert!(client.is_closed());
    wait_until("the server connection is closed", || server.open() == 0);
    assert_all_permits_released(&gateway);
}

#[test]
fn an_idle_upstream_connection_is_closed() {
    let server = ScriptedServer::new(|connection| connection.respond_all("hello"));
    let (gateway, clock) = serve("", server.at, "timeouts: { idle: 5s }");
    let mut client = Client::connect(gateway.at);
    assert_eq!(client.get("/").status, 200);
    clock.advance(4 * SECOND);
    assert_eq!((client.get("/").status, server.accepted()), (200, 1), "the connection is reused");
    clock.advance(4 * SECOND);
    assert_eq!((client.get("/").status, server.accepted()), (200, 1));
    advance_until(&clock, "it is closed", || server.open() == 0);
    assert_eq!((client.get("/").status, server.accepted()), (200, 2));
}

#[test]
fn requests_in_flight_are_aborted_at_the_drain_timeout() {
    let (server, latch) = latched();
    let (gateway, clock) = serve("timeouts: { drain: 7s }", server.at, "");
    let mut clients = [(); 3].map(|()| Client::connect(gateway.at));
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        client.exactly(15).unwrap();
    }
    let start = clock.now();
    let stopping = std::thread::spawn(move || gateway.stop());
    advance_until(&clock, "the gateway has stopped", || stopping.is_finished());
    let elapsed = clock.now().saturating_since(start);
    assert!(elapsed >= 7 * SECOND, "{elapsed:?}");
    assert_eq!(stopping.join().unwrap().aborted, 3);
    for client in clients {
        let rest = String::from_utf8(client.rest()).unwrap();
        assert!(rest.contains("begun") && !rest.contains("ended"), "{rest}");
    }
    latch.open();
    wait_until("the server connection is closed", || server.open() == 0);
}

/// Over HTTP/2 more requests can arrive than there are connections; beyond the bound of the queue they are
/// refused.
#[test]
fn streams_beyond_the_queue_are_refused() {
    let (server, latch) = latched();
    let (gateway, _clock) = serve("max_in_flight: 1\nconnections: { max: 2 }", server.at, "");
    let mut client = Http2::connect(gateway.at);
    client.send(get(1, "/1"));
    assert_eq!(client.stream_result(1), StreamResult::Status(200));
    let waiting = || gateway.running().stats().listener().counts().requests_queued;
    for (number, stream) in [(1, 3), (2, 5)] {
        client.send(get(stream, "/more"));
        wait_until("the request waits", || waiting() == number);
    }
    client.send(get(7, "/too-many"));
    assert_eq!(client.stream_result(7), StreamResult::Status(503));
    latch.open();
    // The queued responses follow in order.
    assert_eq!(client.stream_result(3), StreamResult::Status(200));
    assert_eq!(client.stream_result(5), StreamResult::Status(200));
    wait_until("all were sent", || server.requests().len() == 3);
    drop(client);
    assert_all_permits_released(&gateway);
}
