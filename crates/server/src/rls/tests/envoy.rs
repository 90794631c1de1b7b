//! A real Envoy with its rate limit filter as the client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, AttributeMap, OnLimit, Reply, ReplyBody, Request as RuleRequest, Rule};
use sluicegate_http_adapter::HeaderStyle;
use sluicegate_testkit::servers::{Envoy, EnvoyConfig, RateLimitEndpoint};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::support::{RlsTestSetup, TEST_TIMEOUT, accept, listen, per_minute, rule};

/// The ratelimit configuration: paths counted separately.
const FILE: &str = "
domain: files
descriptors:
- key: path
  rate_limit: {unit: hour, requests_per_unit: 3}
- key: path
  value: /closed
  rate_limit: {unit: hour, requests_per_unit: 0}
";

/// An upstream that counts its requests.
struct CountingUpstream {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
    serving: JoinHandle<()>,
}

impl CountingUpstream {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&requests);
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let counted = Arc::clone(&counted);
                let hello = service_fn(move |_: Request<Incoming>| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    async { Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from("hello")))) }
                });
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), hello));
            }
        });
        Self { address, requests, serving }
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for CountingUpstream {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A response to a client of Envoy.
struct EnvoyResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl EnvoyResponse {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// An Envoy in front of this upstream that calls us, and fails open.
fn envoy_config(domain: &'static str, upstream: &CountingUpstream, rls_address: SocketAddr) -> EnvoyConfig {
    let service = RateLimitEndpoint::Tcp(rls_address);
    EnvoyConfig { upstream: upstream.address, domain, service, secret: None, failure_mode_deny: false, extra_yaml: "" }
}

async fn get(address: SocketAddr, path: &str) -> EnvoyResponse {
    let call = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = Request::builder().uri(path).header("host", "edge").body(Empty::<Bytes>::new()).unwrap();
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        connection.abort();
        EnvoyResponse { status: parts.status, headers: parts.headers, body }
    };
    timeout(TEST_TIMEOUT, call).await.unwrap()
}

async fn statuses(address: SocketAddr, path: &str, times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        statuses.push(get(address, path).await.status.as_u16());
    }
    statuses
}

#[tokio::test]
async fn envoy_limits_by_ratelimit_files() {
    let upstream = CountingUpstream::start().await;
    let setup = RlsTestSetup { file: Some(FILE), style: HeaderStyle::X, ..RlsTestSetup::default() };
    let (rls, _) = setup.service(ManualClock::new().into()).await;
    let (rls_address, serving) = listen(rls).await;
    let envoy = Envoy::start(&envoy_config("files", &upstream, rls_address)).unwrap();
    let first = get(envoy.address(), "/a").await;
    assert_eq!((first.status, first.body.as_ref()), (StatusCode::OK, b"hello".as_slice()));
    assert_eq!((first.header("x-ratelimit-limit"), first.header("x-ratelimit-remaining")), (Some("3"), Some("2")));
    assert_eq!(first.header("retry-after"), None);
    assert_eq!(statuses(envoy.address(), "/a", 3).await, [200, 200, 429]);
    let refused = get(envoy.address(), "/a").await;
    assert_eq!(refused.header("x-envoy-ratelimited"), Some("true"));
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3_600).contains(&wait), "{wait}");
    assert_eq!(statuses(envoy.address(), "/b", 1).await, [200]);
    assert_eq!(statuses(envoy.address(), "/closed", 2).await, [429, 429]);
    assert_eq!(upstream.requests(), 4);
    serving.abort();
}

#[tokio::test]
async fn envoy_sends_the_rule_reply() {
    let upstream = CountingUpstream::start().await;
    let reply = Reply::Refuse {
        status: 429,
        body: Some(ReplyBody::Json(r#"{"busy":true}"#.to_owned())),
        headers: vec![("x-why".to_owned(), "busy".to_owned())],
    };
    let on_limit = OnLimit { reply: Some(reply), ..OnLimit::default() };
    let rules = vec![Rule { on_limit, ..rule("total", per_minute(1)) }];
    let (rls, _) = RlsTestSetup { rules, ..RlsTestSetup::default() }.service(ManualClock::new().into()).await;
    let (rls_address, serving) = listen(rls).await;
    let envoy = Envoy::start(&envoy_config("edge", &upstream, rls_address)).unwrap();
    assert_eq!(statuses(envoy.address(), "/a", 1).await, [200]);
    let refused = get(envoy.address(), "/a").await;
    assert_eq!(
        (refused.status, refused.body.as_ref()),
        (StatusCode::TOO_MANY_REQUESTS, br#"{"busy":true}"#.as_slice())
    );
    assert_eq!((refused.header("content-type"), refused.header("x-why")), (Some("application/json"), Some("busy")));
    serving.abort();
}

/// Hits set by the route: two per request.
#[tokio::test]
async fn envoy_spends_hits() {
    let upstream = CountingUpstream::start().await;
    let setup = RlsTestSetup { file: Some(FILE), ..RlsTestSetup::default() };
    let (rls, _) = setup.service(ManualClock::new().into()).await;
    let (rls_address, serving) = listen(rls).await;
    let envoy = Envoy::start(&EnvoyConfig {
        extra_yaml: "hits_addend: {number: 2}",
        ..envoy_config("files", &upstream, rls_address)
    })
    .unwrap();
    assert_eq!(statuses(envoy.address(), "/a", 2).await, [200, 429]);
    assert_eq!(statuses(envoy.address(), "/b", 2).await, [200, 429]);
    serving.abort();
}

/// Hits refunded by Envoy at the end of a request become available again.
#[tokio::test]
async fn envoy_refunds_hits() {
    let upstream = CountingUpstream::start().await;
    let setup = RlsTestSetup { file: Some(FILE), style: HeaderStyle::X, ..RlsTestSetup::default() };
    let (rls, sluice) = setup.service(ManualClock::new().into()).await;
    let (rls_address, serving) = listen(rls).await;
    let more = "hits_addend: {number: 2}
                    - actions:
                      - request_headers: {header_name: \":path\", descriptor_key: path}
                      hits_addend: {number: 2, is_negative_hits: true}
                      apply_on_stream_done: true";
    let envoy =
        Envoy::start(&EnvoyConfig { extra_yaml: more, ..envoy_config("files", &upstream, rls_address) }).unwrap();
    for _ in 0..4 {
        let response = get(envoy.address(), "/a").await;
        assert_eq!((response.status, response.header("x-ratelimit-remaining")), (StatusCode::OK, Some("1")));
        let given_back = async {
            while remaining(&sluice, "/a") < 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(TEST_TIMEOUT, given_back).await.unwrap();
    }
    serving.abort();
}

/// Remaining quota of a path.
fn remaining(sluice: &Sluice, path: &str) -> u64 {
    let attributes = AttributeMap::new().with(Attribute::custom("descriptor"), format!("path={path}"));
    let peek = RuleRequest::new("", "").with_cost(0).with_attributes(&attributes);
    let rule = &sluice.rules()[0].name;
    let outcome = sluice.rule(rule).unwrap().decide(&peek);
    outcome.decisions().map(|(_, checked)| checked.decision.status.remaining).next().unwrap()
}

/// Without us, Envoy refuses if configured so; after our return, it continues with the same counts.
#[tokio::test]
async fn envoy_survives_a_server_restart() {
    let upstream = CountingUpstream::start().await;
    let setup = RlsTestSetup { file: Some(FILE), ..RlsTestSetup::default() };
    let (rls, _) = setup.service(ManualClock::new().into()).await;
    let (rls_address, serving) = listen(rls.clone()).await;
    let open = Envoy::start(&envoy_config("files", &upstream, rls_address)).unwrap();
    let closed =
        Envoy::start(&EnvoyConfig { failure_mode_deny: true, ..envoy_config("files", &upstream, rls_address) })
            .unwrap();
    assert_eq!(statuses(open.address(), "/a", 1).await, [200]);
    assert_eq!(statuses(closed.address(), "/a", 1).await, [200]);
    serving.abort();
    let _ = serving.await;
    assert_eq!(statuses(open.address(), "/a", 5).await, [200; 5]);
    assert_eq!(statuses(closed.address(), "/a", 3).await, [500; 3]);
    let again = tokio::spawn(accept(TcpListener::bind(rls_address).await.unwrap(), rls));
    // Two of the three were spent before. Envoy may need some time to reconnect.
    let mut recovered = Vec::new();
    let all = async {
        while recovered.len() < 2 {
            let status = get(closed.address(), "/a").await.status.as_u16();
            if status == 500 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            } else {
                recovered.push(status);
            }
        }
    };
    timeout(TEST_TIMEOUT, all).await.unwrap();
    assert_eq!(recovered, [200, 429]);
    assert_eq!(statuses(open.address(), "/b", 4).await, [200, 200, 200, 429]);
    again.abort();
}
