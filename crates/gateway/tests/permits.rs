//! However requests fail, and whoever is to blame: in the end nothing is held that nobody uses.
//!
//! Any sequence of good and bad clients meets good and bad servers, over HTTP/1 and HTTP/2 on both sides. Each leaves
//! when it likes, so one is often still being cleared away when the next comes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use support::file::gateway;
use support::frames::{DATA, END_HEADERS, GREETING, HEADERS, Http2, RESET, answer, frame, get, head, heads};
use support::raw::Client;
use support::scripted::{Caller, Scripted};
use support::{Served, until};

/// Of everything there is so much.
const ROOM: usize = 5;

/// How long a client waits for a server that says nothing.
const PATIENCE: Duration = Duration::from_millis(15);

/// What a server does with a request; the path says which.
const DEEDS: [&str; 8] = ["/well", "/chunks", "/gone", "/garbage", "/part", "/stall", "/silent", "/switch"];

#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Reads what comes, for a while.
    Reads,
    /// Leaves as soon as it has asked.
    Leaves,
    /// Sends a body, all of it.
    Uploads,
    /// Sends a part of a body, and leaves.
    UploadsInPart,
    /// Sends what is no body.
    UploadsNonsense,
    /// Asks for another protocol.
    Switches,
    /// Speaks HTTP/2, and reads.
    Streams,
    /// Speaks HTTP/2, and takes its request back.
    Resets,
    /// Speaks HTTP/2, and leaves amid an upload.
    StreamsInPart,
}

fn manner() -> impl Strategy<Value = Manner> {
    prop::sample::select(vec![
        Manner::Reads,
        Manner::Leaves,
        Manner::Uploads,
        Manner::UploadsInPart,
        Manner::UploadsNonsense,
        Manner::Switches,
        Manner::Streams,
        Manner::Resets,
        Manner::StreamsInPart,
    ])
}

fn http1_server() -> Scripted {
    Scripted::new(|caller| {
        while let Some(line) = caller.request_line() {
            let path = line.split(' ').nth(1).unwrap_or_default();
            match path {
                "/well" => caller.answer("well"),
                "/chunks" => caller.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwell\r\n0\r\n\r\n"),
                "/garbage" => return caller.send("garbage\r\n\r\n"),
                "/part" => return caller.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun"),
                "/stall" => {
                    caller.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun");
                    return caller.wait_for_end();
                }
                "/silent" => return caller.wait_for_end(),
                "/switch" => {
                    caller.send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\nhello");
                    return caller.wait_for_end();
                }
                _ => return,
            }
        }
    })
}

/// What is done here goes by turns: paths are compressed.
fn http2_server() -> Scripted {
    let turn = AtomicUsize::new(0);
    Scripted::new(move |caller: &mut Caller| {
        caller.send(GREETING);
        for (nth, stream) in (1..).zip((1_u32..).step_by(2)) {
            if !caller.read_until(|came| heads(came) >= nth) {
                return;
            }
            let begun = || [frame(HEADERS, END_HEADERS, stream, b"\x88"), frame(DATA, 0, stream, b"begun")].concat();
            match turn.fetch_add(1, Ordering::SeqCst) % 6 {
                0 => caller.send(answer(stream, "well")),
                1 => caller.send(frame(RESET, 0, stream, &7_u32.to_be_bytes())),
                2 => caller.send([begun(), frame(RESET, 0, stream, &2_u32.to_be_bytes())].concat()),
                3 => caller.send(begun()),
                4 => {}
                _ => return,
            }
        }
    })
}

/// One client's visit.
fn visit(served: &Served, manner: Manner, path: &str) {
    let line = |method: &str, more: &str| format!("{method} {path} HTTP/1.1\r\nHost: shop\r\n{more}\r\n");
    let sent = match manner {
        Manner::Reads | Manner::Leaves => line("GET", ""),
        Manner::Uploads => line("POST", "Content-Length: 5\r\n") + "hello",
        Manner::UploadsInPart => line("PUT", "Content-Length: 500\r\n") + "hello",
        Manner::UploadsNonsense => line("POST", "Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\nzz\r\n",
        Manner::Switches => line("GET", "Connection: upgrade\r\nUpgrade: chat\r\n"),
        Manner::Streams | Manner::Resets | Manner::StreamsInPart => return stream(served, manner, path),
    };
    let mut client = Client::connect(served.at);
    client.send(sent);
    if !matches!(manner, Manner::Leaves | Manner::UploadsInPart) {
        read_for_a_while(&mut client.stream);
    }
}

fn stream(served: &Served, manner: Manner, path: &str) {
    let mut client = Http2::connect(served.at);
    if matches!(manner, Manner::StreamsInPart) {
        let post = [(":method", "POST"), (":scheme", "http"), (":authority", "shop"), (":path", path)];
        client.send([head(1, 0, &post), frame(DATA, 0, 1, b"hello")].concat());
        return;
    }
    client.send(get(1, path));
    match manner {
        Manner::Resets => drop(client.send(frame(RESET, 0, 1, &8_u32.to_be_bytes()))),
        _ => read_for_a_while(&mut client.stream),
    }
}

fn read_for_a_while(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 4_096];
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    drop(stream.flush());
}

fn serve(server: &Scripted, protocol: &str) -> Served {
    let upstream = format!(
        "in_flight: {ROOM}\nupstreams: {{ shop: {{ servers: [\"http://{}\"], protocol: {protocol}, connections: {ROOM} }} }}\n\
         routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]",
        server.at
    );
    let rules = format!("rules: [{{ name: few, limits: [{{ concurrency: {ROOM} }}] }}]");
    Served::of(&gateway(&upstream, &rules))
}

/// After so many connections. Who has left may not have come in yet.
fn assert_all_is_back(served: &Served, connections: usize) {
    let vitals = served.running().vitals();
    until("all have come", || vitals.door().counts().accepted == connections as u64);
    until("all have left", || vitals.door().counts().open == 0);
    until("no request is under way", || {
        let counts = vitals.door().counts();
        (counts.in_flight, counts.requests_waiting, vitals.under_way()) == (0, 0, 0)
    });
    until("no server is asked", || vitals.upstreams()[0].servers[0].in_flight == 0);
    let request = sluicegate_engine::rule::Request::new("GET", "/");
    until("permits are missing", || {
        let all: Vec<_> = (0..=ROOM).map(|_| served.running().sluice().decide(&request)).collect();
        all.iter().filter(|outcome| outcome.is_admitted()).count() == ROOM
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_held_after_any_failures(
        visits in prop::collection::vec((manner(), prop::sample::select(&DEEDS[..])), 1..24),
    ) {
        let server = http1_server();
        let served = serve(&server, "http1");
        for &(manner, path) in &visits {
            visit(&served, manner, path);
        }
        assert_all_is_back(&served, visits.len());
        // As many as ever can be under way at once, which takes all turns, permits and connections there are.
        let mut clients: Vec<Client> = (0..ROOM).map(|_| Client::connect(served.at)).collect();
        clients.iter_mut().for_each(|client| client.send("GET /stall HTTP/1.1\r\nHost: shop\r\n\r\n"));
        for client in &mut clients {
            prop_assert_eq!(client.line(), Some("HTTP/1.1 200 OK".to_owned()));
        }
        drop(clients);
        assert_all_is_back(&served, visits.len() + ROOM);
    }

    #[test]
    fn nothing_is_held_after_any_failures_of_http2(visits in prop::collection::vec(manner(), 1..24)) {
        let server = http2_server();
        let served = serve(&server, "http2");
        for manner in &visits {
            visit(&served, *manner, "/");
        }
        assert_all_is_back(&served, visits.len());
    }
}
