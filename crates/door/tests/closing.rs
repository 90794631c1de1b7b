//! Stopping: nobody new, those who wait are told, those who are served are answered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use sluicegate_door::FrontDoor;
use sluicegate_engine::clock::ManualClock;
use support::{Server, answer, connect, get as ask, request, rest, send, settle, until};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

const GRACE: Duration = Duration::from_secs(30);

fn app(may_end: &Arc<Semaphore>) -> Router {
    let gate = Arc::clone(may_end);
    let slow = move || async move {
        drop(gate.acquire().await);
        "at last"
    };
    Router::new().route("/slow", get(slow)).route("/", get(|| async { "hello" }))
}

async fn door(clock: &ManualClock, max_connections: usize) -> FrontDoor {
    FrontDoor::builder()
        .max_connections(max_connections)
        .queue(5)
        .clock(clock.clone())
        .bind("127.0.0.1:0")
        .await
        .unwrap()
}

#[tokio::test]
async fn requests_under_way_are_answered_idle_connections_closed_and_waiting_ones_told() {
    let may_end = Arc::new(Semaphore::new(0));
    let clock = ManualClock::new();
    let server = Server::of(door(&clock, 2).await, app(&may_end), GRACE);
    let (at, handle) = (server.at, server.handle.clone());
    let mut busy = connect(at).await;
    send(&mut busy, request("/slow")).await;
    let mut idle = connect(at).await;
    assert!(ask(&mut idle, "/").await.ends_with("hello"));
    let mut waiting = connect(at).await;
    until("one waits", || handle.counts().queued == 1).await;
    settle().await;

    let report = server.stop();
    assert!(rest(&mut waiting).await.starts_with("HTTP/1.1 503 "));
    assert_eq!(rest(&mut idle).await, "");
    until("nobody listens", || std::net::TcpStream::connect(at).is_err()).await;
    may_end.add_permits(1);
    let last = answer(&mut busy).await;
    assert!(last.contains("connection: close\r\n") && last.ends_with("at last"), "{last}");
    drop((busy, idle, waiting));
    let report = report.await.unwrap();
    assert_eq!((report.finished, report.aborted, report.turned_away), (2, 0, 1));
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued, counts.refused.closing), (0, 0, 1));
    assert_eq!(clock.alarms(), 0);
}

#[tokio::test]
async fn what_takes_longer_than_the_grace_is_cut_off() {
    let clock = ManualClock::new();
    let server = Server::of(door(&clock, 2).await, app(&Arc::new(Semaphore::new(0))), GRACE);
    let handle = server.handle.clone();
    let mut busy = connect(server.at).await;
    send(&mut busy, request("/slow")).await;
    until("it is under way", || handle.counts().open == 1).await;
    let before = clock.alarms();
    let report = server.stop();
    until("the grace runs", || clock.alarms() > before).await;
    clock.advance(GRACE - Duration::from_nanos(1));
    settle().await;
    assert_eq!(handle.counts().open, 1);
    clock.advance(Duration::from_nanos(1));
    let report = report.await.unwrap();
    assert_eq!((report.finished, report.aborted), (0, 1));
    assert_eq!(handle.counts().open, 0);
    assert_eq!(rest_of(&mut busy).await, "");
}

#[tokio::test]
async fn dropping_a_server_closes_everything() {
    let clock = ManualClock::new();
    let server = Server::of(door(&clock, 2).await, app(&Arc::new(Semaphore::new(0))), GRACE);
    let handle = server.handle.clone();
    let mut busy = connect(server.at).await;
    send(&mut busy, request("/slow")).await;
    until("it is under way", || handle.counts().open == 1).await;
    server.abort();
    until("the door is empty", || handle.counts().open == 0).await;
    assert_eq!(rest_of(&mut busy).await, "");
}

/// What is left to read, however it ends.
async fn rest_of(stream: &mut TcpStream) -> String {
    use tokio::io::AsyncReadExt;
    let mut text = String::new();
    drop(tokio::time::timeout(support::GUARD, stream.read_to_string(&mut text)).await.unwrap());
    text
}
