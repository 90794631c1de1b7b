//! Tests of health checks against real servers with changing status.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use sluicegate_config::settings::{self, HealthCheck, HostHeader, UpstreamProtocol};
use sluicegate_engine::clock::{Clock, ManualClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::super::{AttemptedServers, Health, Upstreams};
use super::{plain, upstreams, wait_until, with_timeout};

const SECOND: Duration = Duration::from_secs(1);

/// A server that responds with a settable status and records its requests.
struct CheckedServer {
    address: SocketAddr,
    state: Arc<Mutex<CheckedServerState>>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct CheckedServerState {
    /// `None`: no response at all.
    status: Option<u16>,
    requests: Vec<String>,
    in_flight: usize,
    max_in_flight: usize,
}

/// A request without a response yet.
struct InFlightCheck(Arc<Mutex<CheckedServerState>>);

impl InFlightCheck {
    fn begin(state: &Arc<Mutex<CheckedServerState>>, request: &Request<Incoming>) -> Self {
        let mut locked = state.lock();
        let host = request.headers().get("host").map(|host| host.to_str().unwrap());
        let host = host.or(request.uri().host()).unwrap_or("nobody");
        let line = format!("{:?} {} {} {host}", request.version(), request.method(), request.uri().path());
        locked.requests.push(line);
        locked.in_flight += 1;
        locked.max_in_flight = locked.max_in_flight.max(locked.in_flight);
        Self(Arc::clone(state))
    }
}

impl Drop for InFlightCheck {
    fn drop(&mut self) {
        self.0.lock().in_flight -= 1;
    }
}

impl CheckedServer {
    async fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(CheckedServerState { status: Some(status), ..CheckedServerState::default() }));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&state)));
        Self { address, state, _serving: serving }
    }

    fn set_status(&self, status: Option<u16>) {
        self.state.lock().status = status;
    }

    fn request_count(&self) -> usize {
        self.state.lock().requests.len()
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn serve(listener: TcpListener, state: Arc<Mutex<CheckedServerState>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared_state = Arc::clone(&state);
        let service = service_fn(move |request: Request<Incoming>| {
            let in_flight = InFlightCheck::begin(&shared_state, &request);
            let status = shared_state.lock().status;
            async move {
                let _in_flight = in_flight;
                let Some(status) = status else { return std::future::pending().await };
                Ok::<_, Infallible>(Response::builder().status(status).body(Empty::<Bytes>::new()).unwrap())
            }
        });
        connections.spawn(async move {
            // A client may disconnect at any time.
            drop(auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

fn check() -> HealthCheck {
    HealthCheck { interval: 6 * SECOND, timeout: SECOND, failures: 3, successes: 2, ..HealthCheck::new("/healthz") }
}

/// Upstreams with running health checks.
struct HealthCheckRun {
    clock: ManualClock,
    upstreams: Arc<Upstreams>,
    task: JoinHandle<()>,
}

impl HealthCheckRun {
    fn start(settings: settings::Upstream) -> Self {
        let clock = ManualClock::new();
        let upstreams = Arc::new(upstreams(settings, clock.clone()));
        let task = tokio::spawn({
            let upstreams = Arc::clone(&upstreams);
            async move { upstreams.run_health_checks().await }
        });
        Self { clock, upstreams, task }
    }

    /// Waits until all checks are done and the next ones are scheduled, no earlier than now.
    async fn settled(&self) {
        let servers = self.upstreams.get(0).servers().len();
        // A check in flight has a timer too, for its timeout, and another for the connect timeout.
        wait_until(|| {
            let next = self.clock.next_timer().is_some_and(|at| at > self.clock.now() + SECOND);
            next && self.clock.pending_timers() == servers
        })
        .await;
    }

    /// Runs one more check of the only server.
    async fn next_check(&self) {
        self.settled().await;
        self.clock.advance(6 * SECOND);
        self.settled().await;
    }

    fn health(&self, server: usize) -> Health {
        self.upstreams.status()[0].servers[server].health.clone()
    }

    fn is_available(&self) -> bool {
        self.upstreams.get(0).pick(&AttemptedServers::default()).is_some()
    }
}

impl Drop for HealthCheckRun {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn servers_change_state_after_the_configured_results() {
    let server = CheckedServer::start(204).await;
    let run = HealthCheckRun::start(settings::Upstream { health: Some(check()), ..plain([server.url()]) });
    run.settled().await;
    assert_eq!((server.request_count(), run.health(0)), (1, Health::Healthy), "checked immediately at the start");
    server.set_status(Some(503));
    run.next_check().await;
    run.next_check().await;
    assert!(run.is_available(), "two failures are not three");
    run.next_check().await;
    assert_eq!(run.health(0).to_string(), "unhealthy: status 503 Service Unavailable");
    assert!(!run.is_available());
    server.set_status(Some(302));
    run.next_check().await;
    assert!(!run.is_available(), "one success is not two");
    run.next_check().await;
    assert_eq!((server.request_count(), run.health(0)), (6, Health::Healthy));
    assert!(run.is_available());
}

#[tokio::test]
async fn a_check_timeout_makes_a_server_unhealthy() {
    let server = CheckedServer::start(200).await;
    let once = HealthCheck { failures: 1, successes: 1, ..check() };
    let run = HealthCheckRun::start(settings::Upstream { health: Some(once), ..plain([server.url()]) });
    run.settled().await;
    server.set_status(None);
    run.clock.advance(6 * SECOND);
    wait_until(|| server.state.lock().in_flight == 1).await;
    assert!(run.is_available());
    run.clock.advance(SECOND);
    wait_until(|| !run.is_available()).await;
    assert_eq!(run.health(0).to_string(), "unhealthy: no response within 1000 ms");
    wait_until(|| server.state.lock().in_flight == 0).await;
    server.set_status(Some(200));
    wait_until(|| run.clock.pending_timers() == 1).await;
    run.clock.advance(5 * SECOND);
    wait_until(|| run.is_available()).await;
    assert_eq!(server.state.lock().max_in_flight, 1, "never two checks of one server at a time");
}

#[tokio::test]
async fn a_timed_out_check_closes_its_connection() {
    for protocol in [UpstreamProtocol::Http1, UpstreamProtocol::Http2] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let run = HealthCheckRun::start(settings::Upstream { health: Some(check()), protocol, ..plain([url]) });
        let (mut silent, _) = with_timeout(listener.accept()).await.unwrap();
        with_timeout(silent.read_u8()).await.unwrap();
        run.clock.advance(SECOND);
        with_timeout(silent.read_to_end(&mut Vec::new())).await.unwrap();
    }
}

#[tokio::test]
async fn an_invalid_response_makes_a_server_unhealthy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let once = HealthCheck { failures: 1, ..check() };
    let run = HealthCheckRun::start(settings::Upstream { health: Some(once), ..plain([url]) });
    let (mut stream, _) = with_timeout(listener.accept()).await.unwrap();
    with_timeout(stream.read_u8()).await.unwrap();
    stream.write_all(b"\0\xff nonsense\r\n\r\n").await.unwrap();
    wait_until(|| !run.is_available()).await;
    let message = run.health(0).to_string();
    assert!(message.starts_with("unhealthy: invalid response: "), "{message}");
}

#[tokio::test]
async fn an_unreachable_server_is_unhealthy() {
    let closed_address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let server = CheckedServer::start(200).await;
    let once = HealthCheck { failures: 1, ..check() };
    let urls = [format!("http://{closed_address}"), server.url()];
    let run = HealthCheckRun::start(settings::Upstream { health: Some(once), ..plain(urls) });
    run.settled().await;
    let message = run.health(0).to_string();
    assert!(
        message.starts_with(&format!("unhealthy: cannot connect to {closed_address}: Connection refused")),
        "{message}"
    );
    let upstream = run.upstreams.get(0);
    let picked = (0..10).map(|_| upstream.pick(&AttemptedServers::default()).unwrap().server().position());
    assert!(picked.into_iter().all(|position| position == 1));
}

#[tokio::test]
async fn a_recovered_server_is_not_ejected_for_old_failures() {
    let server = CheckedServer::start(500).await;
    let once = HealthCheck { failures: 1, successes: 1, ..check() };
    let run = HealthCheckRun::start(settings::Upstream { health: Some(once), ..plain([server.url()]) });
    let attempt = run.upstreams.get(0).pick(&AttemptedServers::default()).unwrap();
    (0..3).for_each(|_| attempt.failed());
    run.settled().await;
    assert!(matches!(run.health(0), Health::Unhealthy { .. }));
    server.set_status(Some(200));
    run.next_check().await;
    assert_eq!(run.health(0), Health::Healthy);
}

#[tokio::test]
async fn checks_use_the_same_host_path_and_protocol_as_requests() {
    for (protocol, host, base, expected) in [
        (UpstreamProtocol::Http1, HostHeader::Client, "", "HTTP/1.1 GET /healthz {address}"),
        (
            UpstreamProtocol::Http1,
            HostHeader::Fixed("shop.example".to_owned()),
            "/v1/",
            "HTTP/1.1 GET /v1/healthz shop.example",
        ),
        (
            UpstreamProtocol::Http2,
            HostHeader::Fixed("shop.example".to_owned()),
            "",
            "HTTP/2.0 GET /healthz shop.example",
        ),
        (UpstreamProtocol::Http2, HostHeader::Server, "", "HTTP/2.0 GET /healthz 127.0.0.1"),
    ] {
        let server = CheckedServer::start(200).await;
        let url = format!("{}{base}", server.url());
        let once = HealthCheck { failures: 1, ..check() };
        let run = HealthCheckRun::start(settings::Upstream { health: Some(once), protocol, host, ..plain([url]) });
        run.settled().await;
        assert_eq!(run.health(0), Health::Healthy);
        let expected = expected.replace("{address}", &server.address.to_string());
        assert_eq!(server.state.lock().requests, [expected]);
    }
}

#[tokio::test]
async fn checks_are_spread_after_the_start() {
    let servers = [CheckedServer::start(200).await, CheckedServer::start(200).await, CheckedServer::start(200).await];
    let run = HealthCheckRun::start(settings::Upstream {
        health: Some(check()),
        ..plain(servers.iter().map(CheckedServer::url))
    });
    let counts = || [servers[0].request_count(), servers[1].request_count(), servers[2].request_count()];
    run.settled().await;
    assert_eq!(counts(), [1, 1, 1]);
    for expected in [[2, 1, 1], [2, 2, 1], [2, 2, 2], [3, 2, 2], [3, 3, 2]] {
        run.clock.advance(2 * SECOND);
        run.settled().await;
        assert_eq!(counts(), expected);
    }
}

#[tokio::test]
async fn dropping_the_future_stops_health_checks() {
    let server = CheckedServer::start(200).await;
    let run = HealthCheckRun::start(settings::Upstream { health: Some(check()), ..plain([server.url()]) });
    run.settled().await;
    run.task.abort();
    wait_until(|| run.clock.pending_timers() == 0).await;
    run.clock.advance(60 * SECOND);
    tokio::task::yield_now().await;
    assert_eq!(server.request_count(), 1);
}

#[tokio::test]
async fn without_checks_the_future_never_completes() {
    let run = HealthCheckRun::start(plain(["http://127.0.0.1:1"]));
    with_timeout(tokio::task::yield_now()).await;
    assert!(!run.task.is_finished());
    assert_eq!(run.health(0), Health::Healthy);
}
