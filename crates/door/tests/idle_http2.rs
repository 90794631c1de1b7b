//! What keeps a connection of HTTP/2 that has no request under way, and what does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use hyper_util::rt::TokioIo;
use sluicegate_door::FrontDoor;
use sluicegate_engine::clock::{Clock, ManualClock};
use support::{GUARD, Server, connect, send, until};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

const HEAD: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(60);
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

async fn serve(app: Router) -> (ManualClock, Server) {
    let clock = ManualClock::new();
    let builder = FrontDoor::builder().max_connections(10).queue(0).header_deadline(HEAD).keep_alive(IDLE);
    let door = builder.clock(clock.clone()).bind("127.0.0.1:0").await.unwrap();
    (clock, Server::of(door, app, Duration::from_secs(1)))
}

async fn send_frame(client: &mut TcpStream, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags, 0, 0, 0, stream];
    send(client, [&head, payload].concat()).await;
}

/// GET / of the authority "a".
async fn ask(client: &mut TcpStream) {
    send(client, GREETING).await;
    send_frame(client, HEADERS, 5, 1, &[0x82, 0x84, 0x86, 0x41, 1, b'a']).await;
}

/// The next frame of this kind: its flags and its payload.
async fn frame(client: &mut TcpStream, wanted: u8) -> (u8, Vec<u8>) {
    let reading = async {
        loop {
            let mut head = [0; 9];
            client.read_exact(&mut head).await.unwrap();
            let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
            client.read_exact(&mut payload).await.unwrap();
            if head[3] == wanted {
                return (head[4], payload);
            }
        }
    };
    timeout(GUARD, reading).await.unwrap()
}

/// So many bytes of answers.
async fn data(client: &mut TcpStream, bytes: usize) {
    let mut left = bytes;
    while left > 0 {
        left -= frame(client, DATA).await.1.len();
    }
}

#[tokio::test]
async fn pings_do_not_keep_a_place() {
    let (clock, server) = serve(Router::new().route("/", get(|| async { "hello" }))).await;
    let mut client = connect(server.at).await;
    ask(&mut client).await;
    data(&mut client, 5).await;
    let due = clock.now() + IDLE;
    clock.advance(Duration::from_secs(40));
    until("it is idle", || clock.next_alarm() == Some(due)).await;
    send_frame(&mut client, PING, 0, 0, &[7; 8]).await;
    assert_eq!(frame(&mut client, PING).await, (1, vec![7; 8]));
    clock.advance(Duration::from_secs(20));
    until("it is asked to leave", || server.handle.counts().idle_closed == 1).await;
    until("it is watched leaving", || clock.next_alarm() == Some(due + HEAD)).await;
    clock.advance(HEAD);
    until("its place is free", || server.handle.counts().open == 0).await;
}

#[tokio::test]
async fn an_answer_that_is_still_being_read_does() {
    const WINDOW: usize = 65_535;
    let (clock, server) = serve(Router::new().route("/", get(|| async { vec![b'x'; WINDOW + 300] }))).await;
    let mut client = connect(server.at).await;
    ask(&mut client).await;
    data(&mut client, WINDOW).await;
    let mut due = clock.now() + IDLE;
    for _ in 0..3 {
        clock.advance(Duration::from_secs(40));
        until("it is idle", || clock.next_alarm() == Some(due)).await;
        for stream in [0, 1] {
            send_frame(&mut client, WINDOW_UPDATE, 0, stream, &100_u32.to_be_bytes()).await;
        }
        data(&mut client, 100).await;
        due = clock.now() + IDLE;
    }
    clock.advance(Duration::from_secs(40));
    until("it is idle", || clock.next_alarm() == Some(due)).await;
    assert_eq!(server.handle.counts().idle_closed, 0);
}

/// Also one in which the server only listens.
#[tokio::test]
async fn a_tunnel_that_is_in_use_does() {
    let heard = Arc::new(AtomicUsize::new(0));
    let hears = Arc::clone(&heard);
    let listen = |request: Request| async {
        tokio::spawn(async move {
            let mut tunnel = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
            while tunnel.read_u8().await.is_ok() {
                hears.fetch_add(1, Ordering::SeqCst);
            }
        });
    };
    let (clock, server) = serve(Router::new().fallback(listen)).await;
    let mut client = connect(server.at).await;
    send(&mut client, GREETING).await;
    // CONNECT to the authority "a".
    send_frame(&mut client, HEADERS, 4, 1, b"\x42\x07CONNECT\x41\x01a").await;
    frame(&mut client, HEADERS).await;
    let mut due = clock.now() + IDLE;
    for word in 1..=3 {
        clock.advance(Duration::from_secs(40));
        until("it is idle", || clock.next_alarm() == Some(due)).await;
        send_frame(&mut client, DATA, 0, 1, b"hello").await;
        until("it is heard", || heard.load(Ordering::SeqCst) == 5 * word).await;
        due = clock.now() + IDLE;
    }
    clock.advance(Duration::from_secs(40));
    until("it is idle", || clock.next_alarm() == Some(due)).await;
    assert_eq!(server.handle.counts().idle_closed, 0);
}
