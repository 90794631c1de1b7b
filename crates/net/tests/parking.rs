//! Parking of idle connections, with a manual clock.

use crate::support;

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use sluicegate_engine::clock::ManualClock;
use sluicegate_net::LimitedListener;
use support::{
    Server, TEST_TIMEOUT, connect, get as fetch, read_response, read_to_end, request, send, settle, wait_until,
};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

const PARK_AFTER: Duration = Duration::from_secs(3);
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const DRAIN_GRACE: Duration = Duration::from_secs(1);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

async fn serve() -> (ManualClock, Server) {
    let clock = ManualClock::new();
    let listener = LimitedListener::builder()
        .max_connections(10)
        .queue(0)
        .keep_alive(KEEP_ALIVE)
        .drain_grace(DRAIN_GRACE)
        .write_timeout(WRITE_TIMEOUT)
        .clock(clock.clone())
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let large = || async { Bytes::from(vec![b'x'; 64 << 20]) };
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/", post(|body: Bytes| async move { body }))
        .route("/large", get(large));
    (clock, Server::of(listener, app, Duration::from_secs(1_000)))
}

#[tokio::test]
async fn an_idle_connection_is_parked_and_resumes() {
    let (clock, server) = serve().await;
    let mut client = connect(server.at).await;
    for round in 0..3 {
        assert!(fetch(&mut client, "/").await.ends_with("hello"), "{round}");
        settle().await;
        clock.advance(PARK_AFTER - Duration::from_nanos(1));
        settle().await;
        assert_eq!(server.handle.counts().parked, 0);
        clock.advance(Duration::from_nanos(1));
        wait_until("it is parked", || server.handle.counts().parked == 1).await;
    }
    // The next request may arrive in pieces, followed by another.
    let two = request("/").repeat(2);
    send(&mut client, &two[..10]).await;
    settle().await;
    send(&mut client, &two[10..]).await;
    assert!(read_response(&mut client).await.ends_with("hello"));
    assert!(read_response(&mut client).await.ends_with("hello"));
    assert_eq!(server.handle.counts().parked, 0);
}

#[tokio::test]
async fn a_parked_connection_is_closed_at_the_keep_alive_timeout() {
    let (clock, server) = serve().await;
    let mut client = connect(server.at).await;
    fetch(&mut client, "/").await;
    settle().await;
    clock.advance(PARK_AFTER);
    wait_until("it is parked", || server.handle.counts().parked == 1).await;
    clock.advance(KEEP_ALIVE - PARK_AFTER - Duration::from_nanos(1));
    settle().await;
    assert_eq!(server.handle.counts().open, 1);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(read_to_end(&mut client).await, "");
    wait_until("its permit is released", || server.handle.counts().open == 0).await;
    assert_eq!((server.handle.counts().idle_timeouts, server.handle.counts().parked), (1, 0));
}

/// The remaining bytes of a body must never be parsed as a request head.
#[tokio::test]
async fn a_connection_is_not_parked_after_a_request_with_a_body() {
    let (clock, server) = serve().await;
    let mut client = connect(server.at).await;
    send(&mut client, "POST / HTTP/1.1\r\nhost: shop\r\ncontent-length: 5\r\n\r\n12345").await;
    assert!(read_response(&mut client).await.ends_with("12345"));
    settle().await;
    clock.advance(PARK_AFTER * 2);
    settle().await;
    assert_eq!((server.handle.counts().open, server.handle.counts().parked), (1, 0));
    assert!(fetch(&mut client, "/").await.ends_with("hello"));
    settle().await;
    clock.advance(PARK_AFTER);
    wait_until("it is parked", || server.handle.counts().parked == 1).await;
}

/// A request on its way during shutdown is served, and its response announces the close.
#[tokio::test]
async fn idle_connections_get_the_drain_grace_on_shutdown() {
    let (clock, server) = serve().await;
    let (at, handle) = (server.at, server.handle.clone());
    let (mut parked, mut idle, mut silent) = (connect(at).await, connect(at).await, connect(at).await);
    fetch(&mut parked, "/").await;
    fetch(&mut silent, "/").await;
    settle().await;
    clock.advance(PARK_AFTER);
    wait_until("both are parked", || handle.counts().parked == 2).await;
    fetch(&mut idle, "/").await;
    settle().await;
    let before = clock.pending_timers();
    let report = server.stop();
    wait_until("the drain grace has started", || clock.pending_timers() > before).await;
    settle().await;
    for client in [&mut parked, &mut idle] {
        send(client, request("/")).await;
        let last = read_response(client).await;
        assert!(last.contains("connection: close\r\n") && last.ends_with("hello"), "{last}");
        assert_eq!(read_to_end(client).await, "");
    }
    assert_eq!(handle.counts().open, 1);
    clock.advance(DRAIN_GRACE);
    assert_eq!(read_to_end(&mut silent).await, "");
    let report = report.await.unwrap();
    assert_eq!((report.finished, report.aborted), (3, 0));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed_at_the_write_timeout() {
    let (clock, server) = serve().await;
    let mut client = connect(server.at).await;
    send(&mut client, request("/large")).await;
    wait_until("the connection is accepted", || server.handle.counts().open == 1).await;
    // The timeout starts at the client's last read, which is not visible from here.
    wait_until("it is closed", || {
        clock.advance(Duration::from_secs(1));
        server.handle.counts().open == 0
    })
    .await;
    assert_eq!(server.handle.counts().write_timeouts, 1);
}

/// Unread output does not count as idle: parking must not lose any of it.
#[tokio::test]
async fn a_slow_reader_receives_the_whole_response() {
    let (clock, server) = serve().await;
    let mut client = connect(server.at).await;
    send(&mut client, "GET /large HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n").await;
    wait_until("the connection is accepted", || server.handle.counts().open == 1).await;
    let mut read = 0;
    let mut part = vec![0; 4 << 20];
    // The clock stays below the write timeout: under load the kernel may deliver nothing between two advances.
    let mut advances = 0;
    loop {
        if advances < 4 && read >= advances * (16 << 20) {
            advances += 1;
            clock.advance(PARK_AFTER * 2);
            settle().await;
        }
        assert_eq!(server.handle.counts().parked, 0);
        match timeout(TEST_TIMEOUT, client.read(&mut part)).await.unwrap().unwrap() {
            0 => break,
            more => read += more,
        }
    }
    assert!(read > 64 << 20, "only {read}");
}
