//! Clients that send too much, too slowly, or do not read. Their use of resources is bounded, all resources are
//! released, and other clients are not affected.

use crate::support;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use sluicegate_engine::clock::ManualClock;
use support::frames::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, GO_AWAY, HEADERS, Http2, PING, RESET, SETTINGS, StreamResult,
};
use support::raw::Client;
use support::upstream::Upstream;
use support::{TestGateway, proxy_yaml, wait_until};

const ENHANCE_YOUR_CALM: u32 = 11;

/// One permit for paths below `/one`.
const ONE: &str = "rules: [{ name: one, match: '/one/{*rest}', limits: [{ concurrency: 1 }] }]";

/// A gateway with a manual clock, in front of a server that may be slow.
fn timed(upstream: SocketAddr) -> (ManualClock, TestGateway) {
    let clock = ManualClock::new();
    let yaml = proxy_yaml(&[upstream], ONE).replace("servers:", "timeouts: { response: 1h, body: 1h }, servers:");
    let gateway = TestGateway::with_clock(&yaml, clock.clone());
    (clock, gateway)
}

/// Advances the clock by seconds until the condition holds.
fn advance_until(clock: &ManualClock, label: &str, mut holds: impl FnMut() -> bool) {
    wait_until(label, || {
        clock.advance(Duration::from_secs(1));
        holds()
    });
}

/// Another client is served normally.
fn assert_others_are_served(gateway: &TestGateway) {
    assert_eq!(Client::connect(gateway.at).get("/other").status, 200);
}

/// Waits until the permit is released.
fn assert_permit_released(gateway: &TestGateway) {
    let mut client = Client::connect(gateway.at);
    wait_until("the permit is released", || client.get("/one/small").status == 200);
}

/// A server with endless responses that never reads a body to its end; other paths get an immediate response.
struct EndlessUpstream {
    at: SocketAddr,
    /// Bytes received, including heads.
    bytes_read: Arc<AtomicUsize>,
    started: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl EndlessUpstream {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let counts = || Arc::new(AtomicUsize::new(0));
        let this =
            Self { at: listener.local_addr().unwrap(), bytes_read: counts(), started: counts(), ended: counts() };
        let (taken, start, ended) = (Arc::clone(&this.bytes_read), Arc::clone(&this.started), Arc::clone(&this.ended));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (taken, start, ended) = (Arc::clone(&taken), Arc::clone(&start), Arc::clone(&ended));
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    while let Some(endless) = next_request(&mut stream, &taken) {
                        if endless {
                            start.fetch_add(1, Ordering::SeqCst);
                            write_endlessly(&mut stream);
                            ended.fetch_add(1, Ordering::SeqCst);
                            return;
                        }
                    }
                });
            }
        });
        this
    }
}

/// Reads a request, and responds if the response is finite.
fn next_request(stream: &mut TcpStream, bytes_read: &AtomicUsize) -> Option<bool> {
    let mut head = Vec::new();
    while !head.windows(4).any(|it| it == b"\r\n\r\n") {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        bytes_read.fetch_add(read, Ordering::SeqCst);
        head.extend(&buffer[..read]);
    }
    let endless = head.windows(7).any(|it| it == b"endless");
    if head.starts_with(b"POST") {
        // Everything up to the end of the connection.
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            bytes_read.fetch_add(read, Ordering::SeqCst);
        }
        return None;
    }
    if !endless {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall").ok()?;
    }
    Some(endless)
}

fn write_endlessly(stream: &mut TcpStream) {
    drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"));
    while stream.write_all(&[b'x'; 64 << 10]).is_ok() {}
}

#[test]
fn streams_reset_immediately() {
    let upstream = Upstream::returning("hello");
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], ONE));
    let mut client = Http2::connect(gateway.at);
    let mut opened = 0;
    for number in 0..10_000 {
        let stream = number * 2 + 1;
        let reset = frames::frame(RESET, 0, stream, &8_u32.to_be_bytes());
        if !client.send([frames::get(stream, "/one/reset"), reset].concat()) {
            break;
        }
        opened += 1;
        if number % 1_000 == 0 {
            assert_others_are_served(&gateway);
        }
    }
    assert_eq!(client.end(), StreamResult::GoAway(ENHANCE_YOUR_CALM), "after {opened}");
    assert_others_are_served(&gateway);
    assert_permit_released(&gateway);
    let reset = upstream.seen.lock().iter().filter(|it| it.uri().path() == "/one/reset").count();
    assert!(reset < 500, "{reset} of {opened} arrived");
}

#[test]
fn streams_reset_while_in_flight() {
    // The server does not respond: each stream is in flight until it is reset.
    let start = Arc::new(AtomicUsize::new(0));
    let upstream = {
        let start = Arc::clone(&start);
        Upstream::new(move |request| {
            let start = Arc::clone(&start);
            async move {
                if request.uri().path() == "/one/slow" {
                    start.fetch_add(1, Ordering::SeqCst);
                    std::future::pending::<()>().await;
                }
                Response::new(Bytes::from_static(b"hello"))
            }
        })
    };
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], ONE));
    let mut client = Http2::connect(gateway.at);
    for number in 0..200 {
        let stream = number * 2 + 1;
        client.send(frames::get(stream, "/one/slow"));
        wait_until("the request is in flight", || start.load(Ordering::SeqCst) == number as usize + 1);
        client.send(frames::frame(RESET, 0, stream, &8_u32.to_be_bytes()));
        assert_permit_released(&gateway);
    }
    client.send(frames::get(1_001, "/other"));
    assert_eq!(client.stream_result(1_001), StreamResult::Status(200));
}

#[test]
fn an_endless_head() {
    let upstream = Upstream::returning("hello");
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], ""));
    let method = frames::block(&[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/flood")]);
    let nothing = Vec::new();
    let (small, large) = (frames::block(&[("x-a", "b")]), frames::block(&[("x-a", &"b".repeat(10_000))]));
    for (name, part) in [("nothing", nothing), ("small", small), ("large", large)] {
        let mut client = Http2::connect(gateway.at);
        client.send(frames::frame(HEADERS, END_STREAM, 1, &method));
        let part = frames::frame(CONTINUATION, 0, 1, &part);
        let batch = part.repeat((64 << 10) / part.len());
        let sent = (0..10_000).take_while(|_| client.send(&batch)).count() * batch.len();
        // The kernel buffers of both sides hold more than the gateway accepts.
        assert!(sent < 64 << 20, "{name}: {sent} bytes were accepted");
        let stream_result = client.end();
        assert!(matches!(stream_result, StreamResult::GoAway(1..) | StreamResult::Closed), "{name}: {stream_result:?}");
        assert_others_are_served(&gateway);
    }
    // A head that is too large but finite gets a response or closes the connection; it is never forwarded.
    let mut client = Http2::connect(gateway.at);
    let lines = frames::block(&[("x-a", &"b".repeat(10_000))]);
    client.send(frames::frame(HEADERS, END_STREAM, 1, &method));
    client.send(frames::frame(CONTINUATION, 0, 1, &lines).repeat(8));
    client.send(frames::frame(CONTINUATION, END_HEADERS, 1, &[]));
    let stream_result = client.stream_result(1);
    assert!(
        matches!(stream_result, StreamResult::Status(431) | StreamResult::Reset(_) | StreamResult::GoAway(1..)),
        "{stream_result:?}"
    );
    assert!(!upstream.seen.lock().iter().any(|it| it.uri().path() == "/flood"));
}

/// HPACK bomb: a header that was sent once can be referenced with one byte, so a small message expands to a
/// large head.
#[test]
fn a_head_that_expands_when_decompressed() {
    let upstream = Upstream::returning("hello");
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], ""));
    let mut client = Http2::connect(gateway.at);
    let mut block = frames::block(&[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/flood")]);
    // A header for the dynamic table, whose newest entry has index 62.
    let header = frames::block(&[("x-bomb", &"b".repeat(4_000))]);
    block.push(0x40);
    block.extend(&header[1..]);
    block.extend([0x80 | 62; 10_000]);
    client.send(frames::frame(HEADERS, END_HEADERS | END_STREAM, 1, &block));
    let stream_result = client.stream_result(1);
    assert!(
        matches!(stream_result, StreamResult::Status(431) | StreamResult::Reset(_) | StreamResult::GoAway(1..)),
        "{stream_result:?}"
    );
    assert_eq!(upstream.requests(), 0);
    assert_others_are_served(&gateway);
}

#[test]
fn thousands_of_forwarded_hops_do_not_hide_the_client() {
    let upstream = Upstream::returning("hello");
    let yaml = proxy_yaml(&[upstream.at], "rules: [{ name: per-ip, key: client.ip, limits: [1/1h] }]");
    let gateway =
        TestGateway::from_yaml(&yaml.replace("threads: 2", "threads: 2\n  trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]"));
    let hops = "10.1.2.3, ".repeat(5_000);
    for (client, status) in [("192.0.2.1", 200), ("192.0.2.1", 429), ("192.0.2.2", 200), ("::ffff:192.0.2.2", 429)] {
        let mut proxy = Client::connect(gateway.at);
        proxy.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {hops}{client}, 10.0.0.1\r\n\r\n"));
        assert_eq!(proxy.read_response().unwrap().status, status, "{client}");
    }
}

/// Frames that require replies, from a client that reads none: at some point no more are accepted, and the
/// connection is closed at the write timeout.
#[test]
fn pings_whose_replies_are_not_read() {
    let upstream = Upstream::returning("hello");
    let (clock, gateway) = timed(upstream.at);
    for (number, frame) in [frames::frame(PING, 0, 0, &[7; 8]), frames::frame(SETTINGS, 0, 0, &[])].iter().enumerate() {
        let mut client = Http2::connect(gateway.at);
        client.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let batch = frame.repeat(1_000);
        let taken = (0..10_000).take_while(|_| client.send(&batch)).count() * batch.len();
        assert!(taken < 64 << 20, "{taken} bytes were accepted");
        assert_others_are_served(&gateway);
        advance_until(&clock, "it is closed", || {
            gateway.running().stats().listener().counts().header_timeouts == number as u64 + 1
        });
    }
}

#[test]
fn pings_whose_replies_are_read() {
    let upstream = Upstream::returning("hello");
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], ""));
    let mut client = Http2::connect(gateway.at);
    for _ in 0..100 {
        client.send(frames::frame(PING, 0, 0, &[7; 8]).repeat(100));
        let mut responded = 0;
        while responded < 100 {
            let frame = client.next().unwrap();
            assert_ne!(frame.kind, GO_AWAY);
            responded += usize::from(frame.kind == PING && frame.flags == END_STREAM);
        }
    }
    client.send(frames::get(1, "/after"));
    assert_eq!(client.stream_result(1), StreamResult::Status(200));
}

#[test]
fn empty_data_frames() {
    let upstream = Upstream::returning("hello");
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream.at], ""));
    let mut client = Http2::connect(gateway.at);
    let (method, scheme) = ((":method", "POST"), (":scheme", "http"));
    client.send(frames::head(1, 0, &[method, scheme, (":authority", "a"), (":path", "/empty")]));
    let batch = frames::frame(DATA, 0, 1, &[]).repeat(1_000);
    let all_taken = (0..100).all(|_| client.send(&batch));
    assert_others_are_served(&gateway);
    client.send(frames::frame(DATA, END_STREAM, 1, b"end"));
    let stream_result = client.stream_result(1);
    // The frames are either tolerated or close the connection; they have no other effect.
    match stream_result {
        StreamResult::Status(200) => {
            assert!(all_taken);
            let seen = upstream.seen.lock();
            assert_eq!(seen.iter().find(|it| it.uri().path() == "/empty").unwrap().body(), "end");
        }
        StreamResult::GoAway(ENHANCE_YOUR_CALM) | StreamResult::Closed => {}
        _ => panic!("{stream_result:?}"),
    }
}

#[test]
fn heads_sent_one_byte_at_a_time() {
    let upstream = Upstream::returning("hello");
    let (clock, gateway) = timed(upstream.at);
    let mut clients: Vec<Client> = (0..50).map(|_| Client::connect(gateway.at)).collect();
    wait_until("all are connected", || gateway.running().stats().listener().counts().open == 50);
    for byte in b"GET / HTT" {
        clients.iter_mut().for_each(|client| client.send([*byte]));
        assert_others_are_served(&gateway);
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(gateway.running().stats().listener().counts().header_timeouts, 0);
    clock.advance(Duration::from_secs(1));
    for client in &mut clients {
        assert!(client.is_closed());
    }
    wait_until("all are counted", || gateway.running().stats().listener().counts().header_timeouts == 50);
    // A valid first request does not help the second one.
    let mut second = Client::connect(gateway.at);
    assert_eq!(second.get("/").status, 200);
    second.send("GET / HTTP/1.1\r\nX-Slow: ");
    advance_until(&clock, "it is closed", || gateway.running().stats().listener().counts().header_timeouts == 51);
    assert!(second.is_closed());
    assert_eq!(upstream.seen.lock().iter().filter(|it| it.uri().path() == "/").count(), 1);
}

#[test]
fn stalled_request_bodies() {
    let upstream = EndlessUpstream::new();
    let (clock, gateway) = timed(upstream.at);
    let taken = || upstream.bytes_read.load(Ordering::SeqCst);

    let mut client = Client::connect(gateway.at);
    client.send("POST /one/body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    wait_until("its first bytes have arrived", || taken() > 0);
    assert_eq!(Client::connect(gateway.at).get("/one/small").status, 429);
    clock.advance(Duration::from_secs(29));
    assert!(nothing_to_read(&client.stream));
    client.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    advance_until(&clock, "the response has arrived", || !nothing_to_read(&client.stream));
    client.stream.set_read_timeout(Some(support::TEST_TIMEOUT)).unwrap();
    assert_eq!(client.read_response().unwrap().status, 408);
    assert!(client.is_closed());
    assert_permit_released(&gateway);

    let before = taken();
    let mut client = Http2::connect(gateway.at);
    let head = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/one/body")];
    client.send(frames::head(1, 0, &head));
    client.send(frames::frame(DATA, 0, 1, b"hello"));
    wait_until("its first bytes have arrived", || taken() > before);
    assert_eq!(Client::connect(gateway.at).get("/one/small").status, 429);
    let ticking = {
        let clock = clock.clone();
        std::thread::spawn(move || {
            (0..60).for_each(|_| {
                std::thread::sleep(Duration::from_millis(5));
                clock.advance(Duration::from_secs(1));
            });
        })
    };
    assert_eq!(client.stream_result(1), StreamResult::Status(408));
    ticking.join().unwrap();
    assert_permit_released(&gateway);
    let in_flight: u64 =
        gateway.running().stats().upstreams().iter().flat_map(|it| &it.servers).map(|it| it.in_flight).sum();
    assert_eq!(in_flight, 0);
}

fn nothing_to_read(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn responses_that_are_not_read() {
    let upstream = EndlessUpstream::new();
    let (clock, gateway) = timed(upstream.at);
    let ended = || upstream.ended.load(Ordering::SeqCst);
    let unread = || gateway.running().stats().listener().counts().write_timeouts;

    let mut client = Client::connect(gateway.at);
    client.send("GET /one/endless HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the response has started", || upstream.started.load(Ordering::SeqCst) == 1);
    assert_eq!(Client::connect(gateway.at).get("/one/small").status, 429);
    advance_until(&clock, "it is closed", || unread() == 1);
    wait_until("the server connection is closed", || ended() == 1);
    assert_permit_released(&gateway);

    // Over HTTP/2, with a zero window, and with one that is soon full.
    for (number, window) in [0, 65_535].into_iter().enumerate() {
        let mut client = Http2::with_settings(gateway.at, &[(4, window)]);
        client.send(frames::get(1, "/one/endless"));
        assert_eq!(client.stream_result(1), StreamResult::Status(200), "window {window}");
        assert_eq!(Client::connect(gateway.at).get("/one/small").status, 429);
        advance_until(&clock, "it is closed", || unread() == 2 + number as u64);
        wait_until("the server connection is closed", || ended() == 2 + number);
        assert_permit_released(&gateway);
    }
    assert_others_are_served(&gateway);
}
