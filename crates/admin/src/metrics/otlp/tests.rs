//! A push, as a collector sees it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use prost::Message;
use sluicegate_config::settings::Otlp;
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{self, Rule};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Push;
use super::message::{Any, Data, ExportMetricsServiceRequest, KeyValue, Number};
use crate::Sources;
use crate::keeper::{Keeper, Origin, Start};

/// A collector that answers so, and hands on what it is sent.
async fn collector(
    status: Arc<Mutex<StatusCode>>,
) -> (String, mpsc::UnboundedReceiver<(http::request::Parts, bytes::Bytes)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sent, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (sent, status) = (sent.clone(), Arc::clone(&status));
            let service = service_fn(move |request: Request<Incoming>| {
                let (sent, status) = (sent.clone(), *status.lock());
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let _ = sent.send((head, body));
                    let mut answer = Response::new(Empty::<bytes::Bytes>::new());
                    *answer.status_mut() = status;
                    Ok::<_, Infallible>(answer)
                }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        }
    });
    (format!("http://{address}"), received)
}

fn sources(clock: &ManualClock) -> Sources {
    let rules = vec![Rule::new("a", ["2/1m".parse().unwrap()]), {
        let mut queued = Rule::new("b", ["9/1m".parse().unwrap()]);
        queued.on_limit.queue = Some(rule::Queue { max_wait: Duration::from_secs(1), max_waiting: 1 });
        queued
    }];
    let sluice = Sluice::builder().rules(rules).clock(clock.clone()).build().unwrap();
    let settings = sluicegate_config::Settings::default();
    let (origin, text) = (Origin::BuiltIn, String::new());
    let keeper = Keeper::new(Start { sluice: sluice.clone(), origin, text, settings, beside: Box::new(()) });
    Sources::new(sluice, keeper)
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<&str, &str> {
    let text = |it: &'_ KeyValue| match it.value.as_ref().unwrap().value.as_ref().unwrap() {
        Any::StringValue(text) => text.clone(),
    };
    attributes.iter().map(|it| (it.key.as_str(), &*text(it).leak())).collect()
}

#[tokio::test]
async fn a_collector_is_told_everything_in_time() {
    let clock = ManualClock::new();
    let sources = sources(&clock);
    (0..3).for_each(|_| drop(sources.sluice.decide(&rule::Request::new("GET", "/"))));
    let status = Arc::new(Mutex::new(StatusCode::OK));
    let (endpoint, mut received) = collector(Arc::clone(&status)).await;
    let push = Push::new(&Otlp { endpoint, every: Duration::from_secs(10) }).unwrap();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let hear = Arc::clone(&told);
    let pushing = tokio::spawn(async move {
        push.run(&sources, &move |line: &str| hear.lock().push(line.to_owned())).await;
    });
    let mut next = async || {
        // Its alarm may not be set yet: the clock goes on until it is.
        loop {
            clock.advance(Duration::from_secs(5));
            if let Ok(sent) = timeout(Duration::from_millis(50), received.recv()).await {
                return sent.unwrap();
            }
        }
    };
    let (head, body) = next().await;
    assert_eq!((head.method.as_str(), head.uri.path()), ("POST", "/v1/metrics"));
    assert_eq!(head.headers["content-type"], "application/x-protobuf");
    let message = ExportMetricsServiceRequest::decode(body).unwrap();
    let resource = &message.resource_metrics[0];
    assert_eq!(texts(&resource.resource.as_ref().unwrap().attributes)["service.name"], "sluicegate");
    let metrics = &resource.scope_metrics[0].metrics;
    let named = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
    let decisions = named("sluicegate.decisions");
    assert_eq!(decisions.unit, "{decision}");
    let Some(Data::Sum(sum)) = &decisions.data else { panic!("{decisions:?}") };
    assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
    let point = sum
        .data_points
        .iter()
        .find(|point| texts(&point.attributes) == BTreeMap::from([("rule", "a"), ("verdict", "refused")]));
    let point = point.unwrap();
    assert_eq!(point.value, Some(Number::AsInt(1)));
    assert!(point.start_time_unix_nano > 0 && point.start_time_unix_nano <= point.time_unix_nano);
    let wait = named("sluicegate.wait");
    assert_eq!(wait.unit, "s");
    let Some(Data::Histogram(histogram)) = &wait.data else { panic!("{wait:?}") };
    let point = &histogram.data_points[0];
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    assert!(matches!(named("process.resident_memory").data, Some(Data::Gauge(_))));

    *status.lock() = StatusCode::SERVICE_UNAVAILABLE;
    next().await;
    next().await;
    *status.lock() = StatusCode::OK;
    next().await;
    next().await;
    let told = told.lock().clone();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("cannot be pushed") && told[0].contains("503"), "{told:?}");
    assert!(told[1].contains("again"), "{told:?}");
    pushing.abort();
}

#[test]
fn a_collector_is_named_with_or_without_its_path() {
    let path = |endpoint: &str| {
        Push::new(&Otlp { endpoint: endpoint.to_owned(), every: Duration::from_secs(1) })
            .map(|push| (push.host, push.port, push.path))
    };
    for (endpoint, host, port, at) in [
        ("http://127.0.0.1:4318", "127.0.0.1", 4318, "/v1/metrics"),
        ("http://collector/", "collector", 80, "/v1/metrics"),
        ("http://collector/otlp/", "collector", 80, "/otlp/v1/metrics"),
        ("http://[::1]:4318/v1/metrics", "::1", 4318, "/v1/metrics"),
    ] {
        assert_eq!(path(endpoint).unwrap(), (host.to_owned(), port, at.to_owned()));
    }
    for endpoint in ["", "collector", "https://collector", "http://", "ftp://x"] {
        assert!(path(endpoint).is_err(), "{endpoint}");
    }
}
