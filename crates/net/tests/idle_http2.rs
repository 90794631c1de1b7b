//! Idle timeout of HTTP/2 connections: events that do and do not keep a connection open.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use hyper_util::rt::TokioIo;
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_net::LimitedListener;
use support::{Server, TEST_TIMEOUT, connect, send, wait_until};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

const HEAD: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(60);
const PREFACE_AND_SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

async fn serve(app: Router) -> (ManualClock, Server) {
    let clock = ManualClock::new();
    let builder = LimitedListener::builder().max_connections(10).queue(0).header_timeout(HEAD).keep_alive(IDLE);
    let listener = builder.clock(clock.clone()).bind("127.0.0.1:0").await.unwrap();
    (clock, Server::of(listener, app, Duration::from_secs(1)))
}

async fn send_frame(client: &mut TcpStream, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags, 0, 0, 0, stream];
    send(client, [&head, payload].concat()).await;
}

/// Sends `GET /` for the authority "a".
async fn send_get(client: &mut TcpStream) {
    send(client, PREFACE_AND_SETTINGS).await;
    send_frame(client, HEADERS, 5, 1, &[0x82, 0x84, 0x86, 0x41, 1, b'a']).await;
}

/// Reads the next frame of this kind and returns its flags and payload.
async fn read_frame(client: &mut TcpStream, wanted: u8) -> (u8, Vec<u8>) {
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
    timeout(TEST_TIMEOUT, reading).await.unwrap()
}

/// Reads this number of response bytes.
async fn read_data(client: &mut TcpStream, bytes: usize) {
    let mut left = bytes;
    while left > 0 {
        left -= read_frame(client, DATA).await.1.len();
    }
}

#[tokio::test]
async fn pings_do_not_keep_a_connection_open() {
    let (clock, server) = serve(Router::new().route("/", get(|| async { "hello" }))).await;
    let mut client = connect(server.at).await;
    send_get(&mut client).await;
    read_data(&mut client, 5).await;
    let due = clock.now() + IDLE;
    clock.advance(Duration::from_secs(40));
    wait_until("the connection is idle", || clock.next_timer() == Some(due)).await;
    send_frame(&mut client, PING, 0, 0, &[7; 8]).await;
    assert_eq!(read_frame(&mut client, PING).await, (1, vec![7; 8]));
    clock.advance(Duration::from_secs(20));
    wait_until("GOAWAY was sent", || server.handle.counts().idle_timeouts == 1).await;
    wait_until("the shutdown is timed", || clock.next_timer() == Some(due + HEAD)).await;
    clock.advance(HEAD);
    wait_until("its permit is released", || server.handle.counts().open == 0).await;
}

#[tokio::test]
async fn a_response_being_read_keeps_the_connection_open() {
    const WINDOW: usize = 65_535;
    let (clock, server) = serve(Router::new().route("/", get(|| async { vec![b'x'; WINDOW + 300] }))).await;
    let mut client = connect(server.at).await;
    send_get(&mut client).await;
    read_data(&mut client, WINDOW).await;
    let mut due = clock.now() + IDLE;
    for _ in 0..3 {
        clock.advance(Duration::from_secs(40));
        wait_until("the connection is idle", || clock.next_timer() == Some(due)).await;
        for stream in [0, 1] {
            send_frame(&mut client, WINDOW_UPDATE, 0, stream, &100_u32.to_be_bytes()).await;
        }
        read_data(&mut client, 100).await;
        due = clock.now() + IDLE;
    }
    clock.advance(Duration::from_secs(40));
    wait_until("the connection is idle", || clock.next_timer() == Some(due)).await;
    assert_eq!(server.handle.counts().idle_timeouts, 0);
}

/// Also a tunnel on which the server only reads.
#[tokio::test]
async fn an_active_tunnel_keeps_the_connection_open() {
    let received = Arc::new(AtomicUsize::new(0));
    let received_by_server = Arc::clone(&received);
    let listen = |request: Request| async {
        tokio::spawn(async move {
            let mut tunnel = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
            while tunnel.read_u8().await.is_ok() {
                received_by_server.fetch_add(1, Ordering::SeqCst);
            }
        });
    };
    let (clock, server) = serve(Router::new().fallback(listen)).await;
    let mut client = connect(server.at).await;
    send(&mut client, PREFACE_AND_SETTINGS).await;
    // CONNECT to the authority "a".
    send_frame(&mut client, HEADERS, 4, 1, b"\x42\x07CONNECT\x41\x01a").await;
    read_frame(&mut client, HEADERS).await;
    let mut due = clock.now() + IDLE;
    for message in 1..=3 {
        clock.advance(Duration::from_secs(40));
        wait_until("the connection is idle", || clock.next_timer() == Some(due)).await;
        send_frame(&mut client, DATA, 0, 1, b"hello").await;
        wait_until("the message has arrived", || received.load(Ordering::SeqCst) == 5 * message).await;
        due = clock.now() + IDLE;
    }
    clock.advance(Duration::from_secs(40));
    wait_until("the connection is idle", || clock.next_timer() == Some(due)).await;
    assert_eq!(server.handle.counts().idle_timeouts, 0);
}
