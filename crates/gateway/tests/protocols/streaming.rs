//! Bodies are streamed with back pressure and not buffered as a whole.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::scripted::{RawServer, read_head};
use super::support::frames::{self, DATA, Http2, StreamResult};
use super::support::raw::Client;
use super::support::{TestGateway, proxy_yaml, wait_until};

const BODY_BYTES: usize = 64 << 20;

/// Maximum bytes of one body that kernel and gateway may buffer; far less than the whole body.
const MAX_BUFFERED_BYTES: usize = 32 << 20;

fn content(at: usize) -> u8 {
    u8::try_from(at % 251).unwrap()
}

fn contents(from: usize, length: usize) -> Vec<u8> {
    (from..from + length).map(content).collect()
}

/// Writes until no more is accepted for a while; returns the number of bytes written.
fn write_until_full(stream: &mut TcpStream, from: usize) -> usize {
    stream.set_nonblocking(true).unwrap();
    let (mut at, mut last) = (from, Instant::now());
    while last.elapsed() < Duration::from_millis(300) && at < BODY_BYTES {
        match stream.write(&contents(at, (64 << 10).min(BODY_BYTES - at))) {
            Ok(written) => (at, last) = (at + written, Instant::now()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    }
    stream.set_nonblocking(false).unwrap();
    at - from
}

#[test]
fn a_large_upload_is_streamed() {
    let (may_read, reads) = channel::<()>();
    let reads = Mutex::new(reads);
    let first = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&first);
    let server = RawServer::new(move |mut stream| {
        assert!(
            read_head(&mut stream).unwrap().to_ascii_lowercase().contains(&format!("content-length: {BODY_BYTES}\r\n"))
        );
        let mut at = 0;
        let mut buffer = vec![0; 64 << 10];
        while at < BODY_BYTES {
            let read = stream.read(&mut buffer).unwrap();
            assert!(read > 0 && buffer[..read].iter().enumerate().all(|(index, byte)| *byte == content(at + index)));
            if at == 0 {
                seen.store(read, Ordering::SeqCst);
                reads.lock().recv().unwrap();
            }
            at += read;
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    });
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    let mut client = Client::connect(gateway.at);
    client.send(format!("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY_BYTES}\r\n\r\n"));
    client.send(contents(0, 1_000));
    wait_until("the first bytes have arrived", || first.load(Ordering::SeqCst) > 0);
    let taken = 1_000 + write_until_full(&mut client.stream, 1_000);
    assert!(taken < MAX_BUFFERED_BYTES, "{taken} bytes were accepted but not read");
    may_read.send(()).unwrap();
    client.send(contents(taken, BODY_BYTES - taken));
    assert_eq!(client.read_response().unwrap().text(), "ok");
}

#[test]
fn a_large_download_is_streamed_with_back_pressure() {
    let (taken, takes) = channel();
    let server = RawServer::new(move |mut stream| {
        read_head(&mut stream).unwrap();
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n").as_bytes()).unwrap();
        let written = write_until_full(&mut stream, 0);
        taken.send(written).unwrap();
        stream.write_all(&contents(written, BODY_BYTES - written)).unwrap();
    });
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    let mut client = Client::connect(gateway.at);
    client.send("GET /down HTTP/1.1\r\nHost: a\r\n\r\n");
    let held = takes.recv().unwrap();
    assert!(held < MAX_BUFFERED_BYTES, "{held} bytes were accepted but not read");
    assert_eq!(client.line().unwrap(), "HTTP/1.1 200 OK");
    while !client.line().unwrap().is_empty() {}
    for at in (0..BODY_BYTES).step_by(1 << 20) {
        assert!(client.exactly(1 << 20).unwrap() == contents(at, 1 << 20), "at {at}");
    }
}

/// A server that sends an event for each message, and ends when the sender is dropped.
fn events(events: Receiver<&'static str>) -> RawServer {
    let receiver = Mutex::new(events);
    RawServer::new(move |mut stream| {
        read_head(&mut stream).unwrap();
        let response = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(response.as_bytes()).unwrap();
        for event in receiver.lock().iter() {
            stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
    })
}

#[test]
fn events_arrive_as_they_are_sent() {
    let (sender, receiver) = channel();
    let server = events(receiver);
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    let mut client = Client::connect(gateway.at);
    client.send("GET /events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n");
    assert_eq!(client.line().unwrap(), "HTTP/1.1 200 OK");
    while !client.line().unwrap().is_empty() {}
    for event in ["data: 1\n\n", "data: two\n\n"] {
        sender.send(event).unwrap();
        assert_eq!(client.line().unwrap(), format!("{:X}", event.len()));
        assert_eq!(client.exactly(event.len()).unwrap(), event.as_bytes());
        assert_eq!(client.line().unwrap(), "");
    }
    drop(sender);
    assert_eq!((client.line().unwrap(), client.line().unwrap()), ("0".to_owned(), String::new()));
}

#[test]
fn events_arrive_as_they_are_sent_over_http2() {
    let (sender, receiver) = channel();
    let server = events(receiver);
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    let mut client = Http2::connect(gateway.at);
    client.send(frames::get(1, "/events"));
    assert_eq!(client.stream_result(1), StreamResult::Status(200));
    for event in ["data: 1\n\n", "data: two\n\n"] {
        sender.send(event).unwrap();
        let frame = loop {
            let frame = client.next().unwrap();
            if frame.kind == DATA {
                break frame;
            }
        };
        assert_eq!(frame.payload, event.as_bytes());
    }
    drop(sender);
    assert_eq!(client.body(1), b"");
}

/// A server that responds before it has read the request still gets all of it.
#[test]
fn a_response_may_start_before_the_request_ends() {
    const CHUNKS: usize = 32 << 10;
    let server = RawServer::new(|mut stream| {
        read_head(&mut stream).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
        // In small parts: the gateway is always ahead and waits for buffer space with the last part.
        let (mut part, mut end) = ([0; 1 << 10], Vec::new());
        while !end.ends_with(b"0\r\n\r\n") {
            match stream.read(&mut part).unwrap() {
                0 => return,
                count => end.extend_from_slice(&part[..count]),
            }
            end.drain(..end.len().saturating_sub(5));
        }
        stream.write_all(b"hello").unwrap();
    });
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[server.at], ""));
    let mut client = Client::connect(gateway.at);
    let mut sending = client.stream.try_clone().unwrap();
    let upload = std::thread::spawn(move || {
        let chunk = format!("400\r\n{}\r\n", "x".repeat(0x400));
        let body = format!("{}0\r\n\r\n", chunk.repeat(CHUNKS));
        sending.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        sending.write_all(body.as_bytes()).unwrap();
    });
    assert_eq!(client.read_response().unwrap().text(), "hello");
    upload.join().unwrap();
}
