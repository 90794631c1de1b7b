//! A server around the service, and shorthands for what is asked of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_config::ratelimit::Domains;

use crate::domains::DomainsInForce;
use sluicegate_engine::adhoc::AdHoc;
use sluicegate_engine::clock::{ClockHandle, ManualClock};
use sluicegate_engine::rule::{Rule, Side, Target};
use sluicegate_engine::{Limit, Sluice};
use sluicegate_http::HeaderStyle;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use crate::Secret;
use crate::rls::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use crate::rls::proto::{Code, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use crate::rls::{Rls, Terms};

/// The longest message in tests.
pub(super) const MAX_REQUEST: usize = 64 << 10;

/// The most descriptors in tests.
pub(super) const MAX_CHECKS: usize = 100;

/// Long enough that only a test that hangs sees it pass.
pub(super) const HANGING: Duration = Duration::from_secs(30);

/// The service, served until dropped.
pub(super) struct Served {
    pub(super) rls: Rls,
    pub(super) sluice: Sluice,
    pub(super) clock: ManualClock,
    pub(super) address: SocketAddr,
    pub(super) client: RateLimitServiceClient<Channel>,
    serving: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What the service is made of.
pub(super) struct Setup {
    pub(super) rules: Vec<Rule>,
    pub(super) file: Option<&'static str>,
    pub(super) secret: Option<Secret>,
    pub(super) style: HeaderStyle,
}

impl Default for Setup {
    fn default() -> Self {
        Self { rules: Vec::new(), file: None, secret: None, style: HeaderStyle::None }
    }
}

/// Serves rules of the rule file.
pub(super) async fn serve(rules: impl Into<Vec<Rule>>) -> Served {
    Setup { rules: rules.into(), ..Setup::default() }.serve().await
}

/// Serves one of the reference's files.
pub(super) async fn serve_file(file: &'static str) -> Served {
    Setup { file: Some(file), ..Setup::default() }.serve().await
}

impl Setup {
    pub(super) async fn serve(self) -> Served {
        let clock = ManualClock::new();
        let (rls, sluice) = self.service(clock.clone().into()).await;
        let (address, serving) = listen(rls.clone()).await;
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        Served { rls, sluice, clock, address, client: RateLimitServiceClient::new(channel), serving }
    }

    pub(super) async fn service(self, clock: ClockHandle) -> (Rls, Sluice) {
        let domains = self.file.map(|file| {
            let parsed = Domains::parse(&[("limits.yaml".to_owned(), file.to_owned())]);
            Arc::new(parsed.unwrap_or_else(|report| panic!("{report:?}")))
        });
        let theirs = domains.iter().flat_map(|domains| domains.rules().iter().cloned());
        let sluice = Sluice::builder().rules(self.rules).rules(theirs).clock(clock.clone()).build().unwrap();
        let windows = Arc::new(AdHoc::new(1_000, clock).unwrap());
        let terms = Terms {
            domains: DomainsInForce::new(domains),
            secret: self.secret,
            style: self.style,
            max_request: MAX_REQUEST,
            pause: Duration::from_secs(30),
            max_checks: MAX_CHECKS,
        };
        (Rls::new(sluice.clone(), windows, terms).await.unwrap(), sluice)
    }
}

/// Serves on a free port.
pub(super) async fn listen(rls: Rls) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, tokio::spawn(accept(listener, rls)))
}

/// Serves whoever comes.
pub(super) async fn accept(listener: TcpListener, rls: Rls) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let served = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), rls.clone());
        connections.spawn(served);
    }
}

/// A rule of the domain `edge`.
pub(super) fn rule(name: &str, limit: Limit) -> Rule {
    let target = Target { service: Some("edge".to_owned()), ..Target::default() };
    Rule { side: Side::Descriptor, target, ..Rule::new(name, [limit]) }
}

/// So many per minute, by every minute's beginning.
pub(super) fn per_minute(requests: u64) -> Limit {
    let minute = Duration::from_secs(60);
    Limit::fixed_window(requests, minute, sluicegate_engine::algorithm::Alignment::Epoch).unwrap()
}

/// A descriptor of these entries.
pub(super) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entries = entries.iter().map(|(key, value)| Entry { key: (*key).to_owned(), value: (*value).to_owned() });
    RateLimitDescriptor { entries: entries.collect(), ..RateLimitDescriptor::default() }
}

/// A request by these descriptors.
pub(super) fn request(domain: &str, descriptors: impl Into<Vec<RateLimitDescriptor>>) -> RateLimitRequest {
    RateLimitRequest { domain: domain.to_owned(), descriptors: descriptors.into(), hits_addend: 0 }
}

impl Served {
    /// Asks.
    pub(super) async fn ask(&self, request: RateLimitRequest) -> RateLimitResponse {
        self.client.clone().should_rate_limit(request).await.unwrap().into_inner()
    }

    /// Asks for what is wrong.
    pub(super) async fn refused(&self, request: RateLimitRequest) -> tonic::Status {
        self.client.clone().should_rate_limit(request).await.unwrap_err()
    }

    /// Asks by one descriptor of the domain `edge`, and tells whether it is admitted and what is left.
    pub(super) async fn once(&self, descriptor: RateLimitDescriptor) -> (Code, u32) {
        let response = self.ask(request("edge", [descriptor])).await;
        (response.overall_code(), response.statuses[0].limit_remaining)
    }
}

/// The codes of all descriptors.
pub(super) fn codes(response: &RateLimitResponse) -> Vec<Code> {
    response.statuses.iter().map(|status| status.code()).collect()
}

/// A field of the metadata, as JSON.
pub(super) fn metadata(response: &RateLimitResponse) -> serde_json::Value {
    let text = crate::rls::json::text(response);
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["dynamicMetadata"].take()
}

/// All headers that are added to the answer.
pub(super) fn headers(response: &RateLimitResponse) -> Vec<(&str, &str)> {
    response.response_headers_to_add.iter().map(|header| (header.key.as_str(), header.value.as_str())).collect()
}

/// A header that is added to the answer.
pub(super) fn header<'a>(response: &'a RateLimitResponse, name: &str) -> Option<&'a str> {
    response.response_headers_to_add.iter().find(|header| header.key == name).map(|header| header.value.as_str())
}
