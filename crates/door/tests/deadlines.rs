//! Slow clients, idle ones, and those who say nothing at all. The clock is turned by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use sluicegate_door::FrontDoor;
use sluicegate_engine::clock::{Clock, ManualClock};
use support::{GUARD, Server, answer, connect, get as ask, request, rest, send, settle, until};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

const HEAD: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(60);

async fn serve(app: Router) -> (ManualClock, Server) {
    let clock = ManualClock::new();
    let door = FrontDoor::builder()
        .max_connections(10)
        .queue(0)
        .header_deadline(HEAD)
        .keep_alive(IDLE)
        .clock(clock.clone())
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    (clock, Server::of(door, app, Duration::from_secs(1)))
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

/// The other side has closed, by whatever means.
async fn closed(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = timeout(GUARD, stream.read(&mut byte)).await.unwrap();
    assert!(!matches!(read, Ok(1..)), "there was more to read");
}

#[tokio::test]
async fn who_says_nothing_is_closed_at_the_deadline() {
    let (clock, server) = serve(hello()).await;
    let mut silent = connect(server.at).await;
    until("it is in and watched", || server.handle.counts().open == 1 && clock.alarms() == 1).await;
    clock.advance(HEAD - Duration::from_nanos(1));
    settle().await;
    assert_eq!(server.handle.counts().open, 1);
    clock.advance(Duration::from_nanos(1));
    closed(&mut silent).await;
    until("its place is free", || server.handle.counts().open == 0).await;
    assert_eq!(server.handle.counts().header_timeouts, 1);
    assert_eq!(clock.alarms(), 0);
}

#[tokio::test]
async fn a_byte_a_second_does_not_help() {
    // In the words of both protocols: before and after it is known which of them it is.
    for slow in [&b"GET / HTTP/1.1\r\nhost: a-long-name\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let (clock, server) = serve(hello()).await;
        let mut client = connect(server.at).await;
        until("it is in and watched", || server.handle.counts().open == 1 && clock.alarms() == 1).await;
        for byte in &slow[..9] {
            send(&mut client, [*byte]).await;
            clock.advance(Duration::from_secs(1));
            settle().await;
            assert_eq!(server.handle.counts().open, 1);
        }
        clock.advance(Duration::from_secs(1));
        closed(&mut client).await;
        until("its place is free", || server.handle.counts().open == 0).await;
        assert_eq!(server.handle.counts().header_timeouts, 1);
    }
}

#[tokio::test]
async fn a_greeting_of_http2_without_a_request_is_no_request() {
    let (clock, server) = serve(hello()).await;
    let mut client = connect(server.at).await;
    send(&mut client, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    // The server's own settings: it has understood.
    let mut settings = [0; 9];
    timeout(GUARD, client.read_exact(&mut settings)).await.unwrap().unwrap();
    assert_eq!(settings[3], 4);
    clock.advance(HEAD);
    until("its place is free", || server.handle.counts().open == 0).await;
    assert_eq!(server.handle.counts().header_timeouts, 1);
}

#[tokio::test]
async fn between_requests_a_connection_may_be_idle_and_then_is_closed() {
    let (clock, server) = serve(hello()).await;
    let mut client = connect(server.at).await;
    for _ in 0..3 {
        assert!(ask(&mut client, "/").await.ends_with("hello"));
        clock.advance(IDLE - Duration::from_secs(1)); // far beyond the deadline of a head
        settle().await;
    }
    assert!(ask(&mut client, "/").await.ends_with("hello"));
    until("the answer has ended", || clock.alarms() == 1).await;
    settle().await;
    clock.advance(IDLE);
    assert_eq!(rest(&mut client).await, "");
    until("its place is free", || server.handle.counts().open == 0).await;
    let counts = server.handle.counts();
    assert_eq!((counts.idle_closed, counts.header_timeouts), (1, 0));
}

#[tokio::test]
async fn the_next_head_has_its_own_deadline() {
    let (clock, server) = serve(hello()).await;
    let mut client = connect(server.at).await;
    assert!(ask(&mut client, "/").await.ends_with("hello"));
    let (beginning, end) = ("GET / HTTP/1.1\r\n", "host: door\r\n\r\n");

    let idle_from = clock.now();
    clock.advance(Duration::from_secs(20));
    until("it is idle", || clock.next_alarm() == Some(idle_from + IDLE)).await;
    send(&mut client, beginning).await;
    let due = clock.now() + HEAD;
    until("a head has begun", || clock.next_alarm() == Some(due)).await;
    clock.advance(HEAD - Duration::from_nanos(1));
    send(&mut client, end).await;
    assert!(answer(&mut client).await.ends_with("hello"));

    let idle_from = clock.now();
    clock.advance(Duration::from_secs(20));
    until("it is idle", || clock.next_alarm() == Some(idle_from + IDLE)).await;
    send(&mut client, beginning).await;
    let due = clock.now() + HEAD;
    until("a head has begun", || clock.next_alarm() == Some(due)).await;
    clock.advance(HEAD);
    closed(&mut client).await;
    until("its place is free", || server.handle.counts().open == 0).await;
    let counts = server.handle.counts();
    assert_eq!((counts.header_timeouts, counts.idle_closed), (1, 0));
}

#[tokio::test]
async fn work_takes_as_long_as_it_takes() {
    let may_end = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&may_end);
    let slow = move || async move {
        drop(gate.acquire().await);
        "at last"
    };
    let (clock, server) = serve(Router::new().route("/", get(slow))).await;
    let mut client = connect(server.at).await;
    send(&mut client, request("/")).await;
    settle().await;
    for _ in 0..10 {
        until("the request is under way", || clock.alarms() == 1).await;
        settle().await;
        clock.advance(Duration::from_secs(5));
    }
    clock.advance(Duration::from_secs(1_000));
    settle().await;
    may_end.add_permits(1);
    assert!(answer(&mut client).await.ends_with("at last"));
    assert_eq!(server.handle.counts().header_timeouts, 0);
}
