//! What is reserved first and settled afterwards, also where a request goes wrong: nobody gets anything for nothing, and
//! nobody pays for what it did not get.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::raw::Client;
use support::scripted::Scripted;
use support::upstream::Upstream;
use support::{Served, before, until};

/// A gateway with a thousand an hour, of which a request reserves a hundred.
fn serve(server: SocketAddr, actual: &str) -> Served {
    let rules = format!("rules: [{{ name: t, limits: [1000/1h], cost: {{ estimate: 100, actual: \"{actual}\" }} }}]");
    Served::of(&before(&[server], &rules))
}

/// How much has been spent so far.
fn spent(served: &Served) -> u64 {
    let request = sluicegate_engine::rule::Request::new("GET", "/");
    let outcome = served.running().sluice().decide(&request);
    let (_, said) = outcome.decisions().next().unwrap();
    let left = said.decision.status.remaining;
    // It takes nothing.
    outcome.settle_by(|_| Some(0));
    1_000 - 100 - left
}

/// Waits until so much is spent, and nothing is reserved any more.
fn settles_to(served: &Served, amount: u64, what: &str) {
    until(what, || spent(served) == amount);
    until("nothing is under way", || served.running().vitals().upstreams()[0].servers[0].in_flight == 0);
    assert_eq!(spent(served), amount, "{what}");
}

#[test]
fn an_upload_costs_its_bytes_however_it_comes() {
    let upstream = Upstream::saying("hello");
    let served = serve(upstream.at, "request.bytes");
    let mut client = Client::connect(served.at);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n123456789012345678901234567890");
    assert_eq!(client.answer().unwrap().status, 200);
    settles_to(&served, 30, "a length");
    // What chunks are made of costs nothing.
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n12345\r\nf\r\n123456789012345\r\n0\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 200);
    settles_to(&served, 50, "chunks");
    client.get("/");
    settles_to(&served, 50, "no body");
    let url = format!("http://{}/", served.at);
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--http2-prior-knowledge", "--data-binary", "1234567890", &url]).stdin(Stdio::null());
    assert_eq!(curl.output().unwrap().stdout, b"hello");
    settles_to(&served, 60, "HTTP/2");
}

/// Else whoever leaves early, or finds a server that fails, could send as much as it likes.
#[test]
fn an_upload_that_comes_to_nothing_costs_what_was_sent() {
    // It reads all of a request, and answers none.
    let server = Scripted::new(|caller| {
        caller.request();
    });
    let served = serve(server.at, "request.bytes");
    let mut client = Client::connect(served.at);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n123456789012345678901234567890");
    assert_eq!(client.answer().unwrap().status, 502);
    settles_to(&served, 30, "a server that broke off");

    // It waits for more.
    let came = Arc::new(AtomicUsize::new(0));
    let server = {
        let came = Arc::clone(&came);
        Scripted::new(move |caller| {
            if caller.read_until(|came| came.ends_with(b"so far")) {
                came.fetch_add(1, Ordering::SeqCst);
            }
            caller.wait_for_end();
        })
    };
    let served = serve(server.at, "request.bytes");
    let mut client = Client::connect(served.at);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nthis is what came so far");
    until("the server has it", || came.load(Ordering::SeqCst) == 1);
    drop(client);
    settles_to(&served, 24, "a client that left amid its upload");

    let mut client = Client::connect(served.at);
    let upgrade = "Connection: upgrade\r\nUpgrade: chat";
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{upgrade}\r\nContent-Length: 6\r\n\r\nso far"));
    until("the server has it", || came.load(Ordering::SeqCst) == 2);
    drop(client);
    settles_to(&served, 30, "a client that asked for another protocol, and left");
}

#[test]
fn an_answer_that_breaks_off_costs_what_has_passed() {
    let server = Scripted::new(|caller| {
        caller.request();
        caller.send("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n12345678901234567890");
        if caller.number == 0 {
            caller.wait_for_end();
        }
    });
    let served = serve(server.at, "response.bytes");
    let mut client = Client::connect(served.at);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.exactly(15).unwrap();
    drop(client);
    settles_to(&served, 20, "a client that left amid the answer");
    let mut client = Client::connect(served.at);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer(), None);
    settles_to(&served, 40, "a server that broke off amid the answer");
}

/// What it cost is not known: the estimate stands, as the program behind may have done the work.
#[test]
fn what_is_not_told_costs_the_estimate() {
    for (actual, head, body) in [
        ("response.header['x-tokens']", "", "any"),
        ("response.header['x-tokens']", "X-Tokens: many\r\n", "any"),
        ("response.header['x-tokens']", "X-Tokens: -5\r\n", "any"),
        ("response.json['usage.total']", "Content-Type: application/json\r\n", "{\"usage\":{}}"),
        ("response.json['usage.total']", "Content-Type: application/json\r\n", "{\"usage\":{\"total\":\"7\"}"),
        ("response.json['usage.total']", "Content-Encoding: gzip\r\n", "{\"usage\":{\"total\":7}}"),
    ] {
        let server = Scripted::new(move |caller| {
            while caller.request() {
                caller.send(format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len()));
            }
        });
        let served = serve(server.at, actual);
        assert_eq!(Client::connect(served.at).get("/").status, 200);
        settles_to(&served, 100, &format!("{actual} {head} {body}"));
    }
    // Nor is it where no answer came.
    let server = Scripted::new(|caller| {
        caller.request();
    });
    for actual in ["response.bytes", "response.header['x-tokens']", "response.json['usage.total']"] {
        let served = serve(server.at, actual);
        assert_eq!(Client::connect(served.at).get("/").status, 502);
        settles_to(&served, 100, actual);
    }
}

/// A cost beyond the estimate is charged as well, and what is over the limit is owed.
#[test]
fn what_costs_more_than_was_reserved_is_owed() {
    let server = Scripted::new(|caller| {
        while caller.request() {
            caller.send("HTTP/1.1 200 OK\r\nX-Tokens: 950\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let served = serve(server.at, "response.header['x-tokens']");
    let mut client = Client::connect(served.at);
    assert_eq!(client.get("/").status, 200);
    assert_eq!(client.get("/").status, 429, "50 are left, and 100 are to be reserved");
    assert_eq!(server.requests().len(), 1);
}
