//! Servers of HTTP/2 that fail: one connection carries many requests, and none is to suffer for another.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluicegate_engine::clock::{ClockHandle, ManualClock};
use support::file::gateway;
use support::frames::{DATA, END_HEADERS, GREETING, HEADERS, RESET, answer, frame, heads};
use support::raw::Client;
use support::scripted::{Caller, Scripted};
use support::{Served, until};

fn serve(scheme: &str, server: SocketAddr, upstream: &str, clock: impl Into<ClockHandle>) -> Served {
    let upstream = format!(
        "upstreams: {{ shop: {{ servers: [\"{scheme}://{server}\"], protocol: http2, {upstream} }} }}\n\
         routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]"
    );
    let rules = "rules: [{ name: ten, limits: [{ concurrency: 10 }] }]";
    Served::with_clock(&gateway(&format!("threads: 1\n{upstream}"), rules), clock)
}

fn assert_all_is_back(served: &Served) {
    until("a server is asked", || served.running().vitals().upstreams()[0].servers[0].in_flight == 0);
    until("requests are under way", || served.running().vitals().door().counts().in_flight == 0);
    let request = sluicegate_engine::rule::Request::new("GET", "/");
    until("permits are missing", || {
        let all: Vec<_> = (0..10).map(|_| served.running().sluice().decide(&request)).collect();
        all.iter().all(sluicegate_engine::Outcome::is_admitted)
    });
}

/// Waits for the so-manieth request of a connection.
fn request(caller: &mut Caller, nth: usize) -> bool {
    caller.read_until(|came| heads(came) >= nth)
}

/// A server that answers the first request of each connection, reads the second, and is gone. Counts requests.
fn once_each() -> (Scripted, Arc<AtomicUsize>) {
    let requests: Arc<AtomicUsize> = Arc::default();
    let count = Arc::clone(&requests);
    let server = Scripted::new(move |caller| {
        caller.send(GREETING);
        if request(caller, 1) {
            count.fetch_add(1, Ordering::SeqCst);
            caller.send(answer(1, "once"));
            if request(caller, 2) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (server, requests)
}

/// Each would try for itself, after all before it had tried in vain: the last of many was told hours later.
#[test]
fn those_who_wait_for_the_same_connection_fail_together() {
    let server = Scripted::new(|caller| caller.wait_for_end());
    let clock = ManualClock::new();
    let served = serve("https", server.at, "timeouts: { connect: 2s }", clock.clone());
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(served.at)).collect();
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n"));
    until("all are under way", || served.running().vitals().upstreams()[0].servers[0].in_flight == 8);
    until("one connects for all", || server.accepted() == 1);
    clock.advance(Duration::from_secs(2));
    for client in &mut clients {
        assert_eq!(client.answer().unwrap().status, 504);
    }
    assert_eq!(server.accepted(), 1);
    assert_all_is_back(&served);
}

/// As over HTTP/1: that a kept connection ends is nobody's failure.
#[test]
fn what_changes_nothing_is_sent_again_if_a_kept_connection_ends() {
    let (server, requests) = once_each();
    let served = serve("http", server.at, "", ClockHandle::system());
    let mut client = Client::connect(served.at);
    for number in 0..20 {
        let answer = client.get("/");
        assert_eq!((answer.status, answer.text().as_str()), (200, "once"), "request {number}");
    }
    // Each but the first was sent on the connection of the one before, and then on one of its own.
    assert_eq!((server.accepted(), requests.load(Ordering::SeqCst)), (20, 39));
    assert_all_is_back(&served);
}

#[test]
fn what_may_have_been_done_is_not_done_twice_over_http2() {
    let (server, requests) = once_each();
    let served = serve("http", server.at, "", ClockHandle::system());
    let mut client = Client::connect(served.at);
    for (body, status) in [("1", 200), ("2", 502), ("3", 200), ("4", 502)] {
        client.send(format!("POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: 1\r\n\r\n{body}"));
        assert_eq!(client.answer().unwrap().status, status, "{body}");
    }
    assert_eq!(requests.load(Ordering::SeqCst), 4);
    // Without a body it is the same.
    for status in [200, 502] {
        client.send("POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(client.answer().unwrap().status, status);
    }
    assert_eq!(requests.load(Ordering::SeqCst), 6);
    // Nor is anything where nobody wants it.
    let served = serve("http", server.at, "retries: 0", ClockHandle::system());
    let mut client = Client::connect(served.at);
    assert_eq!([client.get("/").status, client.get("/").status], [200, 502]);
    assert_all_is_back(&served);
}

/// A server that is gone amid its answers takes all of them along, and none looks whole.
#[test]
fn answers_that_die_with_their_connection_never_look_whole() {
    const MANY: usize = 6;
    for reset in [false, true] {
        let server = Scripted::new(move |caller| {
            caller.send(GREETING);
            if !request(caller, MANY) {
                return;
            }
            for stream in (1..).step_by(2).take(MANY) {
                caller.send([frame(HEADERS, END_HEADERS, stream, b"\x88"), frame(DATA, 0, stream, b"begun")].concat());
            }
            if reset {
                // Only the first of them; the others go on to their end.
                caller.send(frame(RESET, 0, 1, &2_u32.to_be_bytes()));
                for stream in (3..).step_by(2).take(MANY - 1) {
                    caller.send(frame(DATA, 1, stream, b"ended"));
                }
                caller.wait_for_end();
            }
        });
        let served = serve("http", server.at, "", ClockHandle::system());
        let mut clients: Vec<Client> = (0..MANY).map(|_| Client::connect(served.at)).collect();
        clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n"));
        let whole = clients.iter_mut().filter_map(Client::answer).map(|answer| answer.text()).collect::<Vec<_>>();
        assert_eq!(whole, vec!["begunended"; if reset { MANY - 1 } else { 0 }], "reset: {reset}");
        assert_eq!(server.accepted(), 1);
        assert_all_is_back(&served);
    }
}

/// What was sent of an upload may have been used: it is not sent again, to whomever.
#[test]
fn an_upload_that_was_begun_is_sent_to_nobody_else() {
    let cut = |protocol: &'static str| {
        Scripted::new(move |caller| {
            if protocol == "http2" {
                caller.send(GREETING);
                request(caller, 1);
            } else {
                caller.read_until(|came| came.windows(4).any(|end| end == b"\r\n\r\n"));
            }
        })
    };
    for protocol in ["http1", "http2"] {
        let servers = [cut(protocol), cut(protocol)];
        let yaml = gateway(
            &format!(
                "threads: 1\nupstreams: {{ shop: {{ servers: [\"http://{}\", \"http://{}\"], retries: 3, protocol: {protocol} }} }}\n\
                 routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]",
                servers[0].at, servers[1].at
            ),
            "",
        );
        let served = Served::of(&yaml);
        for (nth, method) in ["PUT", "POST", "DELETE"].into_iter().enumerate() {
            let mut client = Client::connect(served.at);
            client.send(format!("{method} / HTTP/1.1\r\nHost: shop\r\nContent-Length: 100\r\n\r\nthe beginning"));
            // The rest has no one to go to any more.
            let answer = client.answer().unwrap();
            assert_eq!(answer.status, 502, "{protocol} {method}");
            assert_eq!(servers[0].accepted() + servers[1].accepted(), nth + 1, "{protocol} {method}");
            assert!(
                matches!(client.stream.peek(&mut [0]), Ok(0))
                    || client.stream.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
            );
        }
    }
}
