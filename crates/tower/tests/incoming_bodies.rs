//! The answer's body behind the layer: paced by bandwidth rules, and read for what the request cost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::rule::{Actual, Attribute, Cost, Lists, Mode, Rule};
use sluicegate_engine::{Limit, Rate, Sluice};
use sluicegate_tower::{ActualCost, LimitBody, LimitLayer};
use tower::{Layer, ServiceExt, service_fn};

fn layer(rules: impl IntoIterator<Item = Rule>) -> (LimitLayer, ManualClock) {
    let clock = ManualClock::new();
    let sluice = Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).build().unwrap();
    (LimitLayer::new(sluice), clock)
}

fn download(rate: u64, burst: u64) -> Rule {
    let limit = Limit::bandwidth(Rate::per_second(rate).unwrap(), burst).unwrap();
    Rule { key: vec![Attribute::ClientIp.into()], ..Rule::new("download", [limit]) }
}

fn estimating(actual: Actual) -> Rule {
    let limit = Limit::token_bucket(Rate::per_second(1).unwrap(), 1_000).unwrap();
    Rule { cost: Cost::Estimate { reserve: 100, actual }, ..Rule::new("cost", [limit]) }
}

fn from(client: u8) -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(SocketAddr::from(([203, 0, 113, client], 1)));
    request
}

/// What the layer answers around a service that answers this.
async fn answer(
    layer: &LimitLayer,
    request: Request<()>,
    answer: Response<Full<Bytes>>,
) -> Response<LimitBody<Full<Bytes>>> {
    let service = service_fn(async |_: Request<()>| Ok::<_, Infallible>(answer.clone()));
    layer.layer(service).oneshot(request).await.unwrap()
}

async fn film(layer: &LimitLayer, client: u8) -> Pin<Box<LimitBody<Full<Bytes>>>> {
    let whole = Response::new(Full::from(Bytes::from(vec![7; 100_000])));
    let answer = answer(layer, from(client), whole).await;
    assert_eq!(answer.status(), 200);
    Box::pin(answer.into_body())
}

/// Bytes that pass now.
fn passing(body: &mut Pin<Box<LimitBody<Full<Bytes>>>>) -> usize {
    let mut bytes = 0;
    while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(&mut Context::from_waker(Waker::noop())) {
        bytes += frame.unwrap().into_data().unwrap().len();
    }
    bytes
}

/// What is left of the rule's thousand.
fn left(layer: &LimitLayer) -> u64 {
    let explained = layer.sluice().explain(&sluicegate_engine::rule::Request::new("GET", "/"));
    explained.rules[0].decision.unwrap().status.remaining
}

#[tokio::test]
async fn connections_of_one_client_share_the_rate_and_others_do_not_feel_it() {
    let (layer, clock) = layer([download(10_000, 20_000)]);
    let mut bodies = [film(&layer, 1).await, film(&layer, 1).await, film(&layer, 2).await];
    assert!(bodies.iter().all(|body| body.size_hint().exact() == Some(100_000) && !body.is_end_stream()));
    assert_eq!(bodies.each_mut().map(passing), [20_000, 0, 20_000]);
    let start = clock.now();
    let mut got = [20_000, 0, 20_000];
    while clock.now() < start + Duration::from_secs(4) {
        clock.set(clock.next_alarm().unwrap().max(clock.now()));
        for (got, body) in got.iter_mut().zip(&mut bodies) {
            *got += passing(body);
        }
        let most = 20_000 + usize::try_from((clock.now() - start).as_micros() / 100).unwrap();
        assert!(got[0] + got[1] <= most && got[2] <= most, "{got:?} of {most}");
    }
    assert!(got[0] + got[1] >= 59_000 && got[2] >= 59_500, "{got:?}");
    assert!((got[0] - 20_000).abs_diff(got[1]) <= 500, "{got:?}");
    drop(bodies);
    assert_eq!((layer.sluice().counts()[0].waiting, clock.alarms()), (0, 0));
    assert_eq!(layer.sluice().counts()[0].bytes, got.iter().sum::<usize>() as u64);
}

#[tokio::test]
async fn a_paced_body_holds_its_permit_to_the_end_and_follows_a_reload() {
    let inside = || Rule::new("inside", [Limit::concurrency(1).unwrap()]);
    let (layer, clock) = layer([inside(), download(1_000, 1_000)]);
    let mut body = film(&layer, 1).await;
    assert_eq!(passing(&mut body), 1_000);
    assert_eq!(answer(&layer, from(2), Response::default()).await.status(), 429);
    layer.sluice().replace(vec![inside(), download(1_000_000, 1_000_000)], Lists::default()).unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(passing(&mut body), 99_000);
    assert_eq!(answer(&layer, from(2), Response::default()).await.status(), 200);
}

#[tokio::test]
async fn bandwidth_refuses_nobody_and_a_shadow_rule_paces_nothing() {
    let (enforcing, _clock) = layer([download(1, 1)]);
    for _ in 0..20 {
        let answer = answer(&enforcing, from(1), Response::default()).await;
        assert_eq!(answer.status(), 200);
        assert!(!answer.headers().contains_key("ratelimit"));
    }
    let (watching, _clock) = layer([Rule { mode: Mode::Shadow, ..download(1, 1) }]);
    assert_eq!(passing(&mut film(&watching, 1).await), 100_000);
}

#[tokio::test]
async fn the_answer_says_what_it_cost() {
    let path = vec!["usage".to_owned(), "total".to_owned()];
    let json = br#"{"usage":{"total":321}}"#;
    for (source, cost) in [
        (Actual::ResponseJson(path), 321),
        (Actual::ResponseBytes, 23),
        (Actual::ResponseHeader("x-cost".to_owned()), 12),
        (Actual::RequestBytes, 100),
        (Actual::Told, 5),
    ] {
        let (layer, _clock) = layer([estimating(source.clone())]);
        let mut whole = Response::new(Full::from(Bytes::from_static(json)));
        whole.headers_mut().insert("x-cost", "12".parse().unwrap());
        whole.extensions_mut().insert(ActualCost(5));
        let answer = answer(&layer, from(1), whole).await;
        assert_eq!(left(&layer), 900, "reserved until the body has been sent");
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), &json[..]);
        assert_eq!(left(&layer), 1_000 - cost, "{source:?}");
    }
}

#[tokio::test]
async fn the_length_of_a_request_is_what_it_says() {
    for (length, cost) in [(Some("42"), 42), (Some("0"), 0), (Some("-1"), 100), (None, 100)] {
        let (layer, _clock) = layer([estimating(Actual::RequestBytes)]);
        let mut request = from(1);
        request.headers_mut().extend(length.map(|length| (http::header::CONTENT_LENGTH, length.parse().unwrap())));
        drop(answer(&layer, request, Response::default()).await);
        assert_eq!(left(&layer), 1_000 - cost, "{length:?}");
    }
}

#[tokio::test]
async fn a_body_dropped_half_way_costs_what_has_passed() {
    let (layer, _clock) = layer([estimating(Actual::ResponseBytes), download(1_000, 300)]);
    let mut body = film(&layer, 1).await;
    assert_eq!(passing(&mut body), 300);
    drop(body);
    assert_eq!(left(&layer), 700);
}

#[tokio::test]
async fn a_service_that_fails_keeps_the_reserve() {
    let (layer, _clock) = layer([estimating(Actual::ResponseBytes)]);
    let failing = service_fn(async |_: Request<()>| Err::<Response<Full<Bytes>>, _>("broken"));
    assert!(layer.layer(failing).oneshot(from(1)).await.is_err());
    assert_eq!(left(&layer), 900);
}
