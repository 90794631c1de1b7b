//! What goes on, told every second.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
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

/// Who asks for the head alone has no place.
#[tokio::test]
async fn heads_do_not_listen() {
    let subject = Subject::start(Some(TOKENS));
    for _ in 0..MOST_LISTENERS + 5 {
        assert_eq!(subject.send(call("HEAD", "/v1/live", Some(READ), None)).await.status, 200);
    }
}
