//! A test server for the service, and request helpers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_import::envoy_ratelimit::Domains;

use crate::active_domains::ActiveDomains;
use sluicegate_engine::adhoc::AdHoc;
use sluicegate_engine::clock::{ClockHandle, ManualClock};
use sluicegate_engine::rule::{Direction, Rule, Target};
use sluicegate_engine::{Limit, Sluice};
use sluicegate_http_adapter::HeaderStyle;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use crate::Secret;
use crate::rls::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use crate::rls::proto::{Code, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use crate::rls::{Rls, RlsConfig};

/// Maximum message size in tests.
pub(super) const MAX_REQUEST: usize = 64 << 10;

/// Maximum number of descriptors in tests.
pub(super) const MAX_CHECKS: usize = 100;

/// Timeout that only a hanging test reaches.
pub(super) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A server for the service; stops when dropped.
pub(super) struct RlsTestServer {
    pub(super) rls: Rls,
    pub(super) sluice: Sluice,
    pub(super) clock: ManualClock,
    pub(super) address: SocketAddr,
    pub(super) client: RateLimitServiceClient<Channel>,
    serving: JoinHandle<()>,
}

impl Drop for RlsTestServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Configuration of a test server.
pub(super) struct RlsTestSetup {
    pub(super) rules: Vec<Rule>,
    pub(super) file: Option<&'static str>,
    pub(super) secret: Option<Secret>,
    pub(super) style: HeaderStyle,
}

impl Default for RlsTestSetup {
    fn default() -> Self {
        Self { rules: Vec::new(), file: None, secret: None, style: HeaderStyle::None }
    }
}

/// Serves rules of the rule file.
pub(super) async fn serve(rules: impl Into<Vec<Rule>>) -> RlsTestServer {
    RlsTestSetup { rules: rules.into(), ..RlsTestSetup::default() }.serve().await
}

/// Serves a ratelimit configuration file.
pub(super) async fn serve_file(file: &'static str) -> RlsTestServer {
    RlsTestSetup { file: Some(file), ..RlsTestSetup::default() }.serve().await
}

impl RlsTestSetup {
    pub(super) async fn serve(self) -> RlsTestServer {
        let clock = ManualClock::new();
        let (rls, sluice) = self.service(clock.clone().into()).await;
        let (address, serving) = listen(rls.clone()).await;
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        RlsTestServer { rls, sluice, clock, address, client: RateLimitServiceClient::new(channel), serving }
    }

    pub(super) async fn service(self, clock: ClockHandle) -> (Rls, Sluice) {
        let domains = self.file.map(|file| {
            let parsed = Domains::parse(&[("limits.yaml".to_owned(), file.to_owned())]);
            Arc::new(parsed.unwrap_or_else(|report| panic!("{report:?}")))
        });
        let domain_rules = domains.iter().flat_map(|domains| domains.rules().iter().cloned());
        let sluice = Sluice::builder().rules(self.rules).rules(domain_rules).clock(clock.clone()).build().unwrap();
        let windows = Arc::new(AdHoc::new(1_000, clock).unwrap());
        let config = RlsConfig {
            domains: ActiveDomains::new(domains),
            secret: self.secret,
            style: self.style,
            max_request_size: MAX_REQUEST,
            read_timeout: Duration::from_secs(30),
            max_checks: MAX_CHECKS,
        };
        (Rls::new(sluice.clone(), windows, config).await.unwrap(), sluice)
    }
}

/// Serves on a free port.
pub(super) async fn listen(rls: Rls) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, tokio::spawn(accept(listener, rls)))
}

/// Serves all connections.
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
    Rule { direction: Direction::Descriptor, target, ..Rule::new(name, [limit]) }
}

/// A fixed window of one minute.
pub(super) fn per_minute(requests: u64) -> Limit {
    let minute = Duration::from_secs(60);
    Limit::fixed_window(requests, minute, sluicegate_engine::algorithm::Alignment::Epoch).unwrap()
}

/// A descriptor with these entries.
pub(super) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entries = entries.iter().map(|(key, value)| Entry { key: (*key).to_owned(), value: (*value).to_owned() });
    RateLimitDescriptor { entries: entries.collect(), ..RateLimitDescriptor::default() }
}

/// A request with these descriptors.
pub(super) fn request(domain: &str, descriptors: impl Into<Vec<RateLimitDescriptor>>) -> RateLimitRequest {
    RateLimitRequest { domain: domain.to_owned(), descriptors: descriptors.into(), hits_addend: 0 }
}

impl RlsTestServer {
    /// Sends a request.
    pub(super) async fn call(&self, request: RateLimitRequest) -> RateLimitResponse {
        self.client.clone().should_rate_limit(request).await.unwrap().into_inner()
    }

    /// Sends a request that must fail.
    pub(super) async fn call_error(&self, request: RateLimitRequest) -> tonic::Status {
        self.client.clone().should_rate_limit(request).await.unwrap_err()
    }

    /// Sends one descriptor in the domain `edge`; returns its code and the remaining quota.
    pub(super) async fn check_one(&self, descriptor: RateLimitDescriptor) -> (Code, u32) {
        let response = self.call(request("edge", [descriptor])).await;
        (response.overall_code(), response.statuses[0].limit_remaining)
    }
}

/// The codes of all descriptors.
pub(super) fn codes(response: &RateLimitResponse) -> Vec<Code> {
    response.statuses.iter().map(|status| status.code()).collect()
}

/// The dynamic metadata as JSON.
pub(super) fn metadata(response: &RateLimitResponse) -> serde_json::Value {
    let text = crate::rls::json::text(response);
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["dynamicMetadata"].take()
}

/// All headers added to the response.
pub(super) fn headers(response: &RateLimitResponse) -> Vec<(&str, &str)> {
    response.response_headers_to_add.iter().map(|header| (header.key.as_str(), header.value.as_str())).collect()
}

/// A header added to the response.
pub(super) fn header<'a>(response: &'a RateLimitResponse, name: &str) -> Option<&'a str> {
    response.response_headers_to_add.iter().find(|header| header.key == name).map(|header| header.value.as_str())
}
