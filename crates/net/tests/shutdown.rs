//! Graceful shutdown: no new connections, queued ones are rejected, requests in flight are finished.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use sluicegate_engine::clock::ManualClock;
use sluicegate_net::LimitedListener;
use support::{Server, connect, get as fetch, read_response, read_to_end, request, send, settle, wait_until};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

const GRACE: Duration = Duration::from_secs(30);

fn app(may_end: &Arc<Semaphore>) -> Router {
    let latch = Arc::clone(may_end);
    let slow = move || async move {
        drop(latch.acquire().await);
        "at last"
    };
    Router::new().route("/slow", get(slow)).route("/", get(|| async { "hello" }))
}

async fn listener(clock: &ManualClock, max_connections: usize) -> LimitedListener {
    LimitedListener::builder()
        .max_connections(max_connections)
        .queue(5)
        .clock(clock.clone())
        .bind("127.0.0.1:0")
        .await
        .unwrap()
}

#[tokio::test]
async fn shutdown_finishes_requests_closes_idle_and_rejects_queued() {
    let may_end = Arc::new(Semaphore::new(0));
    let clock = ManualClock::new();
    let server = Server::of(listener(&clock, 2).await, app(&may_end), GRACE);
    let (at, handle) = (server.at, server.handle.clone());
    let mut busy = connect(at).await;
    send(&mut busy, request("/slow")).await;
    let mut idle = connect(at).await;
    assert!(fetch(&mut idle, "/").await.ends_with("hello"));
    let mut waiting = connect(at).await;
    wait_until("one is queued", || handle.counts().queued == 1).await;
    settle().await;

    let report = server.stop();
    assert!(read_to_end(&mut waiting).await.starts_with("HTTP/1.1 503 "));
    assert_eq!(read_to_end(&mut idle).await, "");
    wait_until("the socket is closed", || std::net::TcpStream::connect(at).is_err()).await;
    may_end.add_permits(1);
    let last = read_response(&mut busy).await;
    assert!(last.contains("connection: close\r\n") && last.ends_with("at last"), "{last}");
    drop((busy, idle, waiting));
    let report = report.await.unwrap();
    assert_eq!((report.finished, report.aborted, report.rejected), (2, 0, 1));
    let counts = handle.counts();
    assert_eq!((counts.open, counts.queued, counts.rejected.closing), (0, 0, 1));
    assert_eq!(clock.pending_timers(), 0);
}

#[tokio::test]
async fn requests_longer_than_the_grace_are_aborted() {
    let clock = ManualClock::new();
    let server = Server::of(listener(&clock, 2).await, app(&Arc::new(Semaphore::new(0))), GRACE);
    let handle = server.handle.clone();
    let mut busy = connect(server.at).await;
    send(&mut busy, request("/slow")).await;
    wait_until("the request is in flight", || handle.counts().open == 1).await;
    let before = clock.pending_timers();
    let report = server.stop();
    wait_until("the drain grace has started", || clock.pending_timers() > before).await;
    clock.advance(GRACE - Duration::from_nanos(1));
    settle().await;
    assert_eq!(handle.counts().open, 1);
    clock.advance(Duration::from_nanos(1));
    let report = report.await.unwrap();
    assert_eq!((report.finished, report.aborted), (0, 1));
    assert_eq!(handle.counts().open, 0);
    assert_eq!(read_until_closed(&mut busy).await, "");
}

#[tokio::test]
async fn dropping_a_server_closes_everything() {
    let clock = ManualClock::new();
    let server = Server::of(listener(&clock, 2).await, app(&Arc::new(Semaphore::new(0))), GRACE);
    let handle = server.handle.clone();
    let mut busy = connect(server.at).await;
    send(&mut busy, request("/slow")).await;
    wait_until("the request is in flight", || handle.counts().open == 1).await;
    server.abort();
    wait_until("all connections are closed", || handle.counts().open == 0).await;
    assert_eq!(read_until_closed(&mut busy).await, "");
}

/// Reads until the connection ends, by close or reset.
async fn read_until_closed(stream: &mut TcpStream) -> String {
    use tokio::io::AsyncReadExt;
    let mut text = String::new();
    drop(tokio::time::timeout(support::TEST_TIMEOUT, stream.read_to_string(&mut text)).await.unwrap());
    text
}
