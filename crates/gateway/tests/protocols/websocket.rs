//! WebSocket: handshake, frames in both directions, close, and the permits held meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use sluicegate_engine::Sluice;
use sluicegate_engine::overload::GateLimits;

use super::scripted::{RawServer, read_head};
use super::support::raw::Client;
use super::support::{TestGateway, proxy_yaml, wait_until};

/// The example of RFC 6455, section 1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

const TEXT: u8 = 1;
const CLOSE: u8 = 8;

/// An echo server at `/ws`; it refuses other paths.
fn server() -> RawServer {
    RawServer::new(|mut stream| {
        while let Some(head) = read_head(&mut stream) {
            let lower = head.to_ascii_lowercase();
            if !head.starts_with("GET /ws/open ") {
                let refused = "HTTP/1.1 403 Forbidden\r\nContent-Length: 7\r\n\r\nrefused";
                stream.write_all(refused.as_bytes()).unwrap();
                continue;
            }
            assert!(lower.contains("\r\nupgrade: websocket\r\n") && lower.contains("\r\nconnection: upgrade\r\n"));
            assert!(lower.contains("\r\nsec-websocket-version: 13\r\n") && head.contains(KEY));
            let switched = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {ACCEPT}\r\n\r\n"
            );
            // The first frame directly follows the head.
            stream.write_all(&[switched.as_bytes(), &frame(TEXT, b"welcome", None)].concat()).unwrap();
            while let Some((kind, payload)) = read_frame(&mut stream) {
                stream.write_all(&frame(kind, &payload, None)).unwrap();
                if kind == CLOSE {
                    return;
                }
            }
            return;
        }
    })
}

/// A frame; frames of clients are masked.
fn frame(kind: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let masked = if mask.is_some() { 128 } else { 0 };
    let mut frame = vec![128 | kind];
    match u8::try_from(payload.len()) {
        Ok(short @ ..126) => frame.push(masked | short),
        _ => {
            frame.push(masked | 127);
            frame.extend((payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend(mask.unwrap_or_default().iter().take(if mask.is_some() { 4 } else { 0 }));
    let mask = mask.unwrap_or_default();
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

fn read_frame(stream: &mut impl Read) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    let mut length = [0; 8];
    match head[1] & 127 {
        127 => stream.read_exact(&mut length).ok()?,
        short => length[7] = short,
    }
    let mut mask = [0; 4];
    if head[1] & 128 != 0 {
        stream.read_exact(&mut mask).ok()?;
    }
    let mut payload = vec![0; usize::try_from(u64::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut payload).ok()?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Some((head[0] & 15, payload))
}

fn handshake(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
    )
}

/// Reads the buffered bytes first, then the stream.
struct BufferedReader<'a>(&'a mut Client);

impl Read for BufferedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let byte = self.0.exactly(buffer.len().min(1)).ok_or(std::io::ErrorKind::UnexpectedEof)?;
        buffer[..byte.len()].copy_from_slice(&byte);
        Ok(byte.len())
    }
}

#[test]
fn frames_pass_both_ways_and_a_permit_is_held_until_the_end() {
    let server = server();
    let gateway =
        TestGateway::from_yaml(&proxy_yaml(&[server.at], "rules: [{ name: one, limits: [{ concurrency: 1 }] }]"));
    let status = || Client::connect(gateway.at).get("/ws/plain").status;
    for ends_by_frame in [true, false] {
        let mut client = Client::connect(gateway.at);
        client.send(handshake("/ws/open"));
        let response = client.read_response().unwrap();
        assert_eq!((response.status, response.header("sec-websocket-accept")), (101, Some(ACCEPT)), "{response:?}");
        let connection = response.header("connection").unwrap().to_ascii_lowercase();
        assert_eq!((response.header("upgrade"), connection.as_str()), (Some("websocket"), "upgrade"));
        assert_eq!(read_frame(&mut BufferedReader(&mut client)), Some((TEXT, b"welcome".to_vec())));
        for payload in [&b"hello"[..], b"", &[b'x'; 70_000]] {
            client.send(frame(TEXT, payload, Some([1, 2, 3, 4])));
            assert_eq!(read_frame(&mut BufferedReader(&mut client)), Some((TEXT, payload.to_vec())));
            assert_eq!(status(), 429);
        }
        if ends_by_frame {
            client.send(frame(CLOSE, b"", Some([1, 2, 3, 4])));
            assert_eq!(read_frame(&mut BufferedReader(&mut client)), Some((CLOSE, Vec::new())));
            assert!(client.is_closed());
        }
        drop(client);
        wait_until("the permit is free", || status() == 403);
    }
}

/// Otherwise twenty open WebSockets would block all requests behind `adaptive: auto`.
#[test]
fn an_overload_permit_is_released_when_the_upgrade_succeeds() {
    let server = server();
    let rules = "rules: [{ name: protect, adaptive: auto }]";
    let settings = sluicegate_config::parse("rules.yaml", &proxy_yaml(&[server.at], rules)).unwrap().settings;
    let sluice = Sluice::builder().rules(settings.rules.clone()).build().unwrap();
    let [(_, gate)] = &sluice.gates()[..] else { panic!("one rule with a gate") };
    gate.set_limits(GateLimits { max_in_flight: Some(1), ..GateLimits::OPEN });
    let gateway = TestGateway::with_sluice(Path::new("."), &settings, sluice.clone());
    let mut client = Client::connect(gateway.at);
    client.send(handshake("/ws/open"));
    assert_eq!(client.read_response().unwrap().status, 101);
    assert_eq!(gate.in_flight(), 0);
    assert_eq!(Client::connect(gateway.at).get("/ws/plain").status, 403);
    // The tunnel is still open.
    assert_eq!(read_frame(&mut BufferedReader(&mut client)), Some((TEXT, b"welcome".to_vec())));
    client.send(frame(TEXT, b"hello", Some([1, 2, 3, 4])));
    assert_eq!(read_frame(&mut BufferedReader(&mut client)), Some((TEXT, b"hello".to_vec())));
}

#[test]
fn a_refused_handshake_is_an_ordinary_response() {
    let server = server();
    let gateway =
        TestGateway::from_yaml(&proxy_yaml(&[server.at], "rules: [{ name: one, limits: [{ concurrency: 1 }] }]"));
    let mut client = Client::connect(gateway.at);
    for _ in 0..3 {
        client.send(handshake("/ws/refused"));
        let response = client.read_response().unwrap();
        assert_eq!((response.status, response.text().as_str()), (403, "refused"));
        assert_eq!((response.header("upgrade"), response.header("connection")), (None, None));
        wait_until("the permit is free", || client.get("/ws/plain").status == 403);
    }
}

#[test]
fn a_handshake_to_an_unreachable_server_is_refused() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[gone], "rules: [{ name: one, limits: [{ concurrency: 1 }] }]"));
    for _ in 0..2 {
        let mut client = Client::connect(gateway.at);
        client.send(handshake("/ws/open"));
        assert_eq!(client.read_response().unwrap().status, 502);
    }
    // A server that closes without a response releases everything as well.
    let server = RawServer::new(|mut stream: TcpStream| drop(read_head(&mut stream)));
    let gateway =
        TestGateway::from_yaml(&proxy_yaml(&[server.at], "rules: [{ name: one, limits: [{ concurrency: 1 }] }]"));
    for _ in 0..2 {
        let mut client = Client::connect(gateway.at);
        client.send(handshake("/ws/open"));
        assert_eq!(client.read_response().unwrap().status, 502);
    }
}
