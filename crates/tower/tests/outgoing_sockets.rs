//! Outgoing calls over loopback sockets, with hyper's and with reqwest's client. The sluice goes by a
//! clock turned by hand, so nothing sleeps; timeouts only guard against hanging.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

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
use sluicegate_engine::rule::{Rule, Side, Target};
use sluicegate_engine::{Limit, Sluice};
use sluicegate_tower::outgoing::{Limited, LimitedBy, Outgoing, ThrottleCounts, ThrottleLayer};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;
use tower::{Layer, ServiceExt};

/// Much longer than anything here takes.
const GUARD: Duration = Duration::from_secs(60);

type Says = (u16, Vec<(&'static str, String)>);

/// A server that answers as it was told, in order, and then with 200.
#[derive(Clone, Default)]
struct Server {
    reached: Arc<AtomicUsize>,
    answers: Arc<Mutex<Vec<Says>>>,
}

impl Server {
    async fn start(answers: Vec<Says>) -> (Self, SocketAddr) {
        let server = Self { reached: Arc::default(), answers: Arc::new(Mutex::new(answers)) };
        let app = Router::new().route("/", get(answer)).with_state(server.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        (server, address)
    }

    fn reached(&self) -> usize {
        self.reached.load(Ordering::SeqCst)
    }
}

async fn answer(State(server): State<Server>) -> Response<axum::body::Body> {
    server.reached.fetch_add(1, Ordering::SeqCst);
    let said = {
        let mut answers = server.answers.lock().unwrap();
        if answers.is_empty() { None } else { Some(answers.remove(0)) }
    };
    let (status, headers) = said.unwrap_or((200, Vec::new()));
    let named = |(name, value): (&'static str, String)| (HeaderName::from_static(name), value.parse().unwrap());
    let headers: HeaderMap = headers.into_iter().map(named).collect();
    (StatusCode::from_u16(status).unwrap(), headers, "hello").into_response()
}

fn retry_after(seconds: u64) -> Says {
    (429, vec![("retry-after", seconds.to_string())])
}

fn budget(remaining: u64, quota: u64, reset: u64) -> Says {
    let policy = format!("\"all\";q={quota};w={reset}");
    (200, vec![("ratelimit", format!("\"all\";r={remaining};t={reset}")), ("ratelimit-policy", policy)])
}

/// Calls on a clock that stands still.
fn outgoing(rules: Vec<Rule>) -> (Outgoing, ManualClock) {
    let clock = ManualClock::new();
    let sluice = rules.into_iter().fold(Sluice::builder().clock(clock.clone()), |sluice, rule| sluice.rule(rule));
    let outgoing = Outgoing::builder(sluice.build().unwrap()).service("bank").jitter(|_| Duration::ZERO);
    (outgoing.max_wait(Duration::from_secs(60)).build(), clock)
}

fn one_at_once() -> Rule {
    let mut rule = Rule::new("at-once", [Limit::concurrency(1).unwrap()]);
    rule.side = Side::Outbound;
    rule.target = Target::parse("caller-of bank").unwrap();
    rule
}

/// Lets other tasks run until it holds.
async fn until(what: impl Fn() -> bool) {
    timeout(GUARD, async {
        while !what() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it should have come to that");
}

/// How many wait, and how many are under way.
fn standing(outgoing: &Outgoing) -> (usize, u64) {
    outgoing.state().iter().fold((0, 0), |sum, state| (sum.0 + state.waiting, sum.1 + state.in_flight))
}

mod with_hyper {
    use super::*;

    async fn call(outgoing: Outgoing, address: SocketAddr) -> Result<StatusCode, Limited> {
        let client = outgoing.layer(Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>());
        let request = Request::get(format!("http://{address}/")).body(Empty::new()).unwrap();
        let answer = timeout(GUARD, client.oneshot(request)).await.unwrap();
        let answer = answer.map_err(|error| Limited::find(&*error).expect("limited").clone())?;
        let status = answer.status();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "hello");
        Ok(status)
    }

    #[tokio::test]
    async fn the_second_call_waits_until_the_server_wants_it() {
        let (server, address) = Server::start(vec![retry_after(1)]).await;
        let (outgoing, clock) = outgoing(vec![]);
        assert_eq!(call(outgoing.clone(), address).await, Ok(StatusCode::TOO_MANY_REQUESTS));
        let second = tokio::spawn(call(outgoing.clone(), address));
        until(|| standing(&outgoing) == (1, 0)).await;
        assert_eq!(server.reached(), 1);
        clock.advance(Duration::from_secs(1));
        assert_eq!(second.await.unwrap(), Ok(StatusCode::OK));
        assert_eq!((server.reached(), clock.alarms()), (2, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_at_once_do_not_spend_a_budget_of_three_twice() {
        let mut answers = vec![budget(3, 4, 30)];
        answers.extend([2, 1, 0].map(|left| budget(left, 4, 30)));
        let (server, address) = Server::start(answers).await;
        let (outgoing, clock) = outgoing(vec![]);
        call(outgoing.clone(), address).await.unwrap();
        let calls: Vec<_> = (0..10).map(|_| tokio::spawn(call(outgoing.clone(), address))).collect();
        until(|| standing(&outgoing) == (7, 0)).await;
        assert_eq!(server.reached(), 1 + 3, "exactly three before the reset");
        clock.advance(Duration::from_secs(30));
        for call in calls {
            assert_eq!(call.await.unwrap(), Ok(StatusCode::OK));
        }
        assert_eq!((server.reached(), clock.alarms(), standing(&outgoing)), (11, 0, (0, 0)));
    }
}

mod with_reqwest {
    use super::*;
    use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
    use sluicegate_tower::reqwest_middleware::limited;

    fn client(outgoing: &Outgoing) -> ClientWithMiddleware {
        ClientBuilder::new(reqwest::Client::builder().no_proxy().build().unwrap()).with(outgoing.clone()).build()
    }

    async fn call(client: ClientWithMiddleware, address: SocketAddr) -> Result<reqwest::Response, Limited> {
        let answer = timeout(GUARD, client.get(format!("http://{address}/")).send()).await.unwrap();
        answer.map_err(|error| limited(&error).expect("limited").clone())
    }

    #[tokio::test]
    async fn the_second_call_waits_until_the_server_wants_it() {
        let (server, address) = Server::start(vec![retry_after(1)]).await;
        let (outgoing, clock) = outgoing(vec![]);
        let client = client(&outgoing);
        assert_eq!(call(client.clone(), address).await.unwrap().status(), 429);
        let second = tokio::spawn(call(client, address));
        until(|| standing(&outgoing) == (1, 0)).await;
        assert_eq!(server.reached(), 1);
        clock.advance(Duration::from_secs(1));
        assert_eq!(second.await.unwrap().unwrap().status(), 200);
        assert_eq!((server.reached(), clock.alarms()), (2, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_at_once_do_not_spend_a_budget_of_three_twice() {
        let mut answers = vec![budget(3, 4, 30)];
        answers.extend([2, 1, 0].map(|left| budget(left, 4, 30)));
        let (server, address) = Server::start(answers).await;
        let (outgoing, clock) = outgoing(vec![]);
        let client = client(&outgoing);
        call(client.clone(), address).await.unwrap();
        let calls: Vec<_> = (0..10).map(|_| tokio::spawn(call(client.clone(), address))).collect();
        until(|| standing(&outgoing) == (7, 0)).await;
        assert_eq!(server.reached(), 1 + 3, "exactly three before the reset");
        for call in calls {
            call.abort();
            drop(call.await);
        }
        assert_eq!((server.reached(), clock.alarms(), standing(&outgoing)), (4, 0, (0, 0)), "nothing is left behind");
    }

    #[tokio::test]
    async fn a_permit_is_held_until_the_body_has_been_read_and_the_answer_is_the_same() {
        let (server, address) = Server::start(vec![]).await;
        let (outgoing, _clock) = outgoing(vec![one_at_once()]);
        let client = client(&outgoing);
        let answer = call(client.clone(), address).await.unwrap();
        assert_eq!(answer.url().as_str(), format!("http://{address}/"));
        assert_eq!((answer.content_length(), answer.remote_addr()), (Some(5), Some(address)));
        let refused = call(client.clone(), address).await.unwrap_err();
        assert_eq!(refused.by, LimitedBy::Rule("at-once".into()));
        assert_eq!(answer.text().await.unwrap(), "hello");
        let answer = call(client.clone(), address).await.unwrap();
        drop(answer);
        call(client, address).await.unwrap();
        assert_eq!(server.reached(), 3);
    }

    /// The throttle stands outside of the rules: what they hold back never came to the server, and says nothing of it.
    #[tokio::test]
    async fn a_server_that_turns_calls_away_is_called_less_and_rules_beneath_say_nothing_of_it() {
        let (server, address) = Server::start(vec![(503, Vec::new()); 300]).await;
        let (outgoing, clock) = outgoing(vec![]);
        let throttle = ThrottleLayer::builder(ClockHandle::new(clock)).build();
        let around = |outgoing: Outgoing| {
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            ClientBuilder::new(client).with(throttle.clone()).with(outgoing).build()
        };
        let client = around(outgoing);
        let mut not_made = 0;
        for _ in 0..300 {
            match call(client.clone(), address).await {
                Ok(answer) => assert_eq!(answer.status(), 503, "handed on as it is"),
                Err(limited) => {
                    assert_eq!((limited.by, &*limited.destination), (LimitedBy::Throttle, &*address.to_string()));
                    not_made += 1;
                }
            }
        }
        let reached = server.reached() as u64;
        assert!(not_made > 200, "{not_made} of 300 were not made");
        assert_eq!(throttle.counts(), ThrottleCounts { made: reached, turned_away: reached, not_made });
        assert_eq!(reached + not_made, 300);

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
        assert_eq!((state.wanted, state.accepted, state.rejected, server.reached()), (1, 1, 0, 1));
    }

    #[tokio::test]
    async fn a_client_that_cannot_connect_gives_its_permit_back() {
        // Ours, so that nobody else takes it, but nobody listens.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let nobody = socket.local_addr().unwrap();
        let (outgoing, _clock) = outgoing(vec![one_at_once()]);
        let client = client(&outgoing);
        for _ in 0..2 {
            let error = timeout(GUARD, client.get(format!("http://{nobody}/")).send()).await.unwrap().unwrap_err();
            assert!(error.is_connect() && limited(&error).is_none(), "{error}");
        }
        assert_eq!(standing(&outgoing), (0, 0));
        drop(socket);
    }
}
