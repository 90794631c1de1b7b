//! Server side: state shared by all clones, queues, permits held to the end of the body, replies.

use std::convert::Infallible;
use std::future::{Future, IntoFuture, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, Cost, Lists, Mode, Queue, Reply, ReplyBody, Rule};
use sluicegate_engine::{Limit, Rate, Sluice};
use sluicegate_http_adapter::HeaderStyle;
use sluicegate_tower::{ActualCost, LimitLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).build().unwrap()
}

fn layer(rules: impl IntoIterator<Item = Rule>) -> (LimitLayer, ManualClock) {
    let clock = ManualClock::new();
    (LimitLayer::new(sluice(&clock, rules)), clock)
}

fn rule(name: &str, limit: &str) -> Rule {
    Rule::new(name, [limit.parse().unwrap()])
}

fn per_ip(limit: &str) -> Rule {
    Rule { key: vec![Attribute::ClientIp.into()], ..rule("per-ip", limit) }
}

fn permits(count: u64) -> Rule {
    Rule::new("inside", [Limit::concurrency(count).unwrap()])
}

fn queued(mut rule: Rule, max_wait: u64, max_waiting: u32) -> Rule {
    rule.on_limit.queue = Some(Queue { max_wait: Duration::from_secs(max_wait), max_waiting });
    rule
}

fn replying(mut rule: Rule, reply: Reply) -> Rule {
    rule.on_limit.reply = Some(reply);
    rule
}

fn get(path: &str) -> Request<()> {
    Request::builder().uri(path).body(()).unwrap()
}

fn from(peer: &str) -> Request<()> {
    let mut request = get("/");
    request.extensions_mut().insert(peer.parse::<SocketAddr>().unwrap());
    request
}

/// A service that responds to every request.
fn hello() -> impl Service<
    Request<()>,
    Response = Response<Full<Bytes>>,
    Error = Infallible,
    Future: Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send,
> + Clone
+ Send {
    service_fn(async |_: Request<()>| Ok(Response::new(Full::from("hello"))))
}

async fn status<S, B>(service: &S, request: Request<()>) -> u16
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap().status().as_u16()
}

async fn statuses<S, B>(service: &S, requests: impl IntoIterator<Item = Request<()>>) -> Vec<u16>
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible> + Clone,
{
    let mut statuses = Vec::new();
    for request in requests {
        statuses.push(status(service, request).await);
    }
    statuses
}

/// Polls once with a no-op waker.
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn all_clones_and_all_services_share_one_state() {
    let (layer, _) = layer([rule("total", "3/1h")]);
    let first = layer.layer(hello());
    let second = layer.clone().layer(hello());
    assert_eq!(statuses(&first, [get("/"), get("/")]).await, [200, 200]);
    assert_eq!(statuses(&second.clone(), [get("/"), get("/")]).await, [200, 429]);
}

#[tokio::test]
async fn clients_are_identified_by_their_peer() {
    let (layer, _) = layer([per_ip("1/1h")]);
    let service = layer.layer(hello());
    let peers =
        ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1", "[::ffff:192.0.2.2]:1", "[2001:db8::1]:1", "[2001:db8::2]:1"];
    assert_eq!(statuses(&service, peers.map(from)).await, [200, 429, 200, 429, 200, 429]);
    assert_eq!(layer.unknown_peers(), 0);
}

#[tokio::test]
async fn unknown_peers_count_as_one_client() {
    let (layer, _) = layer([per_ip("2/1h")]);
    let service = layer.layer(hello());
    assert_eq!(statuses(&service, [get("/"), get("/"), get("/")]).await, [200, 200, 429]);
    assert_eq!(layer.unknown_peers(), 3);
}

#[tokio::test]
async fn responses_carry_headers_and_refusals_are_explained() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [rule("total", "1/10s")]);
    let service = LimitLayer::builder(sluice).headers(HeaderStyle::X).build().layer(hello());
    let response = service.clone().oneshot(get("/")).await.unwrap();
    assert_eq!(response.headers()["x-ratelimit-limit"], "1");
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
    let refused = service.oneshot(get("/")).await.unwrap();
    assert_eq!(refused.headers()["x-ratelimit-remaining"], "0");
    assert_eq!(refused.headers()["retry-after"], "11");
    let body = refused.into_body();
    assert_eq!(body.size_hint().exact(), Some(body.size_hint().lower()));
    assert!(String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).contains("over the limit"));
}

/// A body in the response to HEAD breaks an HTTP/2 stream, and hyper does not remove it there.
#[tokio::test]
async fn a_refused_head_request_is_answered_without_a_body() {
    let (layer, _) = layer([rule("total", "1/10s")]);
    let service = layer.layer(hello());
    let head = || Request::head("/").body(()).unwrap();
    assert_eq!(status(&service, get("/")).await, 200);
    let refused = service.clone().oneshot(head()).await.unwrap();
    let length = service.clone().oneshot(get("/")).await.unwrap().into_body().size_hint().exact().unwrap();
    assert_eq!(
        (refused.status().as_u16(), refused.headers()["content-length"].to_str().unwrap()),
        (429, &*length.to_string())
    );
    assert!(refused.into_body().is_end_stream());
}

#[tokio::test]
async fn the_service_is_not_called_for_refused_requests() {
    let (layer, _) = layer([rule("total", "2/1h")]);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let service = layer.layer(service_fn(move |_: Request<()>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) }
    }));
    statuses(&service, (0..5).map(|_| get("/"))).await;
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn paths_are_normalized_before_matching() {
    let mut orders = rule("orders", "1/1h");
    orders.target = sluicegate_engine::rule::Target::parse("/api/orders").unwrap();
    let (layer, _) = layer([orders]);
    let service = layer.layer(hello());
    let spellings = ["/api/orders", "//api//orders", "/api/./orders", "/%61pi/orders?x=1", "/other"];
    assert_eq!(statuses(&service, spellings.map(get)).await, [200, 429, 429, 429, 200]);
}

#[tokio::test]
async fn a_queued_request_does_not_block_others() {
    let mut paced = queued(rule("paced", "1/10s"), 60, 1);
    paced.target = sluicegate_engine::rule::Target::parse("/paced").unwrap();
    let (layer, clock) = layer([paced]);
    let service = layer.layer(hello());
    assert_eq!(status(&service, get("/paced")).await, 200);
    let mut waiting = pin!(service.clone().oneshot(get("/paced")));
    assert!(poll(waiting.as_mut()).is_pending());
    assert_eq!(status(&service, get("/paced")).await, 429, "the line is full");
    assert_eq!(status(&service, get("/other")).await, 200);
    clock.advance(Duration::from_secs(11));
    assert_eq!(waiting.await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_cancelled_request_leaves_the_queue() {
    let (layer, clock) = layer([queued(rule("paced", "1/10s"), 60, 1)]);
    let service = layer.layer(hello());
    assert_eq!(status(&service, get("/")).await, 200);
    for _ in 0..3 {
        let mut waiting = Box::pin(service.clone().oneshot(get("/")));
        assert!(poll(waiting.as_mut()).is_pending());
    }
    assert_eq!(layer.sluice().counts()[0].waiting, 0);
    assert_eq!(clock.pending_timers(), 0);
}

#[tokio::test]
async fn a_leaky_bucket_paces() {
    let bucket = Limit::leaky_bucket(Rate::per_second(1).unwrap(), 2).unwrap();
    let (layer, clock) = layer([Rule::new("paced", [bucket])]);
    let service = layer.layer(hello());
    assert_eq!(status(&service, get("/")).await, 200);
    let mut second = pin!(service.clone().oneshot(get("/")));
    assert!(poll(second.as_mut()).is_pending());
    assert_eq!(status(&service, get("/")).await, 429);
    clock.advance(Duration::from_secs(1));
    assert_eq!(second.await.unwrap().status(), 200);
}

#[tokio::test]
async fn permits_are_held_until_the_body_has_ended_or_is_dropped() {
    let (layer, _) = layer([permits(2)]);
    let service = layer.layer(hello());
    let first = service.clone().oneshot(get("/")).await.unwrap();
    let second = service.clone().oneshot(get("/")).await.unwrap();
    assert_eq!(status(&service, get("/")).await, 429);
    drop(first);
    let third = service.clone().oneshot(get("/")).await.unwrap();
    assert_eq!(third.status(), 200);
    assert_eq!(status(&service, get("/")).await, 429);
    let mut body = second.into_body();
    assert!(body.frame().await.is_some());
    assert_eq!(status(&service, get("/")).await, 429, "not read to its end");
    assert!(body.frame().await.is_none());
    let fourth = service.clone().oneshot(get("/")).await.unwrap();
    assert_eq!(fourth.status(), 200, "read to its end, and not dropped yet");
    drop((body, third, fourth));
    assert_eq!(statuses(&service, (0..9).map(|_| get("/"))).await, [200; 9], "nothing was lost");
}

#[tokio::test]
async fn permits_are_released_on_errors_panics_and_cancellation() {
    let (layer, _) = layer([permits(1)]);
    let failing = layer.layer(service_fn(async |_: Request<()>| Err::<Response<Full<Bytes>>, _>("no")));
    for _ in 0..3 {
        assert_eq!(failing.clone().oneshot(get("/")).await.unwrap_err(), "no");
    }
    for _ in 0..3 {
        let panicking = layer.layer(service_fn(|_: Request<()>| async {
            if true {
                panic!("on purpose");
            }
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        }));
        assert!(tokio::spawn(panicking.oneshot(get("/")).into_future()).await.is_err());
    }
    for _ in 0..3 {
        let hanging = layer.layer(service_fn(|_: Request<()>| {
            poll_fn(|_| Poll::<Result<Response<Full<Bytes>>, Infallible>>::Pending)
        }));
        let mut call = Box::pin(hanging.oneshot(get("/")));
        assert!(poll(call.as_mut()).is_pending());
    }
    assert_eq!(status(&layer.layer(hello()), get("/")).await, 200);
}

#[tokio::test]
async fn a_failing_body_releases_its_permit() {
    struct Broken;
    impl Body for Broken {
        type Data = Bytes;
        type Error = &'static str;
        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Ready(Some(Err("broken")))
        }
    }
    let (layer, _) = layer([permits(1)]);
    let broken = layer.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Broken))));
    for _ in 0..3 {
        let response = broken.clone().oneshot(get("/")).await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.into_body().collect().await.is_err());
    }
}

#[tokio::test]
async fn an_estimate_is_settled_to_the_actual_cost() {
    let mut tokens = Rule::new("tokens", [Limit::token_bucket(Rate::per_minute(1).unwrap(), 100).unwrap()]);
    tokens.cost = Cost::estimate(60);
    let (layer, _) = layer([tokens]);
    let costing = |cost: Option<u64>| {
        layer.layer(service_fn(move |_: Request<()>| async move {
            let mut response = Response::new(Full::<Bytes>::from("text"));
            if let Some(cost) = cost {
                response.extensions_mut().insert(ActualCost(cost));
            }
            Ok::<_, Infallible>(response)
        }))
    };
    let small = costing(Some(10)).oneshot(get("/")).await.unwrap();
    assert_eq!(status(&costing(Some(10)), get("/")).await, 429, "60 are reserved");
    small.into_body().collect().await.unwrap();
    assert_eq!(status(&costing(None), get("/")).await, 200, "10 were taken");
    assert_eq!(status(&costing(None), get("/")).await, 429, "10 and the estimate, since no cost was reported");
}

#[tokio::test]
async fn rules_degrade_redirect_shadow_and_reload() {
    let json = Some(ReplyBody::Json("[]".to_owned()));
    let degrade = Reply::Degrade { status: 200, body: json, headers: Vec::new() };
    let (layer, _) = layer([replying(rule("search", "1/1h"), degrade)]);
    let service = layer.layer(hello());
    assert_eq!(status(&service, get("/")).await, 200);
    let degraded = service.clone().oneshot(get("/")).await.unwrap();
    assert_eq!(degraded.status(), 200);
    assert_eq!(degraded.into_body().collect().await.unwrap().to_bytes(), "[]");

    let elsewhere = Reply::Redirect { status: 307, location: "/busy".to_owned() };
    let redirecting = replying(rule("search", "1/1h"), elsewhere);
    layer.sluice().replace(vec![redirecting], Lists::default()).unwrap();
    let redirected = service.clone().oneshot(get("/")).await.unwrap();
    assert_eq!((redirected.status().as_u16(), redirected.headers()["location"].to_str().unwrap()), (307, "/busy"));

    let watching = Rule { mode: Mode::Shadow, ..rule("search", "1/1h") };
    layer.sluice().replace(vec![watching], Lists::default()).unwrap();
    assert_eq!(status(&service, get("/")).await, 200);
    assert!(layer.sluice().counts()[0].refused > 0, "it would have refused");
}

#[tokio::test]
async fn a_service_that_is_not_ready_is_not_called() {
    #[derive(Clone)]
    struct OneAtATime {
        busy: Arc<AtomicUsize>,
        mine: bool,
    }
    impl Service<Request<()>> for OneAtATime {
        type Response = Response<Full<Bytes>>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Self::Response, Infallible>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            self.mine = self.busy.load(Ordering::Relaxed) == 0;
            if self.mine { Poll::Ready(Ok(())) } else { Poll::Pending }
        }
        fn call(&mut self, _: Request<()>) -> Self::Future {
            assert!(std::mem::take(&mut self.mine), "called before it was polled for readiness");
            std::future::ready(Ok(Response::new(Full::default())))
        }
    }
    let busy = Arc::new(AtomicUsize::new(0));
    let (layer, clock) = layer([queued(rule("paced", "1/10s"), 60, 10)]);
    let mut service = layer.layer(OneAtATime { busy: Arc::clone(&busy), mine: false });
    assert_eq!(service.ready().await.unwrap().call(get("/")).await.unwrap().status(), 200);
    // The second is queued: the instance that was ready for it waits with it.
    let waiting = service.ready().await.unwrap().call(get("/"));
    let mut third = pin!(service.ready());
    busy.store(1, Ordering::Relaxed);
    assert!(poll(third.as_mut()).is_pending());
    busy.store(0, Ordering::Relaxed);
    clock.advance(Duration::from_secs(11));
    assert_eq!(waiting.await.unwrap().status(), 200);
}
