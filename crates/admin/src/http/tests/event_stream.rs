//! The event stream.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::Rule;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::openapi::assert_matches_schema;
use super::{READ, TOKENS, TestServer, call};
use crate::GatewayStats;
use crate::http::event_stream::MAX_LISTENERS;

/// Reads the data of the next event.
async fn next_tick(body: &mut Incoming) -> Option<Value> {
    let frame = timeout(Duration::from_secs(20), body.frame()).await.expect("a tick in time")?;
    let data = frame.unwrap().into_data().unwrap();
    let text = std::str::from_utf8(&data).unwrap();
    let data = text.strip_prefix("event: tick\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
    Some(serde_json::from_str(data).unwrap())
}

fn subscribe_request() -> http::Request<http_body_util::Full<bytes::Bytes>> {
    call("GET", "/v1/live", Some(READ), None)
}

#[tokio::test]
async fn all_listeners_receive_the_same_ticks() {
    let gateway = |sources: &mut crate::Providers| {
        sources.gateway = Some(std::sync::Arc::new(|| GatewayStats {
            in_flight: 3,
            responses_by_class: vec![0, 7],
            ..Default::default()
        }));
    };
    let mut subject = TestServer::with(Some(TOKENS), gateway);
    subject.fixture.send_requests("203.0.113.9", 3);
    let response = subject.send_for_head(subscribe_request()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-store");
    let (mut one, mut other) = (response.into_body(), subject.send_for_head(subscribe_request()).await.into_body());
    let (first, also) = (next_tick(&mut one).await.unwrap(), next_tick(&mut other).await.unwrap());
    assert_matches_schema(&json!({"$ref": "#/components/schemas/Tick"}), &first);
    assert_eq!(first["rules"][0]["admitted"], 2);
    assert_eq!(first["gateway"], json!({"connections": 0, "in_flight": 3, "requests": 7}));
    let second = next_tick(&mut one).await.unwrap();
    assert!(second["at_ms"].as_u64() > first["at_ms"].as_u64());
    assert!(also == first || also == second);
    let report = subject.stop();
    assert_eq!(report.aborted, 0);
    while next_tick(&mut one).await.is_some() {}
    while next_tick(&mut other).await.is_some() {}
}

#[tokio::test]
async fn listeners_are_limited_and_slots_are_reused() {
    let subject = TestServer::start(Some(TOKENS));
    let mut listening = Vec::new();
    for _ in 0..MAX_LISTENERS {
        let mut body = subject.send_for_head(subscribe_request()).await.into_body();
        next_tick(&mut body).await.unwrap();
        listening.push(body);
    }
    subject.send(subscribe_request()).await.assert_problem(503, "full", "listeners are connected");
    assert_eq!(subject.get("/v1/status").await.status, 200);
    listening.truncate(MAX_LISTENERS / 2);
    let again = async {
        loop {
            let response = subject.send_for_head(subscribe_request()).await;
            if response.status() == 200 {
                return response;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(20), again).await.unwrap();
}

/// A listener that reads on demand.
struct SlowListener {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl SlowListener {
    async fn start(subject: &TestServer) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut stream = socket.connect(subject.address).await.unwrap();
        let head = format!("GET /v1/live HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {READ}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut reader = Self { stream, buffer: Vec::new() };
        let head = reader.read_until(b"\r\n\r\n").await.unwrap();
        assert!(head.starts_with(b"HTTP/1.0 200 "));
        reader
    }

    /// Reads up to this delimiter; `None` if the stream ends first.
    async fn read_until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        let mut seen = 0;
        loop {
            let found = self.buffer[seen..].windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Some(self.buffer.drain(..seen + at + end.len()).collect());
            }
            seen = self.buffer.len().saturating_sub(end.len());
            let read = timeout(Duration::from_secs(20), self.stream.read_buf(&mut self.buffer)).await.expect("in time");
            // A reset counts as an end.
            if read.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// Time of the next tick; `None` if the stream has ended.
    async fn tick(&mut self) -> Option<u64> {
        let event = String::from_utf8(self.read_until(b"\n\n").await?).unwrap();
        let data = event.strip_prefix("event: tick\ndata: ").expect("a complete event");
        let tick: Value = serde_json::from_str(data).unwrap();
        Some(tick["at_ms"].as_u64().unwrap())
    }
}

/// A listener that does not read is not buffered for: it misses ticks and is finally disconnected. Others
/// are not affected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_listener_misses_ticks_and_is_disconnected() {
    const SECOND: Duration = Duration::from_secs(1);
    let clock = ManualClock::new();
    let subject = TestServer::with_clock(clock.clone().into(), Some(TOKENS), |_| {});
    // Ticks of several megabytes: two of them exceed the socket buffers.
    let rule = |index: usize| Rule::new(format!("{index:01000}"), ["10/1m".parse().unwrap()]);
    subject.fixture.sluice.replace((0..5_000).map(rule).collect(), Default::default()).unwrap();
    let (mut slow, mut quick) = (SlowListener::start(&subject).await, SlowListener::start(&subject).await);
    let mut sent = vec![quick.tick().await.unwrap()];
    for _ in 0..8 {
        clock.advance(SECOND);
        sent.push(quick.tick().await.unwrap());
    }
    assert!(sent.windows(2).all(|pair| pair[1] == pair[0] + 1_000), "{sent:?}");

    let mut received = Vec::new();
    while received.last() != sent.last() {
        received.push(slow.tick().await.expect("not disconnected yet"));
    }
    assert!(received.len() < sent.len() && received.iter().all(|at| sent.contains(at)), "{received:?} of {sent:?}");

    for _ in 0..20 {
        clock.advance(SECOND);
        sent.push(quick.tick().await.expect("still connected"));
    }
    while let Some(at) = slow.tick().await {
        received.push(at);
    }
    assert_ne!(received.last(), sent.last());
    assert!(sent.windows(2).all(|pair| pair[1] == pair[0] + 1_000), "{sent:?}");
}

/// A HEAD request takes no listener slot.
#[tokio::test]
async fn head_requests_take_no_listener_slot() {
    let subject = TestServer::start(Some(TOKENS));
    for _ in 0..MAX_LISTENERS + 5 {
        assert_eq!(subject.send(call("HEAD", "/v1/live", Some(READ), None)).await.status, 200);
    }
}
