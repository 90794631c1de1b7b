//! Idle connections take little, and lose nothing. The clock is turned by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use sluicegate_door::FrontDoor;
use sluicegate_engine::clock::ManualClock;
use support::{GUARD, Server, answer, connect, get as ask, request, rest, send, settle, until};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

const REST: Duration = Duration::from_secs(3);
const IDLE: Duration = Duration::from_secs(60);
const PARTING: Duration = Duration::from_secs(1);
const SEND: Duration = Duration::from_secs(30);

async fn serve() -> (ManualClock, Server) {
    let clock = ManualClock::new();
    let door = FrontDoor::builder()
        .max_connections(10)
        .queue(0)
        .keep_alive(IDLE)
        .parting(PARTING)
        .send_deadline(SEND)
        .clock(clock.clone())
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let large = || async { Bytes::from(vec![b'x'; 64 << 20]) };
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/", post(|body: Bytes| async move { body }))
        .route("/large", get(large));
    (clock, Server::of(door, app, Duration::from_secs(1_000)))
}

#[tokio::test]
async fn an_idle_connection_rests_and_serves_again() {
    let (clock, server) = serve().await;
    let mut client = connect(server.at).await;
    for round in 0..3 {
        assert!(ask(&mut client, "/").await.ends_with("hello"), "{round}");
        settle().await;
        clock.advance(REST - Duration::from_nanos(1));
        settle().await;
        assert_eq!(server.handle.counts().resting, 0);
        clock.advance(Duration::from_nanos(1));
        until("it rests", || server.handle.counts().resting == 1).await;
    }
    // Its next request may come in pieces, and with another behind it.
    let two = request("/").repeat(2);
    send(&mut client, &two[..10]).await;
    settle().await;
    send(&mut client, &two[10..]).await;
    assert!(answer(&mut client).await.ends_with("hello"));
    assert!(answer(&mut client).await.ends_with("hello"));
    assert_eq!(server.handle.counts().resting, 0);
}

#[tokio::test]
async fn a_resting_connection_is_closed_when_it_was_idle_for_too_long() {
    let (clock, server) = serve().await;
    let mut client = connect(server.at).await;
    ask(&mut client, "/").await;
    settle().await;
    clock.advance(REST);
    until("it rests", || server.handle.counts().resting == 1).await;
    clock.advance(IDLE - REST - Duration::from_nanos(1));
    settle().await;
    assert_eq!(server.handle.counts().open, 1);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(rest(&mut client).await, "");
    until("its place is free", || server.handle.counts().open == 0).await;
    assert_eq!((server.handle.counts().idle_closed, server.handle.counts().resting), (1, 0));
}

/// What is left of a body must never be taken for the head of a request.
#[tokio::test]
async fn after_a_request_with_a_body_a_connection_does_not_rest() {
    let (clock, server) = serve().await;
    let mut client = connect(server.at).await;
    send(&mut client, "POST / HTTP/1.1\r\nhost: door\r\ncontent-length: 5\r\n\r\n12345").await;
    assert!(answer(&mut client).await.ends_with("12345"));
    settle().await;
    clock.advance(REST * 2);
    settle().await;
    assert_eq!((server.handle.counts().open, server.handle.counts().resting), (1, 0));
    assert!(ask(&mut client, "/").await.ends_with("hello"));
    settle().await;
    clock.advance(REST);
    until("it rests", || server.handle.counts().resting == 1).await;
}

/// A request that is on its way when the door closes is answered, and told that it was the last.
#[tokio::test]
async fn idle_connections_have_a_last_moment_when_the_door_closes() {
    let (clock, server) = serve().await;
    let (at, handle) = (server.at, server.handle.clone());
    let (mut resting, mut idle, mut silent) = (connect(at).await, connect(at).await, connect(at).await);
    ask(&mut resting, "/").await;
    ask(&mut silent, "/").await;
    settle().await;
    clock.advance(REST);
    until("both rest", || handle.counts().resting == 2).await;
    ask(&mut idle, "/").await;
    settle().await;
    let before = clock.alarms();
    let report = server.stop();
    until("the grace runs", || clock.alarms() > before).await;
    settle().await;
    for client in [&mut resting, &mut idle] {
        send(client, request("/")).await;
        let last = answer(client).await;
        assert!(last.contains("connection: close\r\n") && last.ends_with("hello"), "{last}");
        assert_eq!(rest(client).await, "");
    }
    assert_eq!(handle.counts().open, 1);
    clock.advance(PARTING);
    assert_eq!(rest(&mut silent).await, "");
    let report = report.await.unwrap();
    assert_eq!((report.finished, report.aborted), (3, 0));
}

#[tokio::test]
async fn who_does_not_read_its_answer_is_closed_at_the_deadline() {
    let (clock, server) = serve().await;
    let mut client = connect(server.at).await;
    send(&mut client, request("/large")).await;
    until("it is in", || server.handle.counts().open == 1).await;
    // The deadline runs from when the client took the last of it, which is not seen from here.
    until("it is closed", || {
        clock.advance(Duration::from_secs(1));
        server.handle.counts().open == 0
    })
    .await;
    assert_eq!(server.handle.counts().unread_closed, 1);
}

/// What waits to be read is no idleness: nothing of it may be lost by a rest.
#[tokio::test]
async fn a_slow_reader_gets_all_of_its_answer() {
    let (clock, server) = serve().await;
    let mut client = connect(server.at).await;
    send(&mut client, "GET /large HTTP/1.1\r\nhost: door\r\nconnection: close\r\n\r\n").await;
    until("it is in", || server.handle.counts().open == 1).await;
    let mut read = 0;
    let mut part = vec![0; 4 << 20];
    loop {
        clock.advance(REST * 2);
        settle().await;
        assert_eq!(server.handle.counts().resting, 0);
        match timeout(GUARD, client.read(&mut part)).await.unwrap().unwrap() {
            0 => break,
            more => read += more,
        }
    }
    assert!(read > 64 << 20, "only {read}");
}
