//! Request bodies: complete delivery, attribution of failures, and timeouts.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use sluicegate_engine::clock::ManualClock;
use tokio::net::TcpListener;

use super::scripted::{RawServer, read_head};
use super::support::raw::Client;
use super::support::upstream::Upstream;
use super::support::{TestGateway, proxy_yaml, wait_until};

const CHUNK: usize = 0x400;

/// A chunk with unique contents.
fn chunk(index: usize) -> String {
    format!("{CHUNK:x}\r\n{index:0>CHUNK$}\r\n")
}

/// Writes chunks until no more is accepted for a while; returns the number of complete chunks.
fn write_until_full(client: &mut Client) -> (usize, Vec<u8>) {
    let (mut number, mut rest) = (0, Vec::new());
    client.stream.set_nonblocking(true).unwrap();
    let mut idle = 0;
    while idle < 300 {
        if rest.is_empty() {
            rest = chunk(number).into_bytes();
            number += 1;
        }
        match client.stream.write(&rest) {
            Ok(written) => {
                rest.drain(..written);
                idle = 0;
            }
            Err(_) => {
                idle += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    client.stream.set_nonblocking(false).unwrap();
    (number, rest)
}

/// Regression: data pending in the gateway at the start of the response was dropped, so the server got a body
/// with a gap.
#[test]
fn a_blocked_upload_loses_nothing_when_the_response_starts() {
    let (begin, may_begin) = channel::<()>();
    let (body_sender, arrived) = channel();
    let (may_begin, body_sender) = (Mutex::new(may_begin), Mutex::new(body_sender));
    let server = RawServer::new(move |mut stream| {
        read_head(&mut stream).unwrap();
        may_begin.lock().recv().unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
        let (mut body, mut part) = (Vec::new(), vec![0; 64 << 10]);
        while !body.ends_with(b"\r\n0\r\n\r\n") {
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "it ends after {} bytes", body.len());
            body.extend_from_slice(&part[..count]);
        }
        body_sender.lock().send(body).unwrap();
        stream.write_all(b"hello").unwrap();
    });
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    let mut client = Client::connect(gateway.at);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let (chunks, rest) = write_until_full(&mut client);
    begin.send(()).unwrap();
    assert_eq!(client.line().unwrap(), "HTTP/1.1 200 OK");
    client.send(rest);
    client.send("0\r\n\r\n");
    let body = String::from_utf8(arrived.recv().unwrap()).unwrap();
    // The gateway may split chunks.
    let mut content = String::new();
    let mut left = body.as_str();
    while let Some((size, after)) = left.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        content.push_str(&after[..size]);
        left = &after[size + 2..];
    }
    let expected: String = (0..chunks).map(|number| format!("{number:0>CHUNK$}")).collect();
    assert!(content == expected, "{} bytes of {}", content.len(), expected.len());
}

/// An HTTP/2 server that responds immediately with `response`, if any, and keeps the received bodies.
fn http2_server(
    response: Option<&'static str>,
    bodies: Arc<Mutex<Vec<Incoming>>>,
) -> (tokio::runtime::Runtime, SocketAddr) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let at = listener.local_addr().unwrap();
    runtime.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let bodies = Arc::clone(&bodies);
            let service = service_fn(move |request: Request<Incoming>| {
                bodies.lock().push(request.into_body());
                async move {
                    match response {
                        Some(text) => {
                            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(text.as_bytes()))))
                        }
                        None => std::future::pending().await,
                    }
                }
            });
            let serving = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move { drop(serving.await) });
        }
    });
    (runtime, at)
}

/// Regression: with HTTP/2 another task forwards the body and may continue after the response; it took the next
/// request's body for the remainder of its own.
#[test]
fn pipelined_requests_are_never_read_as_a_body() {
    let bodies = Arc::default();
    let (runtime, at) = http2_server(Some("early"), Arc::clone(&bodies));
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[at], "").replace("servers:", "protocol: http2, servers:"));
    for framing in ["Content-Length: 100000", "Transfer-Encoding: chunked"] {
        let mut client = Client::connect(gateway.at);
        client.send(format!("POST /one HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
        let response = client.read_response().unwrap();
        assert_eq!((response.status, response.text().as_str()), (200, "early"));
        assert_eq!(response.header("connection"), Some("close"), "the following bytes belong to no request");
        drop(client.stream.write_all(b"POST /two HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsecret"));
        assert!(client.read_response().is_none());
    }
    let bodies: Vec<Incoming> = std::mem::take(&mut *bodies.lock());
    assert_eq!(bodies.len(), 2);
    for body in bodies {
        let body = runtime.block_on(body.collect()).map_or(Bytes::new(), |body| body.to_bytes());
        assert!(!body.windows(6).any(|part| part == b"secret"));
    }
}

/// Regression: another task reads the body, and after it had finished, a disconnect of the client was not
/// detected.
#[test]
fn a_client_disconnect_releases_its_permits() {
    const RULE: &str = "rules: [{ name: few, limits: [{ concurrency: 1 }] }]";
    for protocol in ["http1", "http2"] {
        let bodies = Arc::default();
        let (runtime, at) = http2_server(None, Arc::clone(&bodies));
        let received = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&received);
        let silent = RawServer::new(move |mut stream| {
            if read_head(&mut stream).is_some() {
                seen.fetch_add(1, Ordering::SeqCst);
            }
            drop(stream.read_to_end(&mut Vec::new()));
        });
        let server = if protocol == "http2" { at } else { silent.at };
        let gateway = TestGateway::from_yaml(
            &proxy_yaml(&[server], RULE).replace("servers:", &format!("protocol: {protocol}, servers:")),
        );
        let mut client = Client::connect(gateway.at);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
        let is_refused = || {
            let mut other = Client::connect(gateway.at);
            other.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            other.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut first = [0; 12];
            other.stream.read(&mut first).is_ok_and(|count| &first[..count] == b"HTTP/1.1 429")
        };
        wait_until("the request was forwarded", || received.load(Ordering::SeqCst) + bodies.lock().len() == 1);
        assert!(is_refused(), "it holds the only permit");
        client.send("hello");
        if protocol == "http2" {
            // The whole body has arrived and is in the hands of the forwarding task.
            let body = bodies.lock().pop().unwrap();
            assert_eq!(runtime.block_on(body.collect()).unwrap().to_bytes(), "hello");
        }
        drop(client);
        wait_until("its permit is released", || !is_refused());
    }
}

#[test]
fn client_errors_do_not_eject_a_server() {
    let servers = [Upstream::returning("one"), Upstream::returning("two")];
    let gateway = TestGateway::from_yaml(&proxy_yaml(&servers.each_ref().map(|server| server.at), ""));
    for _ in 0..8 {
        // An invalid chunk, and an aborted body.
        let mut client = Client::connect(gateway.at);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
        assert_eq!(client.read_response().unwrap().status, 400);
        let mut client = Client::connect(gateway.at);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf");
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.read_response().unwrap().status, 400);
    }
    let mut client = Client::connect(gateway.at);
    let mut responses: Vec<String> = (0..4).map(|_| client.get("/").text()).collect();
    responses.sort();
    assert_eq!(responses, ["one", "one", "two", "two"]);
}

/// The response timeout starts when the server has the whole request.
#[test]
fn an_upload_may_outlast_the_response_timeout() {
    let received = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&received);
    let server = RawServer::new(move |mut stream| {
        read_head(&mut stream).unwrap();
        let mut byte = [0];
        for _ in 0..8 {
            stream.read_exact(&mut byte).unwrap();
            seen.fetch_add(1, Ordering::SeqCst);
        }
        if byte == *b"!" {
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
        drop(stream.read_to_end(&mut Vec::new()));
    });
    let clock = ManualClock::new();
    let yaml = proxy_yaml(&[server.at], "").replace("servers:", "timeouts: { response: 2s }, servers:");
    let gateway = TestGateway::with_clock(&yaml, clock.clone());
    for (last, status) in [("!", 200), (".", 504)] {
        received.store(0, Ordering::SeqCst);
        let mut client = Client::connect(gateway.at);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n");
        for number in 1..8 {
            client.send(".");
            wait_until("the request has arrived", || received.load(Ordering::SeqCst) == number);
            clock.advance(Duration::from_millis(1_500));
        }
        client.send(last);
        wait_until("the request has arrived", || received.load(Ordering::SeqCst) == 8);
        if status == 504 {
            client.stream.set_nonblocking(true).unwrap();
            wait_until("the response timed out", || {
                clock.advance(Duration::from_millis(500));
                client.stream.peek(&mut [0]).is_ok()
            });
            client.stream.set_nonblocking(false).unwrap();
        }
        assert_eq!(client.read_response().unwrap().status, status);
    }
}

/// HTTP/2 upstreams do not switch protocols: the request is forwarded as an ordinary one.
#[test]
fn upgrades_are_not_forwarded_over_http2() {
    let upstream = Upstream::returning("plain");
    let gateway =
        TestGateway::from_yaml(&proxy_yaml(&[upstream.at], "").replace("servers:", "protocol: http2, servers:"));
    let mut client = Client::connect(gateway.at);
    client.send("GET /ws HTTP/1.1\r\nHost: shop\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    let response = client.read_response().unwrap();
    assert_eq!((response.status, response.text().as_str()), (200, "plain"));
    let seen = upstream.seen.lock()[0].clone();
    assert_eq!(seen.uri().authority().unwrap(), "shop");
    assert!(!seen.headers().contains_key("upgrade"));
}

/// Its body gets new framing, like any other.
#[test]
fn an_upgrade_request_may_have_a_body() {
    let server = RawServer::new(|mut stream| {
        let head = read_head(&mut stream).unwrap().to_lowercase();
        assert!(head.contains("upgrade: websocket\r\n") && head.contains("transfer-encoding: chunked\r\n"), "{head}");
        assert!(!head.contains("expect:"), "{head}");
        let (mut body, mut byte) = (Vec::new(), [0]);
        while !body.ends_with(b"0\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            body.push(byte[0]);
        }
        assert_eq!(body, b"5\r\nhello\r\n0\r\n\r\n");
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno").unwrap();
    });
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    let mut client = Client::connect(gateway.at);
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\n\r\n",
    );
    let response = client.read_response().unwrap();
    assert_eq!((response.status, response.text().as_str()), (200, "no"));
}

/// For a client without chunked coding, the end of the connection is the end of the response: an aborted
/// response must not look like it.
#[test]
fn an_aborted_response_never_looks_complete() {
    let server = RawServer::new(|mut stream| {
        read_head(&mut stream).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n").unwrap();
    });
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    let mut client = Client::connect(gateway.at);
    client.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    let mut read = Vec::new();
    let ended = client.stream.read_to_end(&mut read);
    assert!(ended.is_err(), "{}", String::from_utf8_lossy(&read));
}
