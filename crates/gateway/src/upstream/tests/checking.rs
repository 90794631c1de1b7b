//! Health checks of real servers that change their mind.

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

use super::super::{Health, Tried, Upstreams};
use super::{in_time, plain, until, upstreams};

const SECOND: Duration = Duration::from_secs(1);

/// A server that answers with whatever status it is told to, and remembers what it was asked.
struct Patient {
    address: SocketAddr,
    told: Arc<Mutex<Told>>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Told {
    /// `None`: no answer at all.
    status: Option<u16>,
    asked: Vec<String>,
    under_way: usize,
    most_under_way: usize,
}

/// A request that is not answered yet.
struct UnderWay(Arc<Mutex<Told>>);

impl UnderWay {
    fn begin(told: &Arc<Mutex<Told>>, request: &Request<Incoming>) -> Self {
        let mut state = told.lock();
        let host = request.headers().get("host").map(|host| host.to_str().unwrap());
        let host = host.or(request.uri().host()).unwrap_or("nobody");
        let asked = format!("{:?} {} {} {host}", request.version(), request.method(), request.uri().path());
        state.asked.push(asked);
        state.under_way += 1;
        state.most_under_way = state.most_under_way.max(state.under_way);
        Self(Arc::clone(told))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
    }
}

impl Patient {
    async fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let told = Arc::new(Mutex::new(Told { status: Some(status), ..Told::default() }));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&told)));
        Self { address, told, _serving: serving }
    }

    fn tell(&self, status: Option<u16>) {
        self.told.lock().status = status;
    }

    fn asked(&self) -> usize {
        self.told.lock().asked.len()
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn serve(listener: TcpListener, told: Arc<Mutex<Told>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let told = Arc::clone(&told);
        let answer = service_fn(move |request: Request<Incoming>| {
            let under_way = UnderWay::begin(&told, &request);
            let status = told.lock().status;
            async move {
                let _under_way = under_way;
                let Some(status) = status else { return std::future::pending().await };
                Ok::<_, Infallible>(Response::builder().status(status).body(Empty::<Bytes>::new()).unwrap())
            }
        });
        connections.spawn(async move {
            // A client may go away at any time.
            drop(auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await);
        });
    }
}

fn check() -> HealthCheck {
    HealthCheck { every: 6 * SECOND, timeout: SECOND, failures: 3, successes: 2, ..HealthCheck::new("/healthz") }
}

/// Upstreams that are watched.
struct Watch {
    clock: ManualClock,
    upstreams: Arc<Upstreams>,
    watching: JoinHandle<()>,
}

impl Watch {
    fn begin(settings: settings::Upstream) -> Self {
        let clock = ManualClock::new();
        let upstreams = Arc::new(upstreams(settings, clock.clone()));
        let watching = tokio::spawn({
            let upstreams = Arc::clone(&upstreams);
            async move { upstreams.watch_health().await }
        });
        Self { clock, upstreams, watching }
    }

    /// Waits until all checks are done and the next ones are waited for, at this moment at the earliest.
    async fn settled(&self) {
        let servers = self.upstreams.get(0).servers().len();
        // A check under way has an alarm too, but for its timeout, and another for its connection's.
        until(|| {
            let next = self.clock.next_alarm().is_some_and(|at| at > self.clock.now() + SECOND);
            next && self.clock.alarms() == servers
        })
        .await;
    }

    /// Lets the only server be asked once more.
    async fn once_more(&self) {
        self.settled().await;
        self.clock.advance(6 * SECOND);
        self.settled().await;
    }

    fn health(&self, server: usize) -> Health {
        self.upstreams.status()[0].servers[server].health.clone()
    }

    fn is_to_be_had(&self) -> bool {
        self.upstreams.get(0).pick(&Tried::default()).is_some()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

#[tokio::test]
async fn out_after_failures_and_in_after_successes() {
    let patient = Patient::start(204).await;
    let watch = Watch::begin(settings::Upstream { health: Some(check()), ..plain([patient.url()]) });
    watch.settled().await;
    assert_eq!((patient.asked(), watch.health(0)), (1, Health::Well), "asked at once at the start");
    patient.tell(Some(503));
    watch.once_more().await;
    watch.once_more().await;
    assert!(watch.is_to_be_had(), "two failures are not three");
    watch.once_more().await;
    assert_eq!(watch.health(0).to_string(), "out: answered 503 Service Unavailable");
    assert!(!watch.is_to_be_had());
    patient.tell(Some(302));
    watch.once_more().await;
    assert!(!watch.is_to_be_had(), "one success is not two");
    watch.once_more().await;
    assert_eq!((patient.asked(), watch.health(0)), (6, Health::Well));
    assert!(watch.is_to_be_had());
}

#[tokio::test]
async fn who_does_not_answer_in_time_is_not_well() {
    let patient = Patient::start(200).await;
    let once = HealthCheck { failures: 1, successes: 1, ..check() };
    let watch = Watch::begin(settings::Upstream { health: Some(once), ..plain([patient.url()]) });
    watch.settled().await;
    patient.tell(None);
    watch.clock.advance(6 * SECOND);
    until(|| patient.told.lock().under_way == 1).await;
    assert!(watch.is_to_be_had());
    watch.clock.advance(SECOND);
    until(|| !watch.is_to_be_had()).await;
    assert_eq!(watch.health(0).to_string(), "out: no answer within 1000 ms");
    until(|| patient.told.lock().under_way == 0).await;
    patient.tell(Some(200));
    until(|| watch.clock.alarms() == 1).await;
    watch.clock.advance(5 * SECOND);
    until(|| watch.is_to_be_had()).await;
    assert_eq!(patient.told.lock().most_under_way, 1, "never two checks of one server at a time");
}

#[tokio::test]
async fn the_connection_of_a_check_is_closed_when_its_time_is_up() {
    for protocol in [UpstreamProtocol::Http1, UpstreamProtocol::Http2] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let watch = Watch::begin(settings::Upstream { health: Some(check()), protocol, ..plain([url]) });
        let (mut silent, _) = in_time(listener.accept()).await.unwrap();
        in_time(silent.read_u8()).await.unwrap();
        watch.clock.advance(SECOND);
        in_time(silent.read_to_end(&mut Vec::new())).await.unwrap();
    }
}

#[tokio::test]
async fn who_answers_with_nonsense_is_not_well() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let once = HealthCheck { failures: 1, ..check() };
    let watch = Watch::begin(settings::Upstream { health: Some(once), ..plain([url]) });
    let (mut babbling, _) = in_time(listener.accept()).await.unwrap();
    in_time(babbling.read_u8()).await.unwrap();
    babbling.write_all(b"\0\xff nonsense\r\n\r\n").await.unwrap();
    until(|| !watch.is_to_be_had()).await;
    let said = watch.health(0).to_string();
    assert!(said.starts_with("out: no proper answer: "), "{said}");
}

#[tokio::test]
async fn who_is_not_there_is_not_well() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let patient = Patient::start(200).await;
    let once = HealthCheck { failures: 1, ..check() };
    let urls = [format!("http://{nobody}"), patient.url()];
    let watch = Watch::begin(settings::Upstream { health: Some(once), ..plain(urls) });
    watch.settled().await;
    let said = watch.health(0).to_string();
    assert!(said.starts_with(&format!("out: cannot connect to {nobody}: Connection refused")), "{said}");
    let upstream = watch.upstreams.get(0);
    let picked = (0..10).map(|_| upstream.pick(&Tried::default()).unwrap().server().position());
    assert!(picked.into_iter().all(|position| position == 1));
}

#[tokio::test]
async fn who_is_let_in_again_does_not_rest_for_what_was_before() {
    let patient = Patient::start(500).await;
    let once = HealthCheck { failures: 1, successes: 1, ..check() };
    let watch = Watch::begin(settings::Upstream { health: Some(once), ..plain([patient.url()]) });
    let attempt = watch.upstreams.get(0).pick(&Tried::default()).unwrap();
    (0..3).for_each(|_| attempt.failed());
    watch.settled().await;
    assert!(matches!(watch.health(0), Health::Out { .. }));
    patient.tell(Some(200));
    watch.once_more().await;
    assert_eq!(watch.health(0), Health::Well);
}

#[tokio::test]
async fn asked_as_requests_are_sent() {
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
        let patient = Patient::start(200).await;
        let url = format!("{}{base}", patient.url());
        let once = HealthCheck { failures: 1, ..check() };
        let watch = Watch::begin(settings::Upstream { health: Some(once), protocol, host, ..plain([url]) });
        watch.settled().await;
        assert_eq!(watch.health(0), Health::Well);
        let expected = expected.replace("{address}", &patient.address.to_string());
        assert_eq!(patient.told.lock().asked, [expected]);
    }
}

#[tokio::test]
async fn servers_are_not_asked_all_at_once_after_the_start() {
    let patients = [Patient::start(200).await, Patient::start(200).await, Patient::start(200).await];
    let watch = Watch::begin(settings::Upstream { health: Some(check()), ..plain(patients.iter().map(Patient::url)) });
    let asked = || [patients[0].asked(), patients[1].asked(), patients[2].asked()];
    watch.settled().await;
    assert_eq!(asked(), [1, 1, 1]);
    for expected in [[2, 1, 1], [2, 2, 1], [2, 2, 2], [3, 2, 2], [3, 3, 2]] {
        watch.clock.advance(2 * SECOND);
        watch.settled().await;
        assert_eq!(asked(), expected);
    }
}

#[tokio::test]
async fn dropping_the_watch_stops_it() {
    let patient = Patient::start(200).await;
    let watch = Watch::begin(settings::Upstream { health: Some(check()), ..plain([patient.url()]) });
    watch.settled().await;
    watch.watching.abort();
    until(|| watch.clock.alarms() == 0).await;
    watch.clock.advance(60 * SECOND);
    tokio::task::yield_now().await;
    assert_eq!(patient.asked(), 1);
}

#[tokio::test]
async fn without_checks_watching_never_ends() {
    let watch = Watch::begin(plain(["http://127.0.0.1:1"]));
    in_time(tokio::task::yield_now()).await;
    assert!(!watch.watching.is_finished());
    assert_eq!(watch.health(0), Health::Well);
}
