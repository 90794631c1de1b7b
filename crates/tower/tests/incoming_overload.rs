//! Server side under overload: overload rules limit requests, and record their completion.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use sluicegate_adaptive::controller::ControlLoop;
use sluicegate_adaptive::signals::HostSignals;
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::overload::Gate;
use sluicegate_engine::rule::{Adaptive, Auto, Rule};
use sluicegate_tower::LimitLayer;
use tower::{Layer, ServiceExt, service_fn};

/// A layer with a rule that starts with a limit of one in flight, and its gate.
fn protected() -> (LimitLayer, Gate, ManualClock) {
    let mut protect = Rule::new("protect", []);
    protect.adaptive = Some(Adaptive::Auto(Auto { min: 1, start: 1, ..Auto::default() }));
    let clock = ManualClock::new();
    let sluice = Sluice::builder().rule(protect).clock(clock.clone()).build().unwrap();
    assert!(ControlLoop::new(&sluice, HostSignals::new()).tick());
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
async fn requests_over_the_limit_wait_briefly_and_are_refused_with_a_reason() {
    let (layer, gate, clock) = protected();
    let hanging = layer
        .layer(service_fn(|_: Request<()>| poll_fn(|_| Poll::<Result<Response<Full<Bytes>>, Infallible>>::Pending)));
    let mut inside = Box::pin(hanging.clone().oneshot(get()));
    assert!(poll(inside.as_mut()).is_pending());
    let mut waiting = Box::pin(hanging.oneshot(get()));
    assert!(poll(waiting.as_mut()).is_pending());
    assert_eq!((gate.in_flight(), gate.waiting()), (1, 1));
    clock.advance(Duration::from_millis(101));
    let Poll::Ready(refused) = poll(waiting.as_mut()) else { panic!("its wait is over") };
    let refused = refused.unwrap();
    assert_eq!(
        (refused.status(), &refused.headers()["retry-after"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"1".parse().unwrap())
    );
    let document = refused.into_body().collect().await.unwrap().to_bytes();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["status"], 503, "{document}");
    assert!(
        document["detail"]
            .as_str()
            .unwrap()
            .starts_with("limited by overload protection 'protect' (concurrency limit 1"),
        "{document}"
    );
    // A cancelled request frees its permit and is not counted as a completion.
    drop(inside);
    let interval = gate.take_interval();
    assert_eq!((gate.in_flight(), interval.completed, interval.failed), (0, 0, 0));
}

#[tokio::test]
async fn the_completion_class_depends_on_the_response() {
    let (layer, gate, _clock) = protected();
    let responding = |status: StatusCode| {
        layer.layer(service_fn(move |_: Request<()>| async move {
            let mut response = Response::new(Full::<Bytes>::from("text"));
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        }))
    };
    for status in [StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::INTERNAL_SERVER_ERROR] {
        responding(status).oneshot(get()).await.unwrap().into_body().collect().await.unwrap();
    }
    let interval = gate.take_interval();
    assert_eq!((interval.completed, interval.failed), (3, 0));
    responding(StatusCode::GATEWAY_TIMEOUT).oneshot(get()).await.unwrap().into_body().collect().await.unwrap();
    let broken = layer.layer(service_fn(async |_: Request<()>| Err::<Response<Full<Bytes>>, _>("no")));
    assert_eq!(broken.oneshot(get()).await.unwrap_err(), "no");
    let interval = gate.take_interval();
    assert_eq!((interval.completed, interval.failed, gate.in_flight()), (0, 2, 0));
}
