//! Requests with bodies: what arrives of them, whose fault it is if they do not, and how long they may take.

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

use super::scripted::{Scripted, head};
use super::support::raw::Client;
use super::support::upstream::Upstream;
use super::support::{Served, before, until};

const CHUNK: usize = 0x400;

/// A chunk that no other is like.
fn chunk(number: usize) -> String {
    format!("{CHUNK:x}\r\n{number:0>CHUNK$}\r\n")
}

/// Writes chunks until nobody has taken anything for a while; tells how many were written whole.
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

/// What waits in the gateway when the answer begins was thrown away: the server got a whole body with a hole in it.
#[test]
fn a_request_that_is_backed_up_when_its_answer_begins_loses_nothing() {
    let (begin, may_begin) = channel::<()>();
    let (told, arrived) = channel();
    let (may_begin, told) = (Mutex::new(may_begin), Mutex::new(told));
    let server = Scripted::new(move |mut stream| {
        head(&mut stream).unwrap();
        may_begin.lock().recv().unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
        let (mut body, mut part) = (Vec::new(), vec![0; 64 << 10]);
        while !body.ends_with(b"\r\n0\r\n\r\n") {
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "it ends after {} bytes", body.len());
            body.extend_from_slice(&part[..count]);
        }
        told.lock().send(body).unwrap();
        stream.write_all(b"hello").unwrap();
    });
    let served = Served::of(&before(&[server.at], ""));
    let mut client = Client::connect(served.at);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let (chunks, rest) = write_until_full(&mut client);
    begin.send(()).unwrap();
    assert_eq!(client.line().unwrap(), "HTTP/1.1 200 OK");
    client.send(rest);
    client.send("0\r\n\r\n");
    let body = String::from_utf8(arrived.recv().unwrap()).unwrap();
    // The gateway may cut chunks as it likes.
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

/// A server of HTTP/2, which answers at once what `answer` says, if anything, and keeps the bodies it was sent.
fn http2_server(
    answer: Option<&'static str>,
    kept: Arc<Mutex<Vec<Incoming>>>,
) -> (tokio::runtime::Runtime, SocketAddr) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let at = listener.local_addr().unwrap();
    runtime.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let kept = Arc::clone(&kept);
            let service = service_fn(move |request: Request<Incoming>| {
                kept.lock().push(request.into_body());
                async move {
                    match answer {
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

/// Over HTTP/2 another task sends the body on, and may still do so when the request has been answered: it then took the
/// next request's body for the rest of its own.
#[test]
fn what_follows_a_request_is_never_taken_for_its_body() {
    let kept = Arc::default();
    let (runtime, at) = http2_server(Some("early"), Arc::clone(&kept));
    let served = Served::of(&before(&[at], "").replace("servers:", "protocol: http2, servers:"));
    for framing in ["Content-Length: 100000", "Transfer-Encoding: chunked"] {
        let mut client = Client::connect(served.at);
        client.send(format!("POST /one HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
        let answer = client.answer().unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "early"));
        assert_eq!(answer.header("connection"), Some("close"), "what comes next belongs to nobody");
        drop(client.stream.write_all(b"POST /two HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsecret"));
        assert!(client.answer().is_none());
    }
    let bodies: Vec<Incoming> = std::mem::take(&mut *kept.lock());
    assert_eq!(bodies.len(), 2);
    for body in bodies {
        let body = runtime.block_on(body.collect()).map_or(Bytes::new(), |body| body.to_bytes());
        assert!(!body.windows(6).any(|part| part == b"secret"));
    }
}

/// Another task reads the body: when it has, nobody looked at the client any more.
#[test]
fn a_client_that_leaves_gives_back_what_it_holds() {
    const RULE: &str = "rules: [{ name: few, limits: [{ concurrency: 1 }] }]";
    for protocol in ["http1", "http2"] {
        let kept = Arc::default();
        let (runtime, at) = http2_server(None, Arc::clone(&kept));
        let asked = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&asked);
        let silent = Scripted::new(move |mut stream| {
            if head(&mut stream).is_some() {
                seen.fetch_add(1, Ordering::SeqCst);
            }
            drop(stream.read_to_end(&mut Vec::new()));
        });
        let server = if protocol == "http2" { at } else { silent.at };
        let served =
            Served::of(&before(&[server], RULE).replace("servers:", &format!("protocol: {protocol}, servers:")));
        let mut client = Client::connect(served.at);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
        let is_refused = || {
            let mut other = Client::connect(served.at);
            other.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            other.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut first = [0; 12];
            other.stream.read(&mut first).is_ok_and(|count| &first[..count] == b"HTTP/1.1 429")
        };
        until("it has been sent on", || asked.load(Ordering::SeqCst) + kept.lock().len() == 1);
        assert!(is_refused(), "it has the only place");
        client.send("hello");
        if protocol == "http2" {
            // All of it has come, and whoever sends it on has it.
            let body = kept.lock().pop().unwrap();
            assert_eq!(runtime.block_on(body.collect()).unwrap().to_bytes(), "hello");
        }
        drop(client);
        until("its place is free again", || !is_refused());
    }
}

#[test]
fn clients_cannot_put_a_server_to_rest() {
    let servers = [Upstream::saying("one"), Upstream::saying("two")];
    let served = Served::of(&before(&servers.each_ref().map(|server| server.at), ""));
    for _ in 0..8 {
        // What is no chunk, and what breaks off.
        let mut client = Client::connect(served.at);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
        assert_eq!(client.answer().unwrap().status, 400);
        let mut client = Client::connect(served.at);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf");
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.answer().unwrap().status, 400);
    }
    let mut client = Client::connect(served.at);
    let mut answers: Vec<String> = (0..4).map(|_| client.get("/").text()).collect();
    answers.sort();
    assert_eq!(answers, ["one", "one", "two", "two"]);
}

/// The server's time begins when it has all of the request.
#[test]
fn an_upload_may_take_longer_than_its_answer() {
    let came = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&came);
    let server = Scripted::new(move |mut stream| {
        head(&mut stream).unwrap();
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
    let yaml = before(&[server.at], "").replace("servers:", "timeouts: { answer: 2s }, servers:");
    let served = Served::with_clock(&yaml, clock.clone());
    for (last, status) in [("!", 200), (".", 504)] {
        came.store(0, Ordering::SeqCst);
        let mut client = Client::connect(served.at);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n");
        for number in 1..8 {
            client.send(".");
            until("it has come", || came.load(Ordering::SeqCst) == number);
            clock.advance(Duration::from_millis(1_500));
        }
        client.send(last);
        until("it has come", || came.load(Ordering::SeqCst) == 8);
        if status == 504 {
            client.stream.set_nonblocking(true).unwrap();
            until("it is too late", || {
                clock.advance(Duration::from_millis(500));
                client.stream.peek(&mut [0]).is_ok()
            });
            client.stream.set_nonblocking(false).unwrap();
        }
        assert_eq!(client.answer().unwrap().status, status);
    }
}

/// To whom HTTP/2 is spoken, nobody switches protocols: the request goes on as if it had not been asked for.
#[test]
fn no_other_protocol_is_asked_for_over_http2() {
    let upstream = Upstream::saying("plain");
    let served = Served::of(&before(&[upstream.at], "").replace("servers:", "protocol: http2, servers:"));
    let mut client = Client::connect(served.at);
    client.send("GET /ws HTTP/1.1\r\nHost: shop\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    let answer = client.answer().unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "plain"));
    let seen = upstream.seen.lock()[0].clone();
    assert_eq!(seen.uri().authority().unwrap(), "shop");
    assert!(!seen.headers().contains_key("upgrade"));
}

/// Its body is framed anew, as any other's is.
#[test]
fn who_asks_for_another_protocol_may_send_a_body() {
    let server = Scripted::new(|mut stream| {
        let head = head(&mut stream).unwrap().to_lowercase();
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
    let served = Served::of(&before(&[server.at], ""));
    let mut client = Client::connect(served.at);
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\n\r\n",
    );
    let answer = client.answer().unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "no"));
}

/// For a client that knows no chunks, the end of the connection is the end of the answer: one that broke off must not
/// look like it.
#[test]
fn an_answer_that_broke_off_never_looks_whole() {
    let server = Scripted::new(|mut stream| {
        head(&mut stream).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n").unwrap();
    });
    let served = Served::of(&before(&[server.at], ""));
    let mut client = Client::connect(served.at);
    client.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    let mut read = Vec::new();
    let ended = client.stream.read_to_end(&mut read);
    assert!(ended.is_err(), "{}", String::from_utf8_lossy(&read));
}
