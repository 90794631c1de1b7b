//! What goes on, told every second.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::Rule;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::described::assert_fits;
use super::{READ, Subject, TOKENS, call};
use crate::GatewayReading;
use crate::live::MOST_LISTENERS;

/// The next event, as its data.
async fn tick(body: &mut Incoming) -> Option<Value> {
    let frame = timeout(Duration::from_secs(20), body.frame()).await.expect("a tick in time")?;
    let data = frame.unwrap().into_data().unwrap();
    let text = std::str::from_utf8(&data).unwrap();
    let data = text.strip_prefix("event: tick\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
    Some(serde_json::from_str(data).unwrap())
}

fn listen() -> http::Request<http_body_util::Full<bytes::Bytes>> {
    call("GET", "/v1/live", Some(READ), None)
}

#[tokio::test]
async fn everybody_who_listens_hears_the_same() {
    let gateway = |sources: &mut crate::Sources| {
        sources.gateway =
            Some(std::sync::Arc::new(|| GatewayReading { in_flight: 3, answered: vec![0, 7], ..Default::default() }));
    };
    let mut subject = Subject::with(Some(TOKENS), gateway);
    subject.kept.ask("203.0.113.9", 3);
    let answer = subject.begin(listen()).await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let (mut one, mut other) = (answer.into_body(), subject.begin(listen()).await.into_body());
    let (first, also) = (tick(&mut one).await.unwrap(), tick(&mut other).await.unwrap());
    assert_fits(&json!({"$ref": "#/components/schemas/Tick"}), &first);
    assert_eq!(first["rules"][0]["admitted"], 2);
    assert_eq!(first["gateway"], json!({"connections": 0, "in_flight": 3, "requests": 7}));
    let second = tick(&mut one).await.unwrap();
    assert!(second["at_ms"].as_u64() > first["at_ms"].as_u64());
    assert!(also == first || also == second);
    let report = subject.stop();
    assert_eq!(report.aborted, 0);
    while tick(&mut one).await.is_some() {}
    while tick(&mut other).await.is_some() {}
}

#[tokio::test]
async fn only_so_many_may_listen_and_who_leaves_makes_place() {
    let subject = Subject::start(Some(TOKENS));
    let mut listening = Vec::new();
    for _ in 0..MOST_LISTENERS {
        let mut body = subject.begin(listen()).await.into_body();
        tick(&mut body).await.unwrap();
        listening.push(body);
    }
    subject.send(listen()).await.is_problem(503, "full", "listen already");
    assert_eq!(subject.get("/v1/status").await.status, 200);
    listening.truncate(MOST_LISTENERS / 2);
    let again = async {
        loop {
            let answer = subject.begin(listen()).await;
            if answer.status() == 200 {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(20), again).await.unwrap();
}

/// Somebody who listens, and reads when it likes.
struct Reader {
    stream: TcpStream,
    ahead: Vec<u8>,
}

impl Reader {
    async fn start(subject: &Subject) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let mut stream = socket.connect(subject.address).await.unwrap();
        let head = format!("GET /v1/live HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {READ}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut reader = Self { stream, ahead: Vec::new() };
        let head = reader.until(b"\r\n\r\n").await.unwrap();
        assert!(head.starts_with(b"HTTP/1.0 200 "));
        reader
    }

    /// What comes up to this; `None`: the end came first.
    async fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        let mut seen = 0;
        loop {
            let found = self.ahead[seen..].windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Some(self.ahead.drain(..seen + at + end.len()).collect());
            }
            seen = self.ahead.len().saturating_sub(end.len());
            let read = timeout(Duration::from_secs(20), self.stream.read_buf(&mut self.ahead)).await.expect("in time");
            // A reset is an end as well.
            if read.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The moment of the next tick; `None`: there are no more.
    async fn tick(&mut self) -> Option<u64> {
        let event = String::from_utf8(self.until(b"\n\n").await?).unwrap();
        let data = event.strip_prefix("event: tick\ndata: ").expect("a whole event");
        let tick: Value = serde_json::from_str(data).unwrap();
        Some(tick["at_ms"].as_u64().unwrap())
    }
}

/// Nothing is kept for whoever does not read: it misses ticks. At last it is hung up on. Nobody else notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_read_misses_ticks_and_then_its_place() {
    const SECOND: Duration = Duration::from_secs(1);
    let clock = ManualClock::new();
    let subject = Subject::by(clock.clone().into(), Some(TOKENS), |_| {});
    // Ticks of several megabytes: two of them are more than sockets keep.
    let rule = |nth: usize| Rule::new(format!("{nth:01000}"), ["10/1m".parse().unwrap()]);
    subject.kept.sluice.replace((0..5_000).map(rule).collect(), Default::default()).unwrap();
    let (mut slow, mut quick) = (Reader::start(&subject).await, Reader::start(&subject).await);
    let mut told = vec![quick.tick().await.unwrap()];
    for _ in 0..8 {
        clock.advance(SECOND);
        told.push(quick.tick().await.unwrap());
    }
    assert!(told.windows(2).all(|pair| pair[1] == pair[0] + 1_000), "{told:?}");

    let mut heard = Vec::new();
    while heard.last() != told.last() {
        heard.push(slow.tick().await.expect("its time is not up yet"));
    }
    assert!(heard.len() < told.len() && heard.iter().all(|at| told.contains(at)), "{heard:?} of {told:?}");

    for _ in 0..20 {
        clock.advance(SECOND);
        told.push(quick.tick().await.expect("goes on"));
    }
    while let Some(at) = slow.tick().await {
        heard.push(at);
    }
    assert_ne!(heard.last(), told.last());
    assert!(told.windows(2).all(|pair| pair[1] == pair[0] + 1_000), "{told:?}");
}

/// Who asks for the head alone has no place.
#[tokio::test]
async fn heads_do_not_listen() {
    let subject = Subject::start(Some(TOKENS));
    for _ in 0..MOST_LISTENERS + 5 {
        assert_eq!(subject.send(call("HEAD", "/v1/live", Some(READ), None)).await.status, 200);
    }
}
