//! A push as received by a collector.

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
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use parking_lot::Mutex;
use prost::Message;
use sluicegate_config::settings::Otlp;
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{self, Rule};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::OtlpExporter;
use crate::Providers;
use crate::reload::{InitialRules, RuleManager, RulesOrigin};

/// A collector that responds with this status and forwards received messages.
async fn start_collector(
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
                    let mut response = Response::new(Empty::<bytes::Bytes>::new());
                    *response.status_mut() = status;
                    Ok::<_, Infallible>(response)
                }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        }
    });
    (format!("http://{address}"), received)
}

fn sources(clock: &ManualClock) -> Providers {
    let rules = vec![Rule::new("a", ["2/1m".parse().unwrap()]), {
        let mut queued = Rule::new("b", ["9/1m".parse().unwrap()]);
        queued.on_limit.queue = Some(rule::Queue { max_wait: Duration::from_secs(1), max_waiting: 1 });
        queued
    }];
    let sluice = Sluice::builder().rules(rules).clock(clock.clone()).build().unwrap();
    let settings = sluicegate_config::Settings::default();
    let (origin, text) = (RulesOrigin::BuiltIn, String::new());
    let manager =
        RuleManager::new(InitialRules { sluice: sluice.clone(), origin, text, settings, side_files: Box::new(()) });
    Providers::new(sluice, manager)
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<&str, &str> {
    let text = |it: &'_ KeyValue| match it.value.as_ref().unwrap().value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|it| (it.key.as_str(), &*text(it).leak())).collect()
}

#[tokio::test]
async fn metrics_are_pushed_and_failures_reported_once() {
    let clock = ManualClock::new();
    let sources = sources(&clock);
    (0..3).for_each(|_| drop(sources.sluice.decide(&rule::Request::new("GET", "/"))));
    let status = Arc::new(Mutex::new(StatusCode::OK));
    let (endpoint, mut received) = start_collector(Arc::clone(&status)).await;
    let push = OtlpExporter::new(&Otlp { endpoint, interval: Duration::from_secs(10) }).unwrap();
    let messages: Arc<Mutex<Vec<String>>> = Arc::default();
    let recorded = Arc::clone(&messages);
    let pushing = tokio::spawn(async move {
        push.run(&sources, &move |line: &str| recorded.lock().push(line.to_owned())).await;
    });
    let mut next = async || {
        // The timer may not be scheduled yet: advance the clock until it is.
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
    assert_eq!(point.value, Some(number_data_point::Value::AsInt(1)));
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
    let messages = messages.lock().clone();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].contains("failed") && messages[0].contains("503"), "{messages:?}");
    assert!(messages[1].contains("recovered"), "{messages:?}");
    pushing.abort();
}

#[test]
fn endpoint_accepts_an_optional_path() {
    let path = |endpoint: &str| {
        OtlpExporter::new(&Otlp { endpoint: endpoint.to_owned(), interval: Duration::from_secs(1) })
            .map(|push| (push.collector.host, push.collector.port, push.path))
    };
    for (endpoint, host, port, at) in [
        ("http://127.0.0.1:4318", "127.0.0.1", 4318, "/v1/metrics"),
        ("http://collector/", "collector", 80, "/v1/metrics"),
        ("http://collector/otlp/", "collector", 80, "/otlp/v1/metrics"),
        ("http://[::1]:4318/v1/metrics", "::1", 4318, "/v1/metrics"),
    ] {
        assert_eq!(path(endpoint).unwrap(), (host.to_owned(), port, at.to_owned()));
    }
    for endpoint in
        ["", "collector", "https://collector", "http://", "ftp://x", "http://x:99999", "http://x:", "http://me:key@x"]
    {
        assert!(path(endpoint).is_err(), "{endpoint}");
    }
}
