//! How many requests are worked on at once, whatever becomes of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use http_body::Frame;
use sluicegate_door::FrontDoor;
use sluicegate_engine::clock::ManualClock;
use support::{Server, answer, connect, get as ask, request, rest, send, settle, until};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Work that goes on until it is let go, and how much of it there is.
#[derive(Clone)]
struct Work {
    may_end: Arc<Semaphore>,
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

struct Done(Work);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Work {
    fn new() -> Self {
        Self { may_end: Arc::new(Semaphore::new(0)), now: Arc::default(), most: Arc::default() }
    }

    async fn run(self) -> &'static str {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let done = Done(self);
        done.0.may_end.acquire().await.unwrap().forget();
        "done"
    }

    fn router(&self) -> Router {
        let work = self.clone();
        Router::new().route("/", get(move || work.clone().run()))
    }
}

async fn door(in_flight: usize) -> FrontDoor {
    FrontDoor::builder().max_connections(20).queue(0).in_flight(in_flight).bind("127.0.0.1:0").await.unwrap()
}

const GRACE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn never_more_than_so_many_are_worked_on_and_the_rest_wait_in_line() {
    let work = Work::new();
    let server = Server::of(door(3).await, work.router(), GRACE);
    let mut clients = Vec::new();
    for number in 1..=10usize {
        let mut client = connect(server.at).await;
        send(&mut client, request("/")).await;
        clients.push(client);
        until("it is there", || {
            let counts = server.handle.counts();
            counts.in_flight + counts.requests_waiting == number
        })
        .await;
    }
    let counts = server.handle.counts();
    assert_eq!((counts.in_flight, counts.requests_waiting), (3, 7));
    work.may_end.add_permits(10);
    for client in &mut clients {
        assert!(answer(client).await.ends_with("done"));
    }
    assert_eq!(work.most.load(Ordering::SeqCst), 3);
    until("nobody is left", || server.handle.counts().in_flight == 0).await;
    assert_eq!(server.handle.counts().requests_refused, 0);
}

#[tokio::test]
async fn who_waits_too_long_is_told_and_the_connection_goes_on() {
    let clock = ManualClock::new();
    let door = FrontDoor::builder()
        .max_connections(20)
        .queue(0)
        .in_flight(1)
        .in_flight_wait(Duration::from_secs(2))
        .clock(clock.clone())
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let work = Work::new();
    let server = Server::of(door, work.router(), GRACE);
    let mut first = connect(server.at).await;
    send(&mut first, request("/")).await;
    until("the first works", || server.handle.counts().in_flight == 1).await;
    let mut second = connect(server.at).await;
    send(&mut second, request("/")).await;
    until("the second waits", || server.handle.counts().requests_waiting == 1).await;
    clock.advance(Duration::from_secs(2));
    let told = answer(&mut second).await;
    assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("retry-after: 1\r\n"), "{told}");
    assert_eq!(server.handle.counts().requests_refused, 1);

    work.may_end.add_permits(2);
    assert!(answer(&mut first).await.ends_with("done"));
    assert!(ask(&mut second, "/").await.ends_with("done"));
}

#[tokio::test]
async fn who_goes_away_leaves_the_line_and_whatever_is_worked_on_is_given_up() {
    let work = Work::new();
    let server = Server::of(door(1).await, work.router(), GRACE);
    let mut first = connect(server.at).await;
    send(&mut first, request("/")).await;
    until("the first works", || server.handle.counts().in_flight == 1).await;
    let mut second = connect(server.at).await;
    send(&mut second, request("/")).await;
    until("the second waits", || server.handle.counts().requests_waiting == 1).await;
    drop(second);
    until("the second is gone", || server.handle.counts().requests_waiting == 0).await;
    drop(first);
    until("the first is gone", || server.handle.counts().in_flight == 0).await;
    until("the door is empty", || server.handle.counts().open == 0).await;
    assert_eq!(work.now.load(Ordering::SeqCst), 0);
}

/// A body in two parts, the second of which comes when it may.
struct TwoParts {
    left: u8,
    second: Arc<Semaphore>,
}

impl http_body::Body for TwoParts {
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
async fn a_turn_is_held_until_the_body_has_ended() {
    let second = Arc::new(Semaphore::new(0));
    let part = Arc::clone(&second);
    let app = Router::new()
        .route("/slow", get(move || async move { Body::new(TwoParts { left: 2, second: part }) }))
        .route("/", get(|| async { "hello" }));
    let server = Server::of(door(1).await, app, GRACE);
    let mut slow = connect(server.at).await;
    assert!(ask(&mut slow, "/slow").await.contains("transfer-encoding: chunked")); // the head is here
    let mut other = connect(server.at).await;
    send(&mut other, request("/")).await;
    until("the other waits", || server.handle.counts().requests_waiting == 1).await;
    settle().await;
    assert_eq!(server.handle.counts().in_flight, 1);
    second.add_permits(1);
    assert!(answer(&mut other).await.ends_with("hello"));
}

/// The door applies the bound by itself. Whoever lays it around the application too must not wait for the
/// turn it holds.
#[tokio::test]
async fn a_request_that_passes_the_bound_twice_takes_one_turn() {
    let work = Work::new();
    let door = door(1).await;
    let app = work.router().layer(door.workers());
    let server = Server::of(door, app, GRACE);
    let mut client = connect(server.at).await;
    send(&mut client, request("/")).await;
    until("it is worked on", || work.now.load(Ordering::SeqCst) == 1).await;
    let counts = server.handle.counts();
    assert_eq!((counts.in_flight, counts.requests_waiting), (1, 0));
    work.may_end.add_permits(1);
    assert!(answer(&mut client).await.ends_with("done"));
    until("the turn is given back", || server.handle.counts().in_flight == 0).await;
}

#[tokio::test]
async fn a_panic_gives_back_the_turn_and_the_place() {
    async fn broken() -> &'static str {
        panic!("as a test wants it")
    }
    let app = Router::new().route("/", get(|| async { "hello" })).route("/broken", get(broken));
    let server = Server::of(door(1).await, app, GRACE);
    for _ in 0..5 {
        let mut unlucky = connect(server.at).await;
        send(&mut unlucky, request("/broken")).await;
        assert_eq!(rest(&mut unlucky).await, "");
    }
    assert!(ask(&mut connect(server.at).await, "/").await.ends_with("hello"));
    until("the door is empty", || server.handle.counts().open == 0).await;
    assert_eq!(server.handle.counts().in_flight, 0);
}

/// Four requests on one connection of HTTP/2.
async fn four_streams(server: &Server) -> TcpStream {
    let mut client = connect(server.at).await;
    let mut frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in [1, 3, 5, 7] {
        // HEADERS, with all flags that say "this is all": GET, /, http, authority "a".
        frames.extend([0, 0, 6, 1, 5, 0, 0, 0, stream, 0x82, 0x84, 0x86, 0x41, 1, b'a']);
    }
    send(&mut client, &frames).await;
    client
}

async fn until_working_and_waiting(server: &Server, expected: (usize, usize)) {
    let so_many = || {
        let counts = server.handle.counts();
        (counts.in_flight, counts.requests_waiting) == expected
    };
    until("so many work and wait", so_many).await;
}

#[tokio::test]
async fn no_more_requests_wait_than_there_may_be_connections() {
    let door = FrontDoor::builder().max_connections(1).queue(0).in_flight(1).bind("127.0.0.1:0").await.unwrap();
    let work = Work::new();
    let server = Server::of(door, work.router(), GRACE);
    let _client = four_streams(&server).await;
    until_working_and_waiting(&server, (1, 1)).await;
    until("two are refused", || server.handle.counts().requests_refused == 2).await;
    work.may_end.add_permits(2);
    until_working_and_waiting(&server, (0, 0)).await;
    assert_eq!(server.handle.counts().requests_refused, 2);
}

#[tokio::test]
async fn a_connection_of_http2_that_breaks_gives_all_its_turns_back() {
    let work = Work::new();
    let server = Server::of(door(2).await, work.router(), GRACE);
    let client = four_streams(&server).await;
    until_working_and_waiting(&server, (2, 2)).await;
    drop(client);
    until("nobody works or waits", || {
        let counts = server.handle.counts();
        (counts.in_flight, counts.requests_waiting, counts.open) == (0, 0, 0)
    })
    .await;
    assert_eq!(work.now.load(Ordering::SeqCst), 0);

    // The same if it is the server that goes.
    let client = four_streams(&server).await;
    until_working_and_waiting(&server, (2, 2)).await;
    let handle = server.handle.clone();
    server.abort();
    until("nobody works or waits", || {
        let counts = handle.counts();
        (counts.in_flight, counts.requests_waiting, counts.open) == (0, 0, 0)
    })
    .await;
    drop(client);
}

#[tokio::test]
async fn each_stream_of_http2_is_a_request() {
    let work = Work::new();
    let server = Server::of(door(2).await, work.router(), GRACE);
    let client = four_streams(&server).await;
    until_working_and_waiting(&server, (2, 2)).await;
    work.may_end.add_permits(4);
    until("all have ended", || server.handle.counts().in_flight == 0 && work.now.load(Ordering::SeqCst) == 0).await;
    assert_eq!(work.most.load(Ordering::SeqCst), 2);
    drop(client);
    until("the door is empty", || server.handle.counts().open == 0).await;
}
