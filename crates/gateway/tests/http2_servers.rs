//! Failing HTTP/2 upstreams: many requests share a connection and must not affect each other.

use crate::support;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate_engine::clock::{ClockHandle, ManualClock};
use support::file::gateway_yaml;
use support::frames::{DATA, END_HEADERS, GREETING, HEADERS, RESET, count_requests, frame, response_frames};
use support::raw::Client;
use support::scripted::{ScriptedConnection, ScriptedServer};
use support::{TestGateway, wait_until};

fn serve(scheme: &str, server: SocketAddr, upstream: &str, clock: impl Into<ClockHandle>) -> TestGateway {
    let upstream = format!(
        "upstreams: {{ shop: {{ servers: [\"{scheme}://{server}\"], protocol: http2, {upstream} }} }}\n\
         routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]"
    );
    let rules = "rules: [{ name: ten, limits: [{ concurrency: 10 }] }]";
    TestGateway::with_clock(&gateway_yaml(&format!("threads: 1\n{upstream}"), rules), clock)
}

fn assert_all_permits_released(gateway: &TestGateway) {
    wait_until("a request is at a server", || gateway.running().stats().upstreams()[0].servers[0].in_flight == 0);
    wait_until("requests are in flight", || gateway.running().stats().listener().counts().in_flight == 0);
    let request = sluicegate_engine::rule::Request::new("GET", "/");
    wait_until("permits leaked", || {
        let all: Vec<_> = (0..10).map(|_| gateway.running().sluice().decide(&request)).collect();
        all.iter().all(sluicegate_engine::Outcome::is_admitted)
    });
}

/// Waits for the index request of a connection.
fn request(connection: &mut ScriptedConnection, index: usize) -> bool {
    connection.read_until(|received| count_requests(received) >= index)
}

/// A server that responds to the first request of each connection, reads the second and closes. Counts
/// requests.
fn one_request_per_connection() -> (ScriptedServer, Arc<AtomicUsize>) {
    let requests: Arc<AtomicUsize> = Arc::default();
    let count = Arc::clone(&requests);
    let server = ScriptedServer::new(move |connection| {
        connection.send(GREETING);
        if request(connection, 1) {
            count.fetch_add(1, Ordering::SeqCst);
            connection.send(response_frames(1, "once"));
            if request(connection, 2) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (server, requests)
}

/// Regression: each request used to retry by itself, after all before it had failed, so the last of many failed
/// hours later.
#[test]
fn requests_waiting_for_one_connection_fail_together() {
    let server = ScriptedServer::new(|connection| connection.wait_for_end());
    let clock = ManualClock::new();
    let gateway = serve("https", server.at, "timeouts: { connect: 2s }", clock.clone());
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(gateway.at)).collect();
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n"));
    wait_until("all are in flight", || gateway.running().stats().upstreams()[0].servers[0].in_flight == 8);
    wait_until("one connects for all", || server.accepted() == 1);
    clock.advance(Duration::from_secs(2));
    for client in &mut clients {
        assert_eq!(client.read_response().unwrap().status, 504);
    }
    assert_eq!(server.accepted(), 1);
    assert_all_permits_released(&gateway);
}

/// As over HTTP/1: the end of a reused connection is not a failure.
#[test]
fn idempotent_requests_are_retried_when_a_reused_connection_ends() {
    let (server, requests) = one_request_per_connection();
    let gateway = serve("http", server.at, "", ClockHandle::system());
    let mut client = Client::connect(gateway.at);
    for number in 0..20 {
        let response = client.get("/");
        assert_eq!((response.status, response.text().as_str()), (200, "once"), "request {number}");
    }
    // Each request but the first was sent on the previous connection, and then on a new one.
    assert_eq!((server.accepted(), requests.load(Ordering::SeqCst)), (20, 39));
    assert_all_permits_released(&gateway);
}

#[test]
fn non_idempotent_requests_are_not_retried_over_http2() {
    let (server, requests) = one_request_per_connection();
    let gateway = serve("http", server.at, "", ClockHandle::system());
    let mut client = Client::connect(gateway.at);
    for (body, status) in [("1", 200), ("2", 502), ("3", 200), ("4", 502)] {
        client.send(format!("POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: 1\r\n\r\n{body}"));
        assert_eq!(client.read_response().unwrap().status, status, "{body}");
    }
    assert_eq!(requests.load(Ordering::SeqCst), 4);
    // The same without a body.
    for status in [200, 502] {
        client.send("POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(client.read_response().unwrap().status, status);
    }
    assert_eq!(requests.load(Ordering::SeqCst), 6);
    // Retries can be disabled.
    let gateway = serve("http", server.at, "retries: 0", ClockHandle::system());
    let mut client = Client::connect(gateway.at);
    assert_eq!([client.get("/").status, client.get("/").status], [200, 502]);
    assert_all_permits_released(&gateway);
}

/// A server that closes during its responses aborts all of them, and none looks complete.
#[test]
fn responses_cut_by_a_closed_connection_never_look_complete() {
    const MANY: usize = 6;
    for reset in [false, true] {
        let server = ScriptedServer::new(move |connection| {
            connection.send(GREETING);
            if !request(connection, MANY) {
                return;
            }
            for stream in (1..).step_by(2).take(MANY) {
                connection
                    .send([frame(HEADERS, END_HEADERS, stream, b"\x88"), frame(DATA, 0, stream, b"begun")].concat());
            }
            if reset {
                // Only the first one is reset; the others continue to their end.
                connection.send(frame(RESET, 0, 1, &2_u32.to_be_bytes()));
                for stream in (3..).step_by(2).take(MANY - 1) {
                    connection.send(frame(DATA, 1, stream, b"ended"));
                }
                connection.wait_for_end();
            }
        });
        let gateway = serve("http", server.at, "", ClockHandle::system());
        let mut clients: Vec<Client> = (0..MANY).map(|_| Client::connect(gateway.at)).collect();
        clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n"));
        let whole =
            clients.iter_mut().filter_map(Client::read_response).map(|response| response.text()).collect::<Vec<_>>();
        assert_eq!(whole, vec!["begunended"; if reset { MANY - 1 } else { 0 }], "reset: {reset}");
        assert_eq!(server.accepted(), 1);
        assert_all_permits_released(&gateway);
    }
}

/// The sent part of an upload may have been used, so it is not sent again to any server.
#[test]
fn a_started_upload_is_not_retried() {
    let cut = |protocol: &'static str| {
        ScriptedServer::new(move |connection| {
            if protocol == "http2" {
                connection.send(GREETING);
                request(connection, 1);
            } else {
                connection.read_until(|received| received.windows(4).any(|end| end == b"\r\n\r\n"));
            }
        })
    };
    for protocol in ["http1", "http2"] {
        let servers = [cut(protocol), cut(protocol)];
        let yaml = gateway_yaml(
            &format!(
                "threads: 1\nupstreams: {{ shop: {{ servers: [\"http://{}\", \"http://{}\"], retries: 3, protocol: {protocol} }} }}\n\
                 routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]",
                servers[0].at, servers[1].at
            ),
            "",
        );
        let gateway = TestGateway::from_yaml(&yaml);
        for (index, method) in ["PUT", "POST", "DELETE"].into_iter().enumerate() {
            let mut client = Client::connect(gateway.at);
            client.send(format!("{method} / HTTP/1.1\r\nHost: shop\r\nContent-Length: 100\r\n\r\nthe beginning"));
            // The remaining upload has no recipient.
            let response = client.read_response().unwrap();
            assert_eq!(response.status, 502, "{protocol} {method}");
            assert_eq!(servers[0].accepted() + servers[1].accepted(), index + 1, "{protocol} {method}");
            assert!(
                matches!(client.stream.peek(&mut [0]), Ok(0))
                    || client.stream.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
            );
        }
    }
}
