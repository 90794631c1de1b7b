//! Client-side limits over loopback sockets, with the hyper and reqwest clients. The sluice uses a
//! manual clock, so nothing sleeps; timeouts only guard against hanging.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use sluicegate_engine::clock::{ClockHandle, ManualClock};
use sluicegate_engine::rule::{Direction, Rule, Target};
use sluicegate_engine::{Limit, Sluice};
use sluicegate_tower::client::{ClientLimit, Limited, LimitedBy, ThrottleCounts, ThrottleLayer};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;
use tower::{Layer, ServiceExt};

/// Much longer than anything here takes.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

type ScriptedResponse = (u16, Vec<(&'static str, String)>);

/// A server with scripted responses, in order, and then 200.
#[derive(Clone, Default)]
struct Server {
    reached: Arc<AtomicUsize>,
    responses: Arc<Mutex<Vec<ScriptedResponse>>>,
}

impl Server {
    async fn start(responses: Vec<ScriptedResponse>) -> (Self, SocketAddr) {
        let server = Self { reached: Arc::default(), responses: Arc::new(Mutex::new(responses)) };
        let app = Router::new().route("/", get(respond)).with_state(server.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        (server, address)
    }

    fn reached(&self) -> usize {
        self.reached.load(Ordering::SeqCst)
    }
}

async fn respond(State(server): State<Server>) -> Response<axum::body::Body> {
    server.reached.fetch_add(1, Ordering::SeqCst);
    let scripted = {
        let mut responses = server.responses.lock().unwrap();
        if responses.is_empty() { None } else { Some(responses.remove(0)) }
    };
    let (status, headers) = scripted.unwrap_or((200, Vec::new()));
    let named = |(name, value): (&'static str, String)| (HeaderName::from_static(name), value.parse().unwrap());
    let headers: HeaderMap = headers.into_iter().map(named).collect();
    (StatusCode::from_u16(status).unwrap(), headers, "hello").into_response()
}

fn retry_after(seconds: u64) -> ScriptedResponse {
    (429, vec![("retry-after", seconds.to_string())])
}

fn budget(remaining: u64, quota: u64, reset: u64) -> ScriptedResponse {
    let policy = format!("\"all\";q={quota};w={reset}");
    (200, vec![("ratelimit", format!("\"all\";r={remaining};t={reset}")), ("ratelimit-policy", policy)])
}

/// A client limit on a stopped clock.
fn outgoing(rules: Vec<Rule>) -> (ClientLimit, ManualClock) {
    let clock = ManualClock::new();
    let sluice = rules.into_iter().fold(Sluice::builder().clock(clock.clone()), |sluice, rule| sluice.rule(rule));
    let outgoing = ClientLimit::builder(sluice.build().unwrap()).service("bank").jitter(|_| Duration::ZERO);
    (outgoing.max_wait(Duration::from_secs(60)).build(), clock)
}

fn one_at_once() -> Rule {
    let mut rule = Rule::new("at-once", [Limit::concurrency(1).unwrap()]);
    rule.direction = Direction::Outbound;
    rule.target = Target::parse("calls-to bank").unwrap();
    rule
}

/// Yields to other tasks until the condition holds.
async fn until(what: impl Fn() -> bool) {
    timeout(TEST_TIMEOUT, async {
        while !what() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it should have come to that");
}

/// Number of calls waiting and in flight.
fn waiting_and_in_flight(outgoing: &ClientLimit) -> (usize, u64) {
    outgoing.state().iter().fold((0, 0), |sum, state| (sum.0 + state.waiting, sum.1 + state.in_flight))
}

mod with_hyper {
    use super::*;

    async fn call(outgoing: ClientLimit, address: SocketAddr) -> Result<StatusCode, Limited> {
        let client = outgoing.layer(Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>());
        let request = Request::get(format!("http://{address}/")).body(Empty::new()).unwrap();
        let response = timeout(TEST_TIMEOUT, client.oneshot(request)).await.unwrap();
        let response = response.map_err(|error| Limited::find(&*error).expect("limited").clone())?;
        let status = response.status();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
        Ok(status)
    }

    #[tokio::test]
    async fn the_second_call_waits_for_retry_after() {
        let (server, address) = Server::start(vec![retry_after(1)]).await;
        let (outgoing, clock) = outgoing(vec![]);
        assert_eq!(call(outgoing.clone(), address).await, Ok(StatusCode::TOO_MANY_REQUESTS));
        let second = tokio::spawn(call(outgoing.clone(), address));
        until(|| waiting_and_in_flight(&outgoing) == (1, 0)).await;
        assert_eq!(server.reached(), 1);
        clock.advance(Duration::from_secs(1));
        assert_eq!(second.await.unwrap(), Ok(StatusCode::OK));
        assert_eq!((server.reached(), clock.pending_timers()), (2, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_at_once_do_not_spend_a_budget_of_three_twice() {
        let mut responses = vec![budget(3, 4, 30)];
        responses.extend([2, 1, 0].map(|left| budget(left, 4, 30)));
        let (server, address) = Server::start(responses).await;
        let (outgoing, clock) = outgoing(vec![]);
        call(outgoing.clone(), address).await.unwrap();
        let calls: Vec<_> = (0..10).map(|_| tokio::spawn(call(outgoing.clone(), address))).collect();
        until(|| waiting_and_in_flight(&outgoing) == (7, 0)).await;
        assert_eq!(server.reached(), 1 + 3, "exactly three before the reset");
        clock.advance(Duration::from_secs(30));
        for call in calls {
            assert_eq!(call.await.unwrap(), Ok(StatusCode::OK));
        }
        assert_eq!((server.reached(), clock.pending_timers(), waiting_and_in_flight(&outgoing)), (11, 0, (0, 0)));
    }
}

mod with_reqwest {
    use super::*;
    use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
    use sluicegate_tower::reqwest_middleware::limited;

    fn client(outgoing: &ClientLimit) -> ClientWithMiddleware {
        ClientBuilder::new(reqwest::Client::builder().no_proxy().build().unwrap()).with(outgoing.clone()).build()
    }

    async fn call(client: ClientWithMiddleware, address: SocketAddr) -> Result<reqwest::Response, Limited> {
        let response = timeout(TEST_TIMEOUT, client.get(format!("http://{address}/")).send()).await.unwrap();
        response.map_err(|error| limited(&error).expect("limited").clone())
    }

    #[tokio::test]
    async fn the_second_call_waits_for_retry_after() {
        let (server, address) = Server::start(vec![retry_after(1)]).await;
        let (outgoing, clock) = outgoing(vec![]);
        let client = client(&outgoing);
        assert_eq!(call(client.clone(), address).await.unwrap().status(), 429);
        let second = tokio::spawn(call(client, address));
        until(|| waiting_and_in_flight(&outgoing) == (1, 0)).await;
        assert_eq!(server.reached(), 1);
        clock.advance(Duration::from_secs(1));
        assert_eq!(second.await.unwrap().unwrap().status(), 200);
        assert_eq!((server.reached(), clock.pending_timers()), (2, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_at_once_do_not_spend_a_budget_of_three_twice() {
        let mut responses = vec![budget(3, 4, 30)];
        responses.extend([2, 1, 0].map(|left| budget(left, 4, 30)));
        let (server, address) = Server::start(responses).await;
        let (outgoing, clock) = outgoing(vec![]);
        let client = client(&outgoing);
        call(client.clone(), address).await.unwrap();
        let calls: Vec<_> = (0..10).map(|_| tokio::spawn(call(client.clone(), address))).collect();
        until(|| waiting_and_in_flight(&outgoing) == (7, 0)).await;
        assert_eq!(server.reached(), 1 + 3, "exactly three before the reset");
        for call in calls {
            call.abort();
            drop(call.await);
        }
        assert_eq!(
            (server.reached(), clock.pending_timers(), waiting_and_in_flight(&outgoing)),
            (4, 0, (0, 0)),
            "nothing is left behind"
        );
    }

    #[tokio::test]
    async fn a_permit_is_held_until_the_body_is_read_and_the_response_is_unchanged() {
        let (server, address) = Server::start(vec![]).await;
        let (outgoing, _clock) = outgoing(vec![one_at_once()]);
        let client = client(&outgoing);
        let response = call(client.clone(), address).await.unwrap();
        assert_eq!(response.url().as_str(), format!("http://{address}/"));
        assert_eq!((response.content_length(), response.remote_addr()), (Some(5), Some(address)));
        let refused = call(client.clone(), address).await.unwrap_err();
        assert_eq!(refused.by, LimitedBy::Rule("at-once".into()));
        assert_eq!(response.text().await.unwrap(), "hello");
        let response = call(client.clone(), address).await.unwrap();
        drop(response);
        call(client, address).await.unwrap();
        assert_eq!(server.reached(), 3);
    }

    /// The throttle is outside of the rules: calls refused by rules never reached the server and do not count.
    #[tokio::test]
    async fn a_rejecting_server_is_called_less_and_refusals_by_inner_rules_do_not_count() {
        let (server, address) = Server::start(vec![(503, Vec::new()); 300]).await;
        let (outgoing, clock) = outgoing(vec![]);
        let throttle = ThrottleLayer::builder(ClockHandle::new(clock)).build();
        let around = |outgoing: ClientLimit| {
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            ClientBuilder::new(client).with(throttle.clone()).with(outgoing).build()
        };
        let client = around(outgoing);
        let mut throttled = 0;
        for _ in 0..300 {
            match call(client.clone(), address).await {
                Ok(response) => assert_eq!(response.status(), 503, "passed on unchanged"),
                Err(limited) => {
                    assert_eq!((limited.by, &*limited.destination), (LimitedBy::Throttle, &*address.to_string()));
                    throttled += 1;
                }
            }
        }
        let reached = server.reached() as u64;
        assert!(throttled > 200, "{throttled} of 300 were not made");
        assert_eq!(throttle.counts(), ThrottleCounts { made: reached, rejected: reached, throttled });
        assert_eq!(reached + throttled, 300);

        let (server, address) = Server::start(vec![]).await;
        let (strict, _clock) = super::outgoing(vec![one_at_once()]);
        let client = around(strict);
        let kept = call(client.clone(), address).await.unwrap();
        for _ in 0..50 {
            let refused = call(client.clone(), address).await.unwrap_err();
            assert_eq!(refused.by, LimitedBy::Rule("at-once".into()));
        }
        drop(kept);
        let state = throttle.state().into_iter().find(|(name, _)| *name == address.to_string()).unwrap().1;
        assert_eq!((state.requested, state.accepted, state.rejected, server.reached()), (1, 1, 0, 1));
    }

    #[tokio::test]
    async fn a_client_that_cannot_connect_releases_its_permit() {
        // A bound port without a listener.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let unreachable = socket.local_addr().unwrap();
        let (outgoing, _clock) = outgoing(vec![one_at_once()]);
        let client = client(&outgoing);
        for _ in 0..2 {
            let error =
                timeout(TEST_TIMEOUT, client.get(format!("http://{unreachable}/")).send()).await.unwrap().unwrap_err();
            assert!(error.is_connect() && limited(&error).is_none(), "{error}");
        }
        assert_eq!(waiting_and_in_flight(&outgoing), (0, 0));
        drop(socket);
    }
}
