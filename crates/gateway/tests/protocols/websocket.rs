//! WebSocket: the handshake, frames both ways, the end; and what is held meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use sluicegate_engine::Sluice;
use sluicegate_engine::gate::Orders;

use super::scripted::{Scripted, head};
use super::support::raw::Client;
use super::support::{Served, before, until};

/// The example of RFC 6455, 1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

const TEXT: u8 = 1;
const CLOSE: u8 = 8;

/// A server that sends back what it is sent, to whoever asks at `/ws`; it refuses all others.
fn server() -> Scripted {
    Scripted::new(|mut stream| {
        while let Some(head) = head(&mut stream) {
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
            // The first frame comes right behind the head.
            stream.write_all(&[switched.as_bytes(), &frame(TEXT, b"welcome", None)].concat()).unwrap();
            while let Some((kind, payload)) = next(&mut stream) {
                stream.write_all(&frame(kind, &payload, None)).unwrap();
                if kind == CLOSE {
                    return;
                }
            }
            return;
        }
    })
}

/// A frame; a client's is masked.
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

fn next(stream: &mut impl Read) -> Option<(u8, Vec<u8>)> {
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

/// What was read ahead, and then what comes.
struct Ahead<'a>(&'a mut Client);

impl Read for Ahead<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let byte = self.0.exactly(buffer.len().min(1)).ok_or(std::io::ErrorKind::UnexpectedEof)?;
        buffer[..byte.len()].copy_from_slice(&byte);
        Ok(byte.len())
    }
}

#[test]
fn frames_pass_both_ways_and_a_permit_is_held_until_the_end() {
    let server = server();
    let served = Served::of(&before(&[server.at], "rules: [{ name: one, limits: [{ concurrency: 1 }] }]"));
    let status = || Client::connect(served.at).get("/ws/plain").status;
    for ends_by_frame in [true, false] {
        let mut client = Client::connect(served.at);
        client.send(handshake("/ws/open"));
        let answer = client.answer().unwrap();
        assert_eq!((answer.status, answer.header("sec-websocket-accept")), (101, Some(ACCEPT)), "{answer:?}");
        let connection = answer.header("connection").unwrap().to_ascii_lowercase();
        assert_eq!((answer.header("upgrade"), connection.as_str()), (Some("websocket"), "upgrade"));
        assert_eq!(next(&mut Ahead(&mut client)), Some((TEXT, b"welcome".to_vec())));
        for payload in [&b"hello"[..], b"", &[b'x'; 70_000]] {
            client.send(frame(TEXT, payload, Some([1, 2, 3, 4])));
            assert_eq!(next(&mut Ahead(&mut client)), Some((TEXT, payload.to_vec())));
            assert_eq!(status(), 429);
        }
        if ends_by_frame {
            client.send(frame(CLOSE, b"", Some([1, 2, 3, 4])));
            assert_eq!(next(&mut Ahead(&mut client)), Some((CLOSE, Vec::new())));
            assert!(client.is_closed());
        }
        drop(client);
        until("the permit is free", || status() == 403);
    }
}

/// Twenty of them would otherwise shut out everybody behind `adaptive: auto`, for as long as they are open.
#[test]
fn a_place_under_strain_is_free_when_it_is_agreed_on() {
    let server = server();
    let rules = "rules: [{ name: protect, adaptive: auto }]";
    let settings = sluicegate_config::parse("rules.yaml", &before(&[server.at], rules)).unwrap().settings;
    let sluice = Sluice::builder().rules(settings.rules.clone()).build().unwrap();
    let [(_, gate)] = &sluice.gates()[..] else { panic!("one rule with a gate") };
    gate.order(Orders { places: Some(1), ..Orders::OPEN });
    let served = Served::enforcing(Path::new("."), &settings, sluice.clone());
    let mut client = Client::connect(served.at);
    client.send(handshake("/ws/open"));
    assert_eq!(client.answer().unwrap().status, 101);
    assert_eq!(gate.in_flight(), 0);
    assert_eq!(Client::connect(served.at).get("/ws/plain").status, 403);
    // It is not over by that.
    assert_eq!(next(&mut Ahead(&mut client)), Some((TEXT, b"welcome".to_vec())));
    client.send(frame(TEXT, b"hello", Some([1, 2, 3, 4])));
    assert_eq!(next(&mut Ahead(&mut client)), Some((TEXT, b"hello".to_vec())));
}

#[test]
fn a_refused_handshake_is_an_answer_like_any_other() {
    let server = server();
    let served = Served::of(&before(&[server.at], "rules: [{ name: one, limits: [{ concurrency: 1 }] }]"));
    let mut client = Client::connect(served.at);
    for _ in 0..3 {
        client.send(handshake("/ws/refused"));
        let answer = client.answer().unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (403, "refused"));
        assert_eq!((answer.header("upgrade"), answer.header("connection")), (None, None));
        until("the permit is free", || client.get("/ws/plain").status == 403);
    }
}

#[test]
fn a_handshake_to_a_server_that_is_gone_is_refused() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let served = Served::of(&before(&[gone], "rules: [{ name: one, limits: [{ concurrency: 1 }] }]"));
    for _ in 0..2 {
        let mut client = Client::connect(served.at);
        client.send(handshake("/ws/open"));
        assert_eq!(client.answer().unwrap().status, 502);
    }
    // Nor does a server that hangs up instead of an answer keep anything.
    let server = Scripted::new(|mut stream: TcpStream| drop(head(&mut stream)));
    let served = Served::of(&before(&[server.at], "rules: [{ name: one, limits: [{ concurrency: 1 }] }]"));
    for _ in 0..2 {
        let mut client = Client::connect(served.at);
        client.send(handshake("/ws/open"));
        assert_eq!(client.answer().unwrap().status, 502);
    }
}
