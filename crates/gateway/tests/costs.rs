//! Actual costs: reserved first and settled afterwards, also if a request fails. A request is charged for what
//! it used, and for nothing else.

use crate::support;

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::raw::Client;
use support::scripted::ScriptedServer;
use support::upstream::Upstream;
use support::{TestGateway, proxy_yaml, wait_until};

/// A gateway with a limit of a thousand per hour; each request reserves a hundred.
fn serve(server: SocketAddr, actual: &str) -> TestGateway {
    let rules = format!("rules: [{{ name: t, limits: [1000/1h], cost: {{ estimate: 100, actual: \"{actual}\" }} }}]");
    TestGateway::from_yaml(&proxy_yaml(&[server], &rules))
}

/// Quota used so far.
fn quota_used(gateway: &TestGateway) -> u64 {
    let request = sluicegate_engine::rule::Request::new("GET", "/");
    let outcome = gateway.running().sluice().decide(&request);
    let (_, rule) = outcome.decisions().next().unwrap();
    let left = rule.decision.status.remaining;
    // The probe itself costs nothing.
    outcome.settle_by(|_| Some(0));
    1_000 - 100 - left
}

/// Waits until this much quota is used and nothing is reserved.
fn settles_to(gateway: &TestGateway, amount: u64, label: &str) {
    wait_until(label, || quota_used(gateway) == amount);
    wait_until("no request is in flight", || gateway.running().stats().upstreams()[0].servers[0].in_flight == 0);
    assert_eq!(quota_used(gateway), amount, "{label}");
}

#[test]
fn an_upload_costs_its_bytes_in_any_framing() {
    let upstream = Upstream::returning("hello");
    let gateway = serve(upstream.at, "request.bytes");
    let mut client = Client::connect(gateway.at);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n123456789012345678901234567890");
    assert_eq!(client.read_response().unwrap().status, 200);
    settles_to(&gateway, 30, "a length");
    // Chunk framing costs nothing.
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n12345\r\nf\r\n123456789012345\r\n0\r\n\r\n");
    assert_eq!(client.read_response().unwrap().status, 200);
    settles_to(&gateway, 50, "chunks");
    client.get("/");
    settles_to(&gateway, 50, "no body");
    let url = format!("http://{}/", gateway.at);
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--http2-prior-knowledge", "--data-binary", "1234567890", &url]).stdin(Stdio::null());
    assert_eq!(curl.output().unwrap().stdout, b"hello");
    settles_to(&gateway, 60, "HTTP/2");
}

/// Otherwise a client that disconnects early, or uses a failing server, could upload without limit.
#[test]
fn an_aborted_upload_costs_the_bytes_sent() {
    // Reads the whole request and does not respond.
    let server = ScriptedServer::new(|connection| {
        connection.request();
    });
    let gateway = serve(server.at, "request.bytes");
    let mut client = Client::connect(gateway.at);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n123456789012345678901234567890");
    assert_eq!(client.read_response().unwrap().status, 502);
    settles_to(&gateway, 30, "a server that aborts");

    // Waits for more.
    let received = Arc::new(AtomicUsize::new(0));
    let server = {
        let received = Arc::clone(&received);
        ScriptedServer::new(move |connection| {
            if connection.read_until(|received| received.ends_with(b"so far")) {
                received.fetch_add(1, Ordering::SeqCst);
            }
            connection.wait_for_end();
        })
    };
    let gateway = serve(server.at, "request.bytes");
    let mut client = Client::connect(gateway.at);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nthis is what came so far");
    wait_until("the server has the request", || received.load(Ordering::SeqCst) == 1);
    drop(client);
    settles_to(&gateway, 24, "a client that disconnects during its upload");

    let mut client = Client::connect(gateway.at);
    let upgrade = "Connection: upgrade\r\nUpgrade: chat";
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{upgrade}\r\nContent-Length: 6\r\n\r\nso far"));
    wait_until("the server has the request", || received.load(Ordering::SeqCst) == 2);
    drop(client);
    settles_to(&gateway, 30, "a client that requests an upgrade and disconnects");
}

#[test]
fn an_aborted_response_costs_the_bytes_passed() {
    let server = ScriptedServer::new(|connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n12345678901234567890");
        if connection.number == 0 {
            connection.wait_for_end();
        }
    });
    let gateway = serve(server.at, "response.bytes");
    let mut client = Client::connect(gateway.at);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.exactly(15).unwrap();
    drop(client);
    settles_to(&gateway, 20, "a client that disconnects during the response");
    let mut client = Client::connect(gateway.at);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.read_response(), None);
    settles_to(&gateway, 40, "a server that aborts its response");
}

/// The actual cost is unknown: the estimate is kept, because the upstream may have done the work.
#[test]
fn an_unknown_cost_keeps_the_estimate() {
    for (actual, head, body) in [
        ("response.header['x-tokens']", "", "any"),
        ("response.header['x-tokens']", "X-Tokens: many\r\n", "any"),
        ("response.header['x-tokens']", "X-Tokens: -5\r\n", "any"),
        ("response.json['usage.total']", "Content-Type: application/json\r\n", "{\"usage\":{}}"),
        ("response.json['usage.total']", "Content-Type: application/json\r\n", "{\"usage\":{\"total\":\"7\"}"),
        ("response.json['usage.total']", "Content-Encoding: gzip\r\n", "{\"usage\":{\"total\":7}}"),
    ] {
        let server = ScriptedServer::new(move |connection| {
            while connection.request() {
                connection.send(format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len()));
            }
        });
        let gateway = serve(server.at, actual);
        assert_eq!(Client::connect(gateway.at).get("/").status, 200);
        settles_to(&gateway, 100, &format!("{actual} {head} {body}"));
    }
    // The same if there was no response.
    let server = ScriptedServer::new(|connection| {
        connection.request();
    });
    for actual in ["response.bytes", "response.header['x-tokens']", "response.json['usage.total']"] {
        let gateway = serve(server.at, actual);
        assert_eq!(Client::connect(gateway.at).get("/").status, 502);
        settles_to(&gateway, 100, actual);
    }
}

/// Cost above the estimate is charged too; the excess over the limit becomes debt.
#[test]
fn cost_above_the_reservation_becomes_debt() {
    let server = ScriptedServer::new(|connection| {
        while connection.request() {
            connection.send("HTTP/1.1 200 OK\r\nX-Tokens: 950\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let gateway = serve(server.at, "response.header['x-tokens']");
    let mut client = Client::connect(gateway.at);
    assert_eq!(client.get("/").status, 200);
    assert_eq!(client.get("/").status, 429, "50 remain, 100 are needed");
    assert_eq!(server.requests().len(), 1);
}
