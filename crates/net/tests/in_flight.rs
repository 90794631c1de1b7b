//! In-flight request limit: completion, disconnects, panics and HTTP/2.

use crate::support;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use http_body::Frame;
use sluicegate_engine::clock::ManualClock;
use sluicegate_net::LimitedListener;
use support::{Server, connect, get as fetch, read_response, read_to_end, request, send, settle, wait_until};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// A handler that blocks until released, with counts of concurrent runs.
#[derive(Clone)]
struct Work {
    may_end: Arc<Semaphore>,
    now: Arc<AtomicUsize>,
    max: Arc<AtomicUsize>,
}

struct WorkGuard(Work);

impl Drop for WorkGuard {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Work {
    fn new() -> Self {
        Self { may_end: Arc::new(Semaphore::new(0)), now: Arc::default(), max: Arc::default() }
    }

    async fn run(self) -> &'static str {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.max.fetch_max(now, Ordering::SeqCst);
        let done = WorkGuard(self);
        done.0.may_end.acquire().await.unwrap().forget();
        "done"
    }

    fn router(&self) -> Router {
        let work = self.clone();
        Router::new().route("/", get(move || work.clone().run()))
    }
}

async fn listener(in_flight: usize) -> LimitedListener {
    LimitedListener::builder().max_connections(20).queue(0).in_flight(in_flight).bind("127.0.0.1:0").await.unwrap()
}

const GRACE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn in_flight_requests_are_limited_and_the_others_queue() {
    let work = Work::new();
    let server = Server::of(listener(3).await, work.router(), GRACE);
    let mut clients = Vec::new();
    for number in 1..=10usize {
        let mut client = connect(server.at).await;
        send(&mut client, request("/")).await;
        clients.push(client);
        wait_until("the request is counted", || {
            let counts = server.handle.counts();
            counts.in_flight + counts.requests_queued == number
        })
        .await;
    }
    let counts = server.handle.counts();
    assert_eq!((counts.in_flight, counts.requests_queued), (3, 7));
    work.may_end.add_permits(10);
    for client in &mut clients {
        assert!(read_response(client).await.ends_with("done"));
    }
    assert_eq!(work.max.load(Ordering::SeqCst), 3);
    wait_until("no connection is left", || server.handle.counts().in_flight == 0).await;
    assert_eq!(server.handle.counts().requests_rejected, 0);
}

#[tokio::test]
async fn a_queue_timeout_returns_503_and_keeps_the_connection() {
    let clock = ManualClock::new();
    let listener = LimitedListener::builder()
        .max_connections(20)
        .queue(0)
        .in_flight(1)
        .in_flight_timeout(Duration::from_secs(2))
        .clock(clock.clone())
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let work = Work::new();
    let server = Server::of(listener, work.router(), GRACE);
    let mut first = connect(server.at).await;
    send(&mut first, request("/")).await;
    wait_until("the first is in flight", || server.handle.counts().in_flight == 1).await;
    let mut second = connect(server.at).await;
    send(&mut second, request("/")).await;
    wait_until("the second is queued", || server.handle.counts().requests_queued == 1).await;
    clock.advance(Duration::from_secs(2));
    let response = read_response(&mut second).await;
    assert!(response.starts_with("HTTP/1.1 503 ") && response.contains("retry-after: 1\r\n"), "{response}");
    assert_eq!(server.handle.counts().requests_rejected, 1);

    work.may_end.add_permits(2);
    assert!(read_response(&mut first).await.ends_with("done"));
    assert!(fetch(&mut second, "/").await.ends_with("done"));
}

#[tokio::test]
async fn disconnects_leave_the_queue_and_cancel_the_request() {
    let work = Work::new();
    let server = Server::of(listener(1).await, work.router(), GRACE);
    let mut first = connect(server.at).await;
    send(&mut first, request("/")).await;
    wait_until("the first is in flight", || server.handle.counts().in_flight == 1).await;
    let mut second = connect(server.at).await;
    send(&mut second, request("/")).await;
    wait_until("the second is queued", || server.handle.counts().requests_queued == 1).await;
    drop(second);
    wait_until("the second is closed", || server.handle.counts().requests_queued == 0).await;
    drop(first);
    wait_until("the first is closed", || server.handle.counts().in_flight == 0).await;
    wait_until("all connections are closed", || server.handle.counts().open == 0).await;
    assert_eq!(work.now.load(Ordering::SeqCst), 0);
}

/// A body in two chunks; the second waits for a permit.
struct TwoChunks {
    left: u8,
    second: Arc<Semaphore>,
}

impl http_body::Body for TwoChunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        use std::task::Poll;
        match self.left {
            0 => return Poll::Ready(None),
            1 if self.second.try_acquire().is_err() => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            _ => {}
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"part")))))
    }
}

#[tokio::test]
async fn the_permit_is_held_until_the_body_ends() {
    let second = Arc::new(Semaphore::new(0));
    let part = Arc::clone(&second);
    let app = Router::new()
        .route("/slow", get(move || async move { Body::new(TwoChunks { left: 2, second: part }) }))
        .route("/", get(|| async { "hello" }));
    let server = Server::of(listener(1).await, app, GRACE);
    let mut slow = connect(server.at).await;
    assert!(fetch(&mut slow, "/slow").await.contains("transfer-encoding: chunked")); // the head is here
    let mut other = connect(server.at).await;
    send(&mut other, request("/")).await;
    wait_until("the other is queued", || server.handle.counts().requests_queued == 1).await;
    settle().await;
    assert_eq!(server.handle.counts().in_flight, 1);
    second.add_permits(1);
    assert!(read_response(&mut other).await.ends_with("hello"));
}

/// The listener applies the limit itself. An application that adds the layer too must not wait for the
/// permit it already holds.
#[tokio::test]
async fn passing_the_limit_twice_takes_one_permit() {
    let work = Work::new();
    let listener = listener(1).await;
    let app = work.router().layer(listener.in_flight_limit());
    let server = Server::of(listener, app, GRACE);
    let mut client = connect(server.at).await;
    send(&mut client, request("/")).await;
    wait_until("the request is in flight", || work.now.load(Ordering::SeqCst) == 1).await;
    let counts = server.handle.counts();
    assert_eq!((counts.in_flight, counts.requests_queued), (1, 0));
    work.may_end.add_permits(1);
    assert!(read_response(&mut client).await.ends_with("done"));
    wait_until("the permit is released", || server.handle.counts().in_flight == 0).await;
}

#[tokio::test]
async fn a_panic_releases_request_and_connection_permits() {
    async fn broken() -> &'static str {
        panic!("a panic caused by the test")
    }
    let app = Router::new().route("/", get(|| async { "hello" })).route("/broken", get(broken));
    let server = Server::of(listener(1).await, app, GRACE);
    for _ in 0..5 {
        let mut client = connect(server.at).await;
        send(&mut client, request("/broken")).await;
        assert_eq!(read_to_end(&mut client).await, "");
    }
    assert!(fetch(&mut connect(server.at).await, "/").await.ends_with("hello"));
    wait_until("all connections are closed", || server.handle.counts().open == 0).await;
    assert_eq!(server.handle.counts().in_flight, 0);
}

/// Sends four requests on one HTTP/2 connection.
async fn four_streams(server: &Server) -> TcpStream {
    let mut client = connect(server.at).await;
    let mut frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in [1, 3, 5, 7] {
        // HEADERS with END_STREAM and END_HEADERS: GET, /, http, authority "a".
        frames.extend([0, 0, 6, 1, 5, 0, 0, 0, stream, 0x82, 0x84, 0x86, 0x41, 1, b'a']);
    }
    send(&mut client, &frames).await;
    client
}

async fn wait_for_in_flight_and_queued(server: &Server, expected: (usize, usize)) {
    let expected_counts = || {
        let counts = server.handle.counts();
        (counts.in_flight, counts.requests_queued) == expected
    };
    wait_until("the expected counts are reached", expected_counts).await;
}

#[tokio::test]
async fn queued_requests_are_limited_to_max_connections() {
    let listener =
        LimitedListener::builder().max_connections(1).queue(0).in_flight(1).bind("127.0.0.1:0").await.unwrap();
    let work = Work::new();
    let server = Server::of(listener, work.router(), GRACE);
    let _client = four_streams(&server).await;
    wait_for_in_flight_and_queued(&server, (1, 1)).await;
    wait_until("two are refused", || server.handle.counts().requests_rejected == 2).await;
    work.may_end.add_permits(2);
    wait_for_in_flight_and_queued(&server, (0, 0)).await;
    assert_eq!(server.handle.counts().requests_rejected, 2);
}

#[tokio::test]
async fn a_broken_http2_connection_releases_all_permits() {
    let work = Work::new();
    let server = Server::of(listener(2).await, work.router(), GRACE);
    let client = four_streams(&server).await;
    wait_for_in_flight_and_queued(&server, (2, 2)).await;
    drop(client);
    wait_until("no request is in flight or queued", || {
        let counts = server.handle.counts();
        (counts.in_flight, counts.requests_queued, counts.open) == (0, 0, 0)
    })
    .await;
    assert_eq!(work.now.load(Ordering::SeqCst), 0);

    // The same if the server goes away.
    let client = four_streams(&server).await;
    wait_for_in_flight_and_queued(&server, (2, 2)).await;
    let handle = server.handle.clone();
    server.abort();
    wait_until("no request is in flight or queued", || {
        let counts = handle.counts();
        (counts.in_flight, counts.requests_queued, counts.open) == (0, 0, 0)
    })
    .await;
    drop(client);
}

#[tokio::test]
async fn each_http2_stream_counts_as_a_request() {
    let work = Work::new();
    let server = Server::of(listener(2).await, work.router(), GRACE);
    let client = four_streams(&server).await;
    wait_for_in_flight_and_queued(&server, (2, 2)).await;
    work.may_end.add_permits(4);
    wait_until("all requests are complete", || {
        server.handle.counts().in_flight == 0 && work.now.load(Ordering::SeqCst) == 0
    })
    .await;
    assert_eq!(work.max.load(Ordering::SeqCst), 2);
    drop(client);
    wait_until("all connections are closed", || server.handle.counts().open == 0).await;
}
