//! Response bodies behind the layer: paced by bandwidth rules, and measured for the actual cost.

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
use sluicegate_engine::rule::{Attribute, Cost, CostSource, Lists, Mode, Rule};
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

fn estimating(actual: CostSource) -> Rule {
    let limit = Limit::token_bucket(Rate::per_second(1).unwrap(), 1_000).unwrap();
    Rule { cost: Cost::Estimate { reserve: 100, actual }, ..Rule::new("cost", [limit]) }
}

fn from(client: u8) -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(SocketAddr::from(([203, 0, 113, client], 1)));
    request
}

/// The layer's response around a service with this response.
async fn respond(
    layer: &LimitLayer,
    request: Request<()>,
    response: Response<Full<Bytes>>,
) -> Response<LimitBody<Full<Bytes>>> {
    let service = service_fn(async |_: Request<()>| Ok::<_, Infallible>(response.clone()));
    layer.layer(service).oneshot(request).await.unwrap()
}

async fn film(layer: &LimitLayer, client: u8) -> Pin<Box<LimitBody<Full<Bytes>>>> {
    let whole = Response::new(Full::from(Bytes::from(vec![7; 100_000])));
    let response = respond(layer, from(client), whole).await;
    assert_eq!(response.status(), 200);
    Box::pin(response.into_body())
}

/// Bytes available now.
fn available_bytes(body: &mut Pin<Box<LimitBody<Full<Bytes>>>>) -> usize {
    let mut bytes = 0;
    while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(&mut Context::from_waker(Waker::noop())) {
        bytes += frame.unwrap().into_data().unwrap().len();
    }
    bytes
}

/// Remainder of the rule's thousand.
fn remaining(layer: &LimitLayer) -> u64 {
    let explained = layer.sluice().explain(&sluicegate_engine::rule::Request::new("GET", "/"));
    explained.rules[0].decision.unwrap().status.remaining
}

#[tokio::test]
async fn connections_of_one_client_share_the_rate() {
    let (layer, clock) = layer([download(10_000, 20_000)]);
    let mut bodies = [film(&layer, 1).await, film(&layer, 1).await, film(&layer, 2).await];
    assert!(bodies.iter().all(|body| body.size_hint().exact() == Some(100_000) && !body.is_end_stream()));
    assert_eq!(bodies.each_mut().map(available_bytes), [20_000, 0, 20_000]);
    let start = clock.now();
    let mut got = [20_000, 0, 20_000];
    while clock.now() < start + Duration::from_secs(4) {
        clock.set(clock.next_timer().unwrap().max(clock.now()));
        for (got, body) in got.iter_mut().zip(&mut bodies) {
            *got += available_bytes(body);
        }
        let max = 20_000 + usize::try_from((clock.now() - start).as_micros() / 100).unwrap();
        assert!(got[0] + got[1] <= max && got[2] <= max, "{got:?} of {max}");
    }
    assert!(got[0] + got[1] >= 59_000 && got[2] >= 59_500, "{got:?}");
    assert!((got[0] - 20_000).abs_diff(got[1]) <= 500, "{got:?}");
    drop(bodies);
    assert_eq!((layer.sluice().counts()[0].waiting, clock.pending_timers()), (0, 0));
    assert_eq!(layer.sluice().counts()[0].bytes, got.iter().sum::<usize>() as u64);
}

#[tokio::test]
async fn a_paced_body_holds_its_permit_to_the_end_and_follows_a_reload() {
    let inside = || Rule::new("inside", [Limit::concurrency(1).unwrap()]);
    let (layer, clock) = layer([inside(), download(1_000, 1_000)]);
    let mut body = film(&layer, 1).await;
    assert_eq!(available_bytes(&mut body), 1_000);
    assert_eq!(respond(&layer, from(2), Response::default()).await.status(), 429);
    layer.sluice().replace(vec![inside(), download(1_000_000, 1_000_000)], Lists::default()).unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(available_bytes(&mut body), 99_000);
    assert_eq!(respond(&layer, from(2), Response::default()).await.status(), 200);
}

#[tokio::test]
async fn bandwidth_rules_never_refuse_and_shadow_rules_do_not_pace() {
    let (enforcing, _clock) = layer([download(1, 1)]);
    for _ in 0..20 {
        let response = respond(&enforcing, from(1), Response::default()).await;
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key("ratelimit"));
    }
    let (watching, _clock) = layer([Rule { mode: Mode::Shadow, ..download(1, 1) }]);
    assert_eq!(available_bytes(&mut film(&watching, 1).await), 100_000);
}

#[tokio::test]
async fn the_actual_cost_is_read_from_the_response() {
    let path = vec!["usage".to_owned(), "total".to_owned()];
    let json = br#"{"usage":{"total":321}}"#;
    for (source, cost) in [
        (CostSource::ResponseJson(path), 321),
        (CostSource::ResponseBytes, 23),
        (CostSource::ResponseHeader("x-cost".to_owned()), 12),
        (CostSource::RequestBytes, 100),
        (CostSource::Reported, 5),
    ] {
        let (layer, _clock) = layer([estimating(source.clone())]);
        let mut whole = Response::new(Full::from(Bytes::from_static(json)));
        whole.headers_mut().insert("x-cost", "12".parse().unwrap());
        whole.extensions_mut().insert(ActualCost(5));
        let response = respond(&layer, from(1), whole).await;
        assert_eq!(remaining(&layer), 900, "reserved until the body has been sent");
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), &json[..]);
        assert_eq!(remaining(&layer), 1_000 - cost, "{source:?}");
    }
}

#[tokio::test]
async fn the_request_length_is_its_content_length() {
    for (length, cost) in [(Some("42"), 42), (Some("0"), 0), (Some("-1"), 100), (None, 100)] {
        let (layer, _clock) = layer([estimating(CostSource::RequestBytes)]);
        let mut request = from(1);
        request.headers_mut().extend(length.map(|length| (http::header::CONTENT_LENGTH, length.parse().unwrap())));
        drop(respond(&layer, request, Response::default()).await);
        assert_eq!(remaining(&layer), 1_000 - cost, "{length:?}");
    }
}

#[tokio::test]
async fn a_body_dropped_half_way_costs_what_has_passed() {
    let (layer, _clock) = layer([estimating(CostSource::ResponseBytes), download(1_000, 300)]);
    let mut body = film(&layer, 1).await;
    assert_eq!(available_bytes(&mut body), 300);
    drop(body);
    assert_eq!(remaining(&layer), 700);
}

#[tokio::test]
async fn a_service_that_fails_keeps_the_reserve() {
    let (layer, _clock) = layer([estimating(CostSource::ResponseBytes)]);
    let failing = service_fn(async |_: Request<()>| Err::<Response<Full<Bytes>>, _>("broken"));
    assert!(layer.layer(failing).oneshot(from(1)).await.is_err());
    assert_eq!(remaining(&layer), 900);
}
