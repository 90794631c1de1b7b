//! A real Envoy with its rate limit filter, asking us.

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
use sluicegate_http::HeaderStyle;
use sluicegate_testkit::servers::{Asking, Envoy, Service};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::support::{HANGING, Setup, accept, listen, per_minute, rule};

/// What Envoy asks about: paths, apart.
const FILE: &str = "
domain: files
descriptors:
- key: path
  rate_limit: {unit: hour, requests_per_unit: 3}
- key: path
  value: /closed
  rate_limit: {unit: hour, requests_per_unit: 0}
";

/// What an upstream was asked.
struct Upstream {
    address: SocketAddr,
    asked: Arc<AtomicU64>,
    serving: JoinHandle<()>,
}

impl Upstream {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&asked);
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
        Self { address, asked, serving }
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An answer to a client of Envoy.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// An Envoy before this upstream that asks us, and lets pass what it cannot ask about.
fn asking(domain: &'static str, upstream: &Upstream, ours: SocketAddr) -> Asking {
    let service = Service::Tcp(ours);
    Asking { upstream: upstream.address, domain, service, secret: None, deny: false, more: "" }
}

async fn get(address: SocketAddr, path: &str) -> Answer {
    let asked = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = Request::builder().uri(path).header("host", "edge").body(Empty::<Bytes>::new()).unwrap();
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        connection.abort();
        Answer { status: parts.status, headers: parts.headers, body }
    };
    timeout(HANGING, asked).await.unwrap()
}

async fn statuses(address: SocketAddr, path: &str, times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        statuses.push(get(address, path).await.status.as_u16());
    }
    statuses
}

#[tokio::test]
async fn it_admits_and_limits_by_the_references_files() {
    let upstream = Upstream::start().await;
    let setup = Setup { file: Some(FILE), style: HeaderStyle::X, ..Setup::default() };
    let (rls, _) = setup.service(ManualClock::new().into()).await;
    let (ours, serving) = listen(rls).await;
    let envoy = Envoy::start(&asking("files", &upstream, ours)).unwrap();
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
    assert_eq!(upstream.asked(), 4);
    serving.abort();
}

#[tokio::test]
async fn it_shows_a_rules_own_reply() {
    let upstream = Upstream::start().await;
    let reply = Reply::Refuse {
        status: 429,
        body: Some(ReplyBody::Json(r#"{"busy":true}"#.to_owned())),
        headers: vec![("x-why".to_owned(), "busy".to_owned())],
    };
    let on_limit = OnLimit { reply: Some(reply), ..OnLimit::default() };
    let rules = vec![Rule { on_limit, ..rule("total", per_minute(1)) }];
    let (rls, _) = Setup { rules, ..Setup::default() }.service(ManualClock::new().into()).await;
    let (ours, serving) = listen(rls).await;
    let envoy = Envoy::start(&asking("edge", &upstream, ours)).unwrap();
    assert_eq!(statuses(envoy.address(), "/a", 1).await, [200]);
    let refused = get(envoy.address(), "/a").await;
    assert_eq!(
        (refused.status, refused.body.as_ref()),
        (StatusCode::TOO_MANY_REQUESTS, br#"{"busy":true}"#.as_slice())
    );
    assert_eq!((refused.header("content-type"), refused.header("x-why")), (Some("application/json"), Some("busy")));
    serving.abort();
}

/// Hits as the route says: two for each request.
#[tokio::test]
async fn it_spends_hits() {
    let upstream = Upstream::start().await;
    let setup = Setup { file: Some(FILE), ..Setup::default() };
    let (rls, _) = setup.service(ManualClock::new().into()).await;
    let (ours, serving) = listen(rls).await;
    let envoy = Envoy::start(&Asking { more: "hits_addend: {number: 2}", ..asking("files", &upstream, ours) }).unwrap();
    assert_eq!(statuses(envoy.address(), "/a", 2).await, [200, 429]);
    assert_eq!(statuses(envoy.address(), "/b", 2).await, [200, 429]);
    serving.abort();
}

/// Hits that Envoy gives back when a request has ended: what it has spent first is there again.
#[tokio::test]
async fn it_gives_hits_back() {
    let upstream = Upstream::start().await;
    let setup = Setup { file: Some(FILE), style: HeaderStyle::X, ..Setup::default() };
    let (rls, sluice) = setup.service(ManualClock::new().into()).await;
    let (ours, serving) = listen(rls).await;
    let more = "hits_addend: {number: 2}
                    - actions:
                      - request_headers: {header_name: \":path\", descriptor_key: path}
                      hits_addend: {number: 2, is_negative_hits: true}
                      apply_on_stream_done: true";
    let envoy = Envoy::start(&Asking { more, ..asking("files", &upstream, ours) }).unwrap();
    for _ in 0..4 {
        let answer = get(envoy.address(), "/a").await;
        assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (StatusCode::OK, Some("1")));
        let given_back = async {
            while left(&sluice, "/a") < 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(HANGING, given_back).await.unwrap();
    }
    serving.abort();
}

/// What is left to a path.
fn left(sluice: &Sluice, path: &str) -> u64 {
    let attributes = AttributeMap::new().with(Attribute::custom("descriptor"), format!("path={path}"));
    let look = RuleRequest::new("", "").with_cost(0).with_attributes(&attributes);
    let rule = &sluice.rules()[0].name;
    let outcome = sluice.decide_named(rule, &look).unwrap();
    outcome.decisions().map(|(_, said)| said.decision.status.remaining).next().unwrap()
}

/// Without us, Envoy refuses if it was told to; with us again, it goes on where we stood.
#[tokio::test]
async fn it_lives_through_our_absence() {
    let upstream = Upstream::start().await;
    let setup = Setup { file: Some(FILE), ..Setup::default() };
    let (rls, _) = setup.service(ManualClock::new().into()).await;
    let (ours, serving) = listen(rls.clone()).await;
    let open = Envoy::start(&asking("files", &upstream, ours)).unwrap();
    let closed = Envoy::start(&Asking { deny: true, ..asking("files", &upstream, ours) }).unwrap();
    assert_eq!(statuses(open.address(), "/a", 1).await, [200]);
    assert_eq!(statuses(closed.address(), "/a", 1).await, [200]);
    serving.abort();
    let _ = serving.await;
    assert_eq!(statuses(open.address(), "/a", 5).await, [200; 5]);
    assert_eq!(statuses(closed.address(), "/a", 3).await, [500; 3]);
    let again = tokio::spawn(accept(TcpListener::bind(ours).await.unwrap(), rls));
    // Two of the three were spent before. Envoy may need a moment to notice.
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
    timeout(HANGING, all).await.unwrap();
    assert_eq!(recovered, [200, 429]);
    assert_eq!(statuses(open.address(), "/b", 4).await, [200, 200, 200, 429]);
    again.abort();
}
