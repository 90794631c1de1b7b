//! Timeouts for slow, idle and silent clients, with a manual clock.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_net::LimitedListener;
use support::{
    Server, TEST_TIMEOUT, connect, get as fetch, read_response, read_to_end, request, send, settle, wait_until,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

const HEAD: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(60);

async fn serve(app: Router) -> (ManualClock, Server) {
    let clock = ManualClock::new();
    let listener = LimitedListener::builder()
        .max_connections(10)
        .queue(0)
        .header_timeout(HEAD)
        .keep_alive(IDLE)
        .clock(clock.clone())
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    (clock, Server::of(listener, app, Duration::from_secs(1)))
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

/// Asserts that the server has closed the connection, by close or reset.
async fn assert_closed(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = timeout(TEST_TIMEOUT, stream.read(&mut byte)).await.unwrap();
    assert!(!matches!(read, Ok(1..)), "more data than expected");
}

#[tokio::test]
async fn a_silent_connection_is_closed_at_the_header_timeout() {
    let (clock, server) = serve(hello()).await;
    let mut silent = connect(server.at).await;
    wait_until("the connection is accepted and timed", || {
        server.handle.counts().open == 1 && clock.pending_timers() == 1
    })
    .await;
    clock.advance(HEAD - Duration::from_nanos(1));
    settle().await;
    assert_eq!(server.handle.counts().open, 1);
    clock.advance(Duration::from_nanos(1));
    assert_closed(&mut silent).await;
    wait_until("its permit is released", || server.handle.counts().open == 0).await;
    assert_eq!(server.handle.counts().header_timeouts, 1);
    assert_eq!(clock.pending_timers(), 0);
}

#[tokio::test]
async fn trickled_bytes_do_not_extend_the_header_timeout() {
    // In both protocols: before and after the protocol is detected.
    for slow in [&b"GET / HTTP/1.1\r\nhost: a-long-name\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let (clock, server) = serve(hello()).await;
        let mut client = connect(server.at).await;
        wait_until("the connection is accepted and timed", || {
            server.handle.counts().open == 1 && clock.pending_timers() == 1
        })
        .await;
        for byte in &slow[..9] {
            send(&mut client, [*byte]).await;
            clock.advance(Duration::from_secs(1));
            settle().await;
            assert_eq!(server.handle.counts().open, 1);
        }
        clock.advance(Duration::from_secs(1));
        assert_closed(&mut client).await;
        wait_until("its permit is released", || server.handle.counts().open == 0).await;
        assert_eq!(server.handle.counts().header_timeouts, 1);
    }
}

#[tokio::test]
async fn an_http2_preface_alone_does_not_stop_the_header_timeout() {
    let (clock, server) = serve(hello()).await;
    let mut client = connect(server.at).await;
    send(&mut client, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    // The server's SETTINGS frame: it has detected HTTP/2.
    let mut settings = [0; 9];
    timeout(TEST_TIMEOUT, client.read_exact(&mut settings)).await.unwrap().unwrap();
    assert_eq!(settings[3], 4);
    clock.advance(HEAD);
    wait_until("its permit is released", || server.handle.counts().open == 0).await;
    assert_eq!(server.handle.counts().header_timeouts, 1);
}

#[tokio::test]
async fn an_idle_connection_is_closed_at_the_keep_alive_timeout() {
    let (clock, server) = serve(hello()).await;
    let mut client = connect(server.at).await;
    for _ in 0..3 {
        assert!(fetch(&mut client, "/").await.ends_with("hello"));
        clock.advance(IDLE - Duration::from_secs(1)); // far beyond the deadline of a head
        settle().await;
    }
    assert!(fetch(&mut client, "/").await.ends_with("hello"));
    wait_until("the response is complete", || clock.pending_timers() == 1).await;
    settle().await;
    clock.advance(IDLE);
    assert_eq!(read_to_end(&mut client).await, "");
    wait_until("its permit is released", || server.handle.counts().open == 0).await;
    let counts = server.handle.counts();
    assert_eq!((counts.idle_timeouts, counts.header_timeouts), (1, 0));
}

#[tokio::test]
async fn each_request_head_has_its_own_timeout() {
    let (clock, server) = serve(hello()).await;
    let mut client = connect(server.at).await;
    assert!(fetch(&mut client, "/").await.ends_with("hello"));
    let (beginning, end) = ("GET / HTTP/1.1\r\n", "host: shop\r\n\r\n");

    let idle_from = clock.now();
    clock.advance(Duration::from_secs(20));
    wait_until("the connection is idle", || clock.next_timer() == Some(idle_from + IDLE)).await;
    send(&mut client, beginning).await;
    let due = clock.now() + HEAD;
    wait_until("a request head has started", || clock.next_timer() == Some(due)).await;
    clock.advance(HEAD - Duration::from_nanos(1));
    send(&mut client, end).await;
    assert!(read_response(&mut client).await.ends_with("hello"));

    let idle_from = clock.now();
    clock.advance(Duration::from_secs(20));
    wait_until("the connection is idle", || clock.next_timer() == Some(idle_from + IDLE)).await;
    send(&mut client, beginning).await;
    let due = clock.now() + HEAD;
    wait_until("a request head has started", || clock.next_timer() == Some(due)).await;
    clock.advance(HEAD);
    assert_closed(&mut client).await;
    wait_until("its permit is released", || server.handle.counts().open == 0).await;
    let counts = server.handle.counts();
    assert_eq!((counts.header_timeouts, counts.idle_timeouts), (1, 0));
}

#[tokio::test]
async fn requests_in_flight_have_no_timeout() {
    let may_end = Arc::new(Semaphore::new(0));
    let latch = Arc::clone(&may_end);
    let slow = move || async move {
        drop(latch.acquire().await);
        "at last"
    };
    let (clock, server) = serve(Router::new().route("/", get(slow))).await;
    let mut client = connect(server.at).await;
    send(&mut client, request("/")).await;
    settle().await;
    for _ in 0..10 {
        wait_until("the request is in flight", || clock.pending_timers() == 1).await;
        settle().await;
        clock.advance(Duration::from_secs(5));
    }
    clock.advance(Duration::from_secs(1_000));
    settle().await;
    may_end.add_permits(1);
    assert!(read_response(&mut client).await.ends_with("at last"));
    assert_eq!(server.handle.counts().header_timeouts, 0);
}
