//! Clients that send too much, too slowly, or do not read. Whatever they do is bounded, what they held is given
//! back, and others do not notice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use sluicegate_engine::clock::ManualClock;
use support::frames::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, Fate, GO_AWAY, HEADERS, Http2, PING, RESET, SETTINGS,
};
use support::raw::Client;
use support::upstream::Upstream;
use support::{Served, before, until};

const ENHANCE_YOUR_CALM: u32 = 11;

/// One at a time may have what is under `/one`.
const ONE: &str = "rules: [{ name: one, match: '/one/{*rest}', limits: [{ concurrency: 1 }] }]";

/// A gateway with a clock turned by hand, before a server that may take its time.
fn timed(upstream: SocketAddr) -> (ManualClock, Served) {
    let clock = ManualClock::new();
    let yaml = before(&[upstream], ONE).replace("servers:", "timeouts: { answer: 1h, body: 1h }, servers:");
    let served = Served::with_clock(&yaml, clock.clone());
    (clock, served)
}

/// Turns the clock on by seconds, until something has come of it.
fn pass(clock: &ManualClock, what: &str, mut holds: impl FnMut() -> bool) {
    until(what, || {
        clock.advance(Duration::from_secs(1));
        holds()
    });
}

/// Another client is served as if nothing were.
fn others_are_served(served: &Served) {
    assert_eq!(Client::connect(served.at).get("/other").status, 200);
}

/// The one permit is free, or will be.
fn the_permit_is_given_back(served: &Served) {
    let mut client = Client::connect(served.at);
    until("the permit is given back", || client.get("/one/small").status == 200);
}

/// A server whose answers never end, and which never reads a body to its end; other paths are answered at once.
struct Endless {
    at: SocketAddr,
    /// Bytes that came, heads and all.
    taken: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Endless {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let counts = || Arc::new(AtomicUsize::new(0));
        let this = Self { at: listener.local_addr().unwrap(), taken: counts(), begun: counts(), ended: counts() };
        let (taken, begun, ended) = (Arc::clone(&this.taken), Arc::clone(&this.begun), Arc::clone(&this.ended));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (taken, begun, ended) = (Arc::clone(&taken), Arc::clone(&begun), Arc::clone(&ended));
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    while let Some(endless) = next_request(&mut stream, &taken) {
                        if endless {
                            begun.fetch_add(1, Ordering::SeqCst);
                            pour(&mut stream);
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

/// Reads a request, and answers it if its answer has an end.
fn next_request(stream: &mut TcpStream, taken: &AtomicUsize) -> Option<bool> {
    let mut head = Vec::new();
    while !head.windows(4).any(|it| it == b"\r\n\r\n") {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        taken.fetch_add(read, Ordering::SeqCst);
        head.extend(&buffer[..read]);
    }
    let endless = head.windows(7).any(|it| it == b"endless");
    if head.starts_with(b"POST") {
        // All that still comes, to the end of the connection.
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            taken.fetch_add(read, Ordering::SeqCst);
        }
        return None;
    }
    if !endless {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall").ok()?;
    }
    Some(endless)
}

fn pour(stream: &mut TcpStream) {
    drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"));
    while stream.write_all(&[b'x'; 64 << 10]).is_ok() {}
}

#[test]
fn streams_that_are_reset_at_once() {
    let upstream = Upstream::saying("hello");
    let served = Served::of(&before(&[upstream.at], ONE));
    let mut client = Http2::connect(served.at);
    let mut opened = 0;
    for number in 0..10_000 {
        let stream = number * 2 + 1;
        let reset = frames::frame(RESET, 0, stream, &8_u32.to_be_bytes());
        if !client.send([frames::get(stream, "/one/reset"), reset].concat()) {
            break;
        }
        opened += 1;
        if number % 1_000 == 0 {
            others_are_served(&served);
        }
    }
    assert_eq!(client.end(), Fate::GoAway(ENHANCE_YOUR_CALM), "after {opened}");
    others_are_served(&served);
    the_permit_is_given_back(&served);
    let reset = upstream.seen.lock().iter().filter(|it| it.uri().path() == "/one/reset").count();
    assert!(reset < 500, "{reset} of {opened} arrived");
}

#[test]
fn streams_that_are_reset_once_they_are_under_way() {
    // Nobody is answered: each stream is under way until it is reset.
    let begun = Arc::new(AtomicUsize::new(0));
    let upstream = {
        let begun = Arc::clone(&begun);
        Upstream::new(move |request| {
            let begun = Arc::clone(&begun);
            async move {
                if request.uri().path() == "/one/slow" {
                    begun.fetch_add(1, Ordering::SeqCst);
                    std::future::pending::<()>().await;
                }
                Response::new(Bytes::from_static(b"hello"))
            }
        })
    };
    let served = Served::of(&before(&[upstream.at], ONE));
    let mut client = Http2::connect(served.at);
    for number in 0..200 {
        let stream = number * 2 + 1;
        client.send(frames::get(stream, "/one/slow"));
        until("it is under way", || begun.load(Ordering::SeqCst) == number as usize + 1);
        client.send(frames::frame(RESET, 0, stream, &8_u32.to_be_bytes()));
        the_permit_is_given_back(&served);
    }
    client.send(frames::get(1_001, "/other"));
    assert_eq!(client.fate(1_001), Fate::Status(200));
}

#[test]
fn a_head_that_goes_on_and_on() {
    let upstream = Upstream::saying("hello");
    let served = Served::of(&before(&[upstream.at], ""));
    let method = frames::block(&[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/flood")]);
    let nothing = Vec::new();
    let (small, large) = (frames::block(&[("x-a", "b")]), frames::block(&[("x-a", &"b".repeat(10_000))]));
    for (name, part) in [("nothing", nothing), ("small", small), ("large", large)] {
        let mut client = Http2::connect(served.at);
        client.send(frames::frame(HEADERS, END_STREAM, 1, &method));
        let part = frames::frame(CONTINUATION, 0, 1, &part);
        let batch = part.repeat((64 << 10) / part.len());
        let sent = (0..10_000).take_while(|_| client.send(&batch)).count() * batch.len();
        // What the kernel holds for both sides is more than what the gateway takes.
        assert!(sent < 64 << 20, "{name}: {sent} bytes were taken");
        let fate = client.end();
        assert!(matches!(fate, Fate::GoAway(1..) | Fate::Closed), "{name}: {fate:?}");
        others_are_served(&served);
    }
    // A head that is too large, but ends, is answered, or its connection closed; it does not arrive.
    let mut client = Http2::connect(served.at);
    let lines = frames::block(&[("x-a", &"b".repeat(10_000))]);
    client.send(frames::frame(HEADERS, END_STREAM, 1, &method));
    client.send(frames::frame(CONTINUATION, 0, 1, &lines).repeat(8));
    client.send(frames::frame(CONTINUATION, END_HEADERS, 1, &[]));
    let fate = client.fate(1);
    assert!(matches!(fate, Fate::Status(431) | Fate::Reset(_) | Fate::GoAway(1..)), "{fate:?}");
    assert!(!upstream.seen.lock().iter().any(|it| it.uri().path() == "/flood"));
}

/// A header that was sent once can be named again in one byte: little is sent, and much is meant.
#[test]
fn a_head_that_is_larger_than_it_looks() {
    let upstream = Upstream::saying("hello");
    let served = Served::of(&before(&[upstream.at], ""));
    let mut client = Http2::connect(served.at);
    let mut block = frames::block(&[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/flood")]);
    // A header for the dynamic table, whose newest entry is number 62.
    let header = frames::block(&[("x-bomb", &"b".repeat(4_000))]);
    block.push(0x40);
    block.extend(&header[1..]);
    block.extend([0x80 | 62; 10_000]);
    client.send(frames::frame(HEADERS, END_HEADERS | END_STREAM, 1, &block));
    let fate = client.fate(1);
    assert!(matches!(fate, Fate::Status(431) | Fate::Reset(_) | Fate::GoAway(1..)), "{fate:?}");
    assert_eq!(upstream.requests(), 0);
    others_are_served(&served);
}

#[test]
fn thousands_of_forwarded_hops_hide_nobody() {
    let upstream = Upstream::saying("hello");
    let yaml = before(&[upstream.at], "rules: [{ name: per-ip, key: client.ip, limits: [1/1h] }]");
    let served = Served::of(&yaml.replace("threads: 2", "threads: 2\n  trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]"));
    let hops = "10.1.2.3, ".repeat(5_000);
    for (client, status) in [("192.0.2.1", 200), ("192.0.2.1", 429), ("192.0.2.2", 200), ("::ffff:192.0.2.2", 429)] {
        let mut proxy = Client::connect(served.at);
        proxy.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {hops}{client}, 10.0.0.1\r\n\r\n"));
        assert_eq!(proxy.answer().unwrap().status, status, "{client}");
    }
}

/// Frames that want an answer, from somebody who reads none: at some point no more are taken, and at the
/// deadline the connection is closed.
#[test]
fn questions_whose_answers_nobody_reads() {
    let upstream = Upstream::saying("hello");
    let (clock, served) = timed(upstream.at);
    for (number, frame) in [frames::frame(PING, 0, 0, &[7; 8]), frames::frame(SETTINGS, 0, 0, &[])].iter().enumerate() {
        let mut client = Http2::connect(served.at);
        client.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let batch = frame.repeat(1_000);
        let taken = (0..10_000).take_while(|_| client.send(&batch)).count() * batch.len();
        assert!(taken < 64 << 20, "{taken} bytes were taken");
        others_are_served(&served);
        pass(&clock, "it is closed", || served.running().vitals().door().counts().header_timeouts == number as u64 + 1);
    }
}

#[test]
fn questions_whose_answers_are_read_harm_nobody() {
    let upstream = Upstream::saying("hello");
    let served = Served::of(&before(&[upstream.at], ""));
    let mut client = Http2::connect(served.at);
    for _ in 0..100 {
        client.send(frames::frame(PING, 0, 0, &[7; 8]).repeat(100));
        let mut answered = 0;
        while answered < 100 {
            let frame = client.next().unwrap();
            assert_ne!(frame.kind, GO_AWAY);
            answered += usize::from(frame.kind == PING && frame.flags == END_STREAM);
        }
    }
    client.send(frames::get(1, "/after"));
    assert_eq!(client.fate(1), Fate::Status(200));
}

#[test]
fn data_without_data() {
    let upstream = Upstream::saying("hello");
    let served = Served::of(&before(&[upstream.at], ""));
    let mut client = Http2::connect(served.at);
    let (method, scheme) = ((":method", "POST"), (":scheme", "http"));
    client.send(frames::head(1, 0, &[method, scheme, (":authority", "a"), (":path", "/empty")]));
    let batch = frames::frame(DATA, 0, 1, &[]).repeat(1_000);
    let all_taken = (0..100).all(|_| client.send(&batch));
    others_are_served(&served);
    client.send(frames::frame(DATA, END_STREAM, 1, b"end"));
    let fate = client.fate(1);
    // Either it is borne with, or the connection is ended; never is anything made of it.
    match fate {
        Fate::Status(200) => {
            assert!(all_taken);
            let seen = upstream.seen.lock();
            assert_eq!(seen.iter().find(|it| it.uri().path() == "/empty").unwrap().body(), "end");
        }
        Fate::GoAway(ENHANCE_YOUR_CALM) | Fate::Closed => {}
        _ => panic!("{fate:?}"),
    }
}

#[test]
fn heads_that_come_a_byte_at_a_time() {
    let upstream = Upstream::saying("hello");
    let (clock, served) = timed(upstream.at);
    let mut clients: Vec<Client> = (0..50).map(|_| Client::connect(served.at)).collect();
    until("all are in", || served.running().vitals().door().counts().open == 50);
    for byte in b"GET / HTT" {
        clients.iter_mut().for_each(|client| client.send([*byte]));
        others_are_served(&served);
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(served.running().vitals().door().counts().header_timeouts, 0);
    clock.advance(Duration::from_secs(1));
    for client in &mut clients {
        assert!(client.is_closed());
    }
    until("all are counted", || served.running().vitals().door().counts().header_timeouts == 50);
    // Nor does a first good request help the second.
    let mut second = Client::connect(served.at);
    assert_eq!(second.get("/").status, 200);
    second.send("GET / HTTP/1.1\r\nX-Slow: ");
    pass(&clock, "it is closed", || served.running().vitals().door().counts().header_timeouts == 51);
    assert!(second.is_closed());
    assert_eq!(upstream.seen.lock().iter().filter(|it| it.uri().path() == "/").count(), 1);
}

#[test]
fn bodies_that_stop_coming() {
    let upstream = Endless::new();
    let (clock, served) = timed(upstream.at);
    let taken = || upstream.taken.load(Ordering::SeqCst);

    let mut client = Client::connect(served.at);
    client.send("POST /one/body HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    until("its beginning has arrived", || taken() > 0);
    assert_eq!(Client::connect(served.at).get("/one/small").status, 429);
    clock.advance(Duration::from_secs(29));
    assert!(nothing_to_read(&client.stream));
    client.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    pass(&clock, "it is answered", || !nothing_to_read(&client.stream));
    client.stream.set_read_timeout(Some(support::GUARD)).unwrap();
    assert_eq!(client.answer().unwrap().status, 408);
    assert!(client.is_closed());
    the_permit_is_given_back(&served);

    let before = taken();
    let mut client = Http2::connect(served.at);
    let head = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/one/body")];
    client.send(frames::head(1, 0, &head));
    client.send(frames::frame(DATA, 0, 1, b"hello"));
    until("its beginning has arrived", || taken() > before);
    assert_eq!(Client::connect(served.at).get("/one/small").status, 429);
    let ticking = {
        let clock = clock.clone();
        std::thread::spawn(move || {
            (0..60).for_each(|_| {
                std::thread::sleep(Duration::from_millis(5));
                clock.advance(Duration::from_secs(1));
            });
        })
    };
    assert_eq!(client.fate(1), Fate::Status(408));
    ticking.join().unwrap();
    the_permit_is_given_back(&served);
    let under_way: u64 =
        served.running().vitals().upstreams().iter().flat_map(|it| &it.servers).map(|it| it.in_flight).sum();
    assert_eq!(under_way, 0);
}

fn nothing_to_read(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn answers_that_nobody_reads() {
    let upstream = Endless::new();
    let (clock, served) = timed(upstream.at);
    let ended = || upstream.ended.load(Ordering::SeqCst);
    let unread = || served.running().vitals().door().counts().unread_closed;

    let mut client = Client::connect(served.at);
    client.send("GET /one/endless HTTP/1.1\r\nHost: a\r\n\r\n");
    until("the answer has begun", || upstream.begun.load(Ordering::SeqCst) == 1);
    assert_eq!(Client::connect(served.at).get("/one/small").status, 429);
    pass(&clock, "it is closed", || unread() == 1);
    until("the server is let go", || ended() == 1);
    the_permit_is_given_back(&served);

    // Over HTTP/2, with no window at all, and with one that is soon full.
    for (number, window) in [0, 65_535].into_iter().enumerate() {
        let mut client = Http2::with_settings(served.at, &[(4, window)]);
        client.send(frames::get(1, "/one/endless"));
        assert_eq!(client.fate(1), Fate::Status(200), "window {window}");
        assert_eq!(Client::connect(served.at).get("/one/small").status, 429);
        pass(&clock, "it is closed", || unread() == 2 + number as u64);
        until("the server is let go", || ended() == 2 + number);
        the_permit_is_given_back(&served);
    }
    others_are_served(&served);
}
