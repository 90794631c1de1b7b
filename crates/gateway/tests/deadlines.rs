//! How long each part of a request may take, where other tests do not look: whatever stops, stops at its time and not
//! before, and gives back what it held.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use sluicegate_engine::clock::{Clock, ManualClock};
use support::certificate::Folder;
use support::file::gateway;
use support::frames::{Fate, GREETING, Http2, get, heads};
use support::raw::Client;
use support::scripted::{Latch, Scripted};
use support::upstream::Upstream;
use support::{Served, until};

const SECOND: Duration = Duration::from_secs(1);
const NANOSECOND: Duration = Duration::from_nanos(1);

/// A gateway of which these fields say more, before this server of which that is said.
fn file(fields: &str, server: &str, upstream: &str, rules: &str) -> String {
    let upstream = format!("upstreams: {{ shop: {{ servers: [\"{server}\"], {upstream} }} }}");
    gateway(&format!("{fields}\n{upstream}\nroutes: [{{ path: \"/{{*rest}}\", upstream: shop }}]"), rules)
}

fn serve(fields: &str, server: SocketAddr, upstream: &str) -> (Served, ManualClock) {
    let clock = ManualClock::new();
    let rules = "rules: [{ name: four, limits: [{ concurrency: 4 }] }]";
    let yaml = file(fields, &format!("http://{server}"), upstream, rules);
    (Served::with_clock(&yaml, clock.clone()), clock)
}

/// Lets time pass in steps until something has come about.
fn pass(clock: &ManualClock, what: &str, mut holds: impl FnMut() -> bool) {
    until(what, || {
        clock.advance(SECOND / 20);
        std::thread::sleep(Duration::from_millis(1));
        holds()
    });
}

fn in_flight(served: &Served) -> u64 {
    served.running().vitals().upstreams()[0].servers[0].in_flight
}

fn assert_all_is_back(served: &Served) {
    until("a server is asked", || in_flight(served) == 0);
    until("requests are under way", || served.running().vitals().door().counts().in_flight == 0);
    let request = sluicegate_engine::rule::Request::new("GET", "/");
    until("permits are missing", || {
        let all: Vec<_> = (0..4).map(|_| served.running().sluice().decide(&request)).collect();
        all.iter().all(sluicegate_engine::Outcome::is_admitted)
    });
}

fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// A server that begins an answer, and ends it when it is let.
fn hesitant() -> (Scripted, Latch) {
    let latch = Latch::default();
    let waits = latch.clone();
    let server = Scripted::new(move |caller| {
        while caller.request() {
            caller.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegun");
            waits.wait();
            caller.send("ended");
        }
    });
    (server, latch)
}

/// A server that says nothing.
fn silent() -> Scripted {
    Scripted::new(|caller| caller.wait_for_end())
}

/// The handshake has its share of the time for a head: who does not come in does not stay.
#[test]
fn a_handshake_that_stops_is_the_end() {
    let (upstream, folder) = (Upstream::saying("hello"), Folder::new());
    let clock = ManualClock::new();
    let yaml = file(Folder::LISTEN, &format!("http://{}", upstream.at), "", "");
    let served = Served::within(folder.path(), &yaml, clock.clone());
    let counts = || served.running().vitals().door().counts();
    // Nothing at all, a beginning of what TLS begins with, and the head of a record whose body does not come.
    let begins = [&b""[..], b"\x16\x03", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"];
    let mut clients = begins.map(|begin| {
        let mut client = Client::connect(served.at);
        client.send(begin);
        client
    });
    until("all are in", || counts().open == 3);
    clock.advance(10 * SECOND - NANOSECOND);
    assert!(clients.iter().all(|client| is_open(&client.stream)));
    assert_eq!(counts().header_timeouts, 0);
    clock.advance(NANOSECOND);
    until("all are closed", || counts().open == 0);
    assert!(clients.iter_mut().all(Client::is_closed));
    assert_eq!(counts().header_timeouts, 3);
    assert_eq!(upstream.requests(), 0);
}

#[test]
fn a_proxy_line_that_stops_is_the_end() {
    let upstream = Upstream::saying("hello");
    let fields = "listen: { address: 127.0.0.1:0, proxy_protocol: true }\ntrusted_proxies: [127.0.0.0/8]";
    let (served, clock) = serve(fields, upstream.at, "");
    let counts = || served.running().vitals().door().counts();
    let mut clients = [&b""[..], b"PROXY TCP4 192.0.2.1", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0"].map(|begin| {
        let mut client = Client::connect(served.at);
        client.send(begin);
        client
    });
    until("all are in", || counts().open == 3);
    clock.advance(10 * SECOND - NANOSECOND);
    assert!(clients.iter().all(|client| is_open(&client.stream)));
    clock.advance(NANOSECOND);
    until("all are closed", || counts().open == 0);
    assert!(clients.iter_mut().all(Client::is_closed));
}

#[test]
fn between_two_requests_of_http2_there_is_so_much_time() {
    let upstream = Upstream::saying("hello");
    let (served, clock) = serve("timeouts: { idle: 20s }", upstream.at, "");
    let mut client = Http2::connect(served.at);
    client.send(get(1, "/"));
    assert_eq!(client.fate(1), Fate::Status(200));
    assert_eq!(client.body(1), b"hello");
    let closed = || served.running().vitals().door().counts().idle_closed;
    assert_eq!(closed(), 0);
    pass(&clock, "it is let go", || closed() == 1);
    // It is told that nothing was wrong, and is gone soon, whether it has heard or not.
    pass(&clock, "it is closed", || served.running().vitals().door().counts().open == 0);
    assert_eq!(client.end(), Fate::GoAway(0));
}

#[test]
fn a_server_that_does_not_shake_hands_is_a_504() {
    let server = silent();
    let clock = ManualClock::new();
    for protocol in ["http1", "http2"] {
        let upstream = format!("protocol: {protocol}, timeouts: {{ connect: 700ms }}");
        let rules = "rules: [{ name: four, limits: [{ concurrency: 4 }] }]";
        let yaml = file("", &format!("https://{}", server.at), &upstream, rules);
        let served = Served::with_clock(&yaml, clock.clone());
        let before = server.accepted();
        let mut client = Client::connect(served.at);
        client.send("POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 1\r\n\r\nx");
        until("it is connected", || server.accepted() == before + 1);
        clock.advance(Duration::from_millis(650));
        assert!(is_open(&client.stream));
        pass(&clock, "it is answered", || !is_open(&client.stream));
        assert_eq!(client.answer().unwrap().status, 504, "{protocol}");
        until("the connection is left", || server.open() == 0);
        assert_all_is_back(&served);
    }
}

#[test]
fn who_waits_for_a_connection_to_the_server_is_told_in_time() {
    let (server, latch) = hesitant();
    // Idle connections of other threads make way, but a moment later.
    let (served, clock) = serve("threads: 1", server.at, "connections: 1, timeouts: { answer: 3s, body: 1h }");
    let mut first = Client::connect(served.at);
    first.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    assert_eq!(first.line().as_deref(), Some("HTTP/1.1 200 OK"));
    let mut second = Client::connect(served.at);
    second.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    until("both are under way", || in_flight(&served) == 2);
    clock.advance(2 * SECOND);
    assert!(is_open(&second.stream));
    pass(&clock, "it is answered", || !is_open(&second.stream));
    let answer = second.answer().unwrap();
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    // Who was first is not bothered by that, and the next is served.
    latch.open();
    while first.line().is_some_and(|line| !line.is_empty()) {}
    assert_eq!(first.exactly(10).unwrap(), b"begunended");
    assert_eq!(second.get("/").text(), "begunended");
    assert_eq!(server.requests().len(), 2);
    assert_all_is_back(&served);
}

/// A server of HTTP/2 that answers the handshake of its protocol, and its first request with these frames.
fn http2_server(answer: &'static [u8]) -> Scripted {
    Scripted::new(move |caller| {
        caller.send(GREETING);
        caller.read_until(|came| heads(came) == 1);
        caller.send(answer);
        caller.wait_for_end();
    })
}

#[test]
fn a_server_of_http2_has_its_time_too() {
    let server = http2_server(b"");
    let (served, clock) = serve("", server.at, "protocol: http2, timeouts: { answer: 3s }");
    let mut client = Client::connect(served.at);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    until("it is under way", || in_flight(&served) == 1 && server.accepted() == 1);
    clock.advance(2 * SECOND);
    assert!(is_open(&client.stream));
    pass(&clock, "it is answered", || !is_open(&client.stream));
    assert_eq!(client.answer().unwrap().status, 504);
    assert_all_is_back(&served);
}

#[test]
fn an_answer_of_http2_that_stalls_is_cut_off() {
    // `:status 200`, and five bytes of more to come.
    let server = http2_server(b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x05\0\0\0\0\0\x01begun");
    let (served, clock) = serve("", server.at, "protocol: http2, timeouts: { body: 3s }");
    let mut client = Client::connect(served.at);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    client.exactly(15).unwrap();
    let reading = std::thread::spawn(move || client.rest());
    clock.advance(2 * SECOND);
    assert!(!reading.is_finished());
    pass(&clock, "it is cut off", || reading.is_finished());
    let rest = String::from_utf8(reading.join().unwrap()).unwrap();
    assert!(rest.contains("begun") && !rest.ends_with("0\r\n\r\n"), "{rest:?}");
    assert_all_is_back(&served);
}

#[test]
fn another_protocol_on_which_nothing_passes_is_over() {
    let server = Scripted::new(|caller| {
        caller.request();
        caller.send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
        while caller.read_until(|came| came.ends_with(b"?")) {
            caller.forget();
            caller.send("!");
        }
    });
    let (served, clock) = serve("", server.at, "timeouts: { body: 5s }");
    let mut client = Client::connect(served.at);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 101);
    // As long as something passes, it goes on.
    for _ in 0..4 {
        clock.advance(4 * SECOND);
        client.send("?");
        assert_eq!(client.exactly(1).unwrap(), b"!");
    }
    assert_eq!(in_flight(&served), 1);
    clock.advance(4 * SECOND);
    assert!(is_open(&client.stream));
    pass(&clock, "it is over", || !is_open(&client.stream));
    assert!(client.is_closed());
    until("the server is let go", || server.open() == 0);
    assert_all_is_back(&served);
}

#[test]
fn an_idle_connection_to_a_server_is_closed() {
    let server = Scripted::new(|caller| caller.answer_all("hello"));
    let (served, clock) = serve("", server.at, "timeouts: { idle: 5s }");
    let mut client = Client::connect(served.at);
    assert_eq!(client.get("/").status, 200);
    clock.advance(4 * SECOND);
    assert_eq!((client.get("/").status, server.accepted()), (200, 1), "it is kept and used again");
    clock.advance(4 * SECOND);
    assert_eq!((client.get("/").status, server.accepted()), (200, 1));
    pass(&clock, "it is closed", || server.open() == 0);
    assert_eq!((client.get("/").status, server.accepted()), (200, 2));
}

#[test]
fn what_is_under_way_when_it_stops_is_cut_off_at_its_time() {
    let (server, latch) = hesitant();
    let (served, clock) = serve("timeouts: { stop: 7s }", server.at, "");
    let mut clients = [(); 3].map(|()| Client::connect(served.at));
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        client.exactly(15).unwrap();
    }
    let begun = clock.now();
    let stopping = std::thread::spawn(move || served.stop());
    pass(&clock, "it has stopped", || stopping.is_finished());
    let took = clock.now().saturating_since(begun);
    assert!(took >= 7 * SECOND, "{took:?}");
    assert_eq!(stopping.join().unwrap().aborted, 3);
    for client in clients {
        let rest = String::from_utf8(client.rest()).unwrap();
        assert!(rest.contains("begun") && !rest.contains("ended"), "{rest}");
    }
    latch.open();
    until("the server is let go", || server.open() == 0);
}

/// More requests may wait than there may be connections: then nobody knows for how long.
#[test]
fn streams_beyond_what_may_wait_are_told_so() {
    let (server, latch) = hesitant();
    let (served, _clock) = serve("in_flight: 1\nconnections: { max: 2 }", server.at, "");
    let mut client = Http2::connect(served.at);
    client.send(get(1, "/1"));
    assert_eq!(client.fate(1), Fate::Status(200));
    let waiting = || served.running().vitals().door().counts().requests_waiting;
    for (number, stream) in [(1, 3), (2, 5)] {
        client.send(get(stream, "/more"));
        until("it waits", || waiting() == number);
    }
    client.send(get(7, "/too-many"));
    assert_eq!(client.fate(7), Fate::Status(503));
    latch.open();
    // The answers that waited come in their turn.
    assert_eq!(client.fate(3), Fate::Status(200));
    assert_eq!(client.fate(5), Fate::Status(200));
    until("all were sent", || server.requests().len() == 3);
    drop(client);
    assert_all_is_back(&served);
}
