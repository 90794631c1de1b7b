//! Property test: no failure of a client or a server leaks a permit.
//!
//! Random sequences of valid and faulty clients meet valid and faulty servers, over HTTP/1 and HTTP/2 on both
//! sides. Clients leave at any time, so one is often still being cleaned up when the next connects.

use crate::support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use support::file::gateway_yaml;
use support::frames::{
    DATA, END_HEADERS, GREETING, HEADERS, Http2, RESET, count_requests, frame, get, head, response_frames,
};
use support::raw::Client;
use support::scripted::{ScriptedConnection, ScriptedServer};
use support::{TestGateway, wait_until};

/// Capacity of every limit.
const CAPACITY: usize = 5;

/// Time that a client waits for a silent server.
const TIMEOUT: Duration = Duration::from_millis(15);

/// Paths that select the behavior of the server.
const PATHS: [&str; 8] = ["/well", "/chunks", "/gone", "/garbage", "/part", "/stall", "/silent", "/switch"];

#[derive(Clone, Copy, Debug)]
enum ClientBehavior {
    /// Reads for a while.
    Reads,
    /// Disconnects after sending its request.
    Leaves,
    /// Sends a complete body.
    Uploads,
    /// Sends a part of a body and disconnects.
    UploadsInPart,
    /// Sends an invalid body.
    UploadsNonsense,
    /// Requests an upgrade.
    Switches,
    /// Uses HTTP/2 and reads.
    Streams,
    /// Uses HTTP/2 and resets its stream.
    Resets,
    /// Uses HTTP/2 and disconnects during an upload.
    StreamsInPart,
}

fn client_behavior() -> impl Strategy<Value = ClientBehavior> {
    prop::sample::select(vec![
        ClientBehavior::Reads,
        ClientBehavior::Leaves,
        ClientBehavior::Uploads,
        ClientBehavior::UploadsInPart,
        ClientBehavior::UploadsNonsense,
        ClientBehavior::Switches,
        ClientBehavior::Streams,
        ClientBehavior::Resets,
        ClientBehavior::StreamsInPart,
    ])
}

fn http1_server() -> ScriptedServer {
    ScriptedServer::new(|connection| {
        while let Some(line) = connection.request_line() {
            let path = line.split(' ').nth(1).unwrap_or_default();
            match path {
                "/well" => connection.respond("well"),
                "/chunks" => {
                    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwell\r\n0\r\n\r\n");
                }
                "/garbage" => return connection.send("garbage\r\n\r\n"),
                "/part" => return connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun"),
                "/stall" => {
                    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nbegun");
                    return connection.wait_for_end();
                }
                "/silent" => return connection.wait_for_end(),
                "/switch" => {
                    connection.send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\nhello");
                    return connection.wait_for_end();
                }
                _ => return,
            }
        }
    })
}

/// Behaviors rotate here, because HTTP/2 paths are compressed.
fn http2_server() -> ScriptedServer {
    let next_case = AtomicUsize::new(0);
    ScriptedServer::new(move |connection: &mut ScriptedConnection| {
        connection.send(GREETING);
        for (index, stream) in (1..).zip((1_u32..).step_by(2)) {
            if !connection.read_until(|received| count_requests(received) >= index) {
                return;
            }
            let start = || [frame(HEADERS, END_HEADERS, stream, b"\x88"), frame(DATA, 0, stream, b"begun")].concat();
            match next_case.fetch_add(1, Ordering::SeqCst) % 6 {
                0 => connection.send(response_frames(stream, "well")),
                1 => connection.send(frame(RESET, 0, stream, &7_u32.to_be_bytes())),
                2 => connection.send([start(), frame(RESET, 0, stream, &2_u32.to_be_bytes())].concat()),
                3 => connection.send(start()),
                4 => {}
                _ => return,
            }
        }
    })
}

/// Runs one HTTP/1 client.
fn run_http1(gateway: &TestGateway, behavior: ClientBehavior, path: &str) {
    let line = |method: &str, more: &str| format!("{method} {path} HTTP/1.1\r\nHost: shop\r\n{more}\r\n");
    let sent = match behavior {
        ClientBehavior::Reads | ClientBehavior::Leaves => line("GET", ""),
        ClientBehavior::Uploads => line("POST", "Content-Length: 5\r\n") + "hello",
        ClientBehavior::UploadsInPart => line("PUT", "Content-Length: 500\r\n") + "hello",
        ClientBehavior::UploadsNonsense => line("POST", "Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\nzz\r\n",
        ClientBehavior::Switches => line("GET", "Connection: upgrade\r\nUpgrade: chat\r\n"),
        ClientBehavior::Streams | ClientBehavior::Resets | ClientBehavior::StreamsInPart => {
            return run_http2(gateway, behavior, path);
        }
    };
    let mut client = Client::connect(gateway.at);
    client.send(sent);
    if !matches!(behavior, ClientBehavior::Leaves | ClientBehavior::UploadsInPart) {
        read_for_a_while(&mut client.stream);
    }
}

fn run_http2(gateway: &TestGateway, behavior: ClientBehavior, path: &str) {
    let mut client = Http2::connect(gateway.at);
    if matches!(behavior, ClientBehavior::StreamsInPart) {
        let post = [(":method", "POST"), (":scheme", "http"), (":authority", "shop"), (":path", path)];
        client.send([head(1, 0, &post), frame(DATA, 0, 1, b"hello")].concat());
        return;
    }
    client.send(get(1, path));
    match behavior {
        ClientBehavior::Resets => drop(client.send(frame(RESET, 0, 1, &8_u32.to_be_bytes()))),
        _ => read_for_a_while(&mut client.stream),
    }
}

fn read_for_a_while(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut buffer = [0; 4_096];
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    drop(stream.flush());
}

fn serve(server: &ScriptedServer, protocol: &str) -> TestGateway {
    let upstream = format!(
        "max_in_flight: {CAPACITY}\nupstreams: {{ shop: {{ servers: [\"http://{}\"], protocol: {protocol}, max_connections: {CAPACITY} }} }}\n\
         routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]",
        server.at
    );
    let rules = format!("rules: [{{ name: few, limits: [{{ concurrency: {CAPACITY} }}] }}]");
    TestGateway::from_yaml(&gateway_yaml(&upstream, &rules))
}

/// Waits for this many connections first: one that has left may not be accepted yet.
fn assert_all_permits_released(gateway: &TestGateway, connections: usize) {
    let stats = gateway.running().stats();
    wait_until("all are connected", || stats.listener().counts().accepted == connections as u64);
    wait_until("all are closed", || stats.listener().counts().open == 0);
    wait_until("no request is in flight", || {
        let counts = stats.listener().counts();
        (counts.in_flight, counts.requests_queued, stats.in_flight()) == (0, 0, 0)
    });
    wait_until("no request is at a server", || stats.upstreams()[0].servers[0].in_flight == 0);
    let request = sluicegate_engine::rule::Request::new("GET", "/");
    wait_until("permits leaked", || {
        let all: Vec<_> = (0..=CAPACITY).map(|_| gateway.running().sluice().decide(&request)).collect();
        all.iter().filter(|outcome| outcome.is_admitted()).count() == CAPACITY
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_permit_leaks_after_failures(
        visits in prop::collection::vec((client_behavior(), prop::sample::select(&PATHS[..])), 1..24),
    ) {
        let server = http1_server();
        let gateway = serve(&server, "http1");
        for &(manner, path) in &visits {
            run_http1(&gateway, manner, path);
        }
        assert_all_permits_released(&gateway, visits.len());
        // As many requests as can be in flight, which needs all permits and connections.
        let mut clients: Vec<Client> = (0..CAPACITY).map(|_| Client::connect(gateway.at)).collect();
        clients.iter_mut().for_each(|client| client.send("GET /stall HTTP/1.1\r\nHost: shop\r\n\r\n"));
        for client in &mut clients {
            prop_assert_eq!(client.line(), Some("HTTP/1.1 200 OK".to_owned()));
        }
        drop(clients);
        assert_all_permits_released(&gateway, visits.len() + CAPACITY);
    }

    #[test]
    fn no_permit_leaks_after_http2_failures(visits in prop::collection::vec(client_behavior(), 1..24)) {
        let server = http2_server();
        let gateway = serve(&server, "http2");
        for manner in &visits {
            run_http1(&gateway, *manner, "/");
        }
        assert_all_permits_released(&gateway, visits.len());
    }
}
