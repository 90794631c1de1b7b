//! The called side under strain: rules that protect the service hold calls back, and learn from how they go.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use sluicegate_adaptive::pilot::Pilot;
use sluicegate_adaptive::signals::Machine;
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::gate::Gate;
use sluicegate_engine::rule::{Adaptive, Auto, Rule};
use sluicegate_tower::LimitLayer;
use tower::{Layer, ServiceExt, service_fn};

/// A layer with a rule that begins with one place, and its gate.
fn protected() -> (LimitLayer, Gate, ManualClock) {
    let mut protect = Rule::new("protect", []);
    protect.adaptive = Some(Adaptive::Auto(Auto { least: 1, start: 1, ..Auto::default() }));
    let clock = ManualClock::new();
    let sluice = Sluice::builder().rule(protect).clock(clock.clone()).build().unwrap();
    assert!(Pilot::new(&sluice, Machine::new()).tick());
    let gate = sluice.gates().remove(0).1;
    (LimitLayer::new(sluice), gate, clock)
}

fn get() -> Request<()> {
    Request::builder().uri("/").body(()).unwrap()
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn calls_beyond_the_places_wait_shortly_and_are_told_why() {
    let (layer, gate, clock) = protected();
    let hanging = layer
        .layer(service_fn(|_: Request<()>| poll_fn(|_| Poll::<Result<Response<Full<Bytes>>, Infallible>>::Pending)));
    let mut inside = Box::pin(hanging.clone().oneshot(get()));
    assert!(poll(inside.as_mut()).is_pending());
    let mut waits = Box::pin(hanging.oneshot(get()));
    assert!(poll(waits.as_mut()).is_pending());
    assert_eq!((gate.in_flight(), gate.waiting()), (1, 1));
    clock.advance(Duration::from_millis(101));
    let Poll::Ready(refused) = poll(waits.as_mut()) else { panic!("its patience is over") };
    let refused = refused.unwrap();
    assert_eq!(
        (refused.status(), &refused.headers()["retry-after"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"1".parse().unwrap())
    );
    let document = refused.into_body().collect().await.unwrap().to_bytes();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["status"], 503, "{document}");
    assert!(document["detail"].as_str().unwrap().starts_with("'protect' holds requests back (places 1"), "{document}");
    // Who gives up frees the place, and teaches nothing.
    drop(inside);
    let lap = gate.take_lap();
    assert_eq!((gate.in_flight(), lap.answered, lap.failed), (0, 0, 0));
}

#[tokio::test]
async fn what_is_learned_depends_on_the_answer() {
    let (layer, gate, _clock) = protected();
    let answering = |status: StatusCode| {
        layer.layer(service_fn(move |_: Request<()>| async move {
            let mut answer = Response::new(Full::<Bytes>::from("text"));
            *answer.status_mut() = status;
            Ok::<_, Infallible>(answer)
        }))
    };
    for status in [StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::INTERNAL_SERVER_ERROR] {
        answering(status).oneshot(get()).await.unwrap().into_body().collect().await.unwrap();
    }
    let lap = gate.take_lap();
    assert_eq!((lap.answered, lap.failed), (3, 0));
    answering(StatusCode::GATEWAY_TIMEOUT).oneshot(get()).await.unwrap().into_body().collect().await.unwrap();
    let broken = layer.layer(service_fn(async |_: Request<()>| Err::<Response<Full<Bytes>>, _>("no")));
    assert_eq!(broken.oneshot(get()).await.unwrap_err(), "no");
    let lap = gate.take_lap();
    assert_eq!((lap.answered, lap.failed, gate.in_flight()), (0, 2, 0));
}
