//! Active health checks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_config::settings::{HealthCheck, UpstreamProtocol};
use sluicegate_engine::clock::ClockHandle;
use thiserror::Error;
use tokio::task::JoinSet;

use super::balance::Upstream;
use super::connect::with_deadline;
use super::error::{ConnectError, UpstreamError};
use super::health::{HealthStreak, HealthTransition};
use super::server::Server;

/// `User-Agent` of health checks.
const HEALTH_CHECK_USER_AGENT: HeaderValue = HeaderValue::from_static("sluicegate-health");

/// Reason for a failed health check.
#[derive(Debug, Error)]
enum HealthCheckError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("invalid response: {0}")]
    Http(#[from] hyper::Error),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("no response within {} ms", .0.as_millis())]
    Timeout(Duration),
}

/// Health checker of one server.
pub(super) struct HealthChecker {
    server: Arc<Server>,
    check: HealthCheck,
    protocol: UpstreamProtocol,
    uri: Uri,
    host: HeaderValue,
    clock: ClockHandle,
}

impl HealthChecker {
    /// Creates the checker of a server. Without a client's `Host` to forward, it sends the server's own.
    pub(super) fn new(
        upstream: &Upstream,
        check: &HealthCheck,
        server: &Arc<Server>,
        clock: &ClockHandle,
    ) -> Result<Self, UpstreamError> {
        let host = upstream.host(server).unwrap_or(server.host());
        let settings = upstream.settings();
        let path = format!("{}{}", server.base_path(), check.path);
        let uri = path.parse::<PathAndQuery>().ok().filter(|_| check.path.starts_with('/'));
        let uri = uri.and_then(|path| match settings.protocol {
            UpstreamProtocol::Http1 => Some(Uri::from(path)),
            // HTTP/2 sends host and scheme as parts of the URI.
            UpstreamProtocol::Http2 => Uri::builder()
                .scheme(if server.is_tls() { "https" } else { "http" })
                .authority(host.as_bytes())
                .path_and_query(path)
                .build()
                .ok(),
        });
        Ok(Self {
            uri: uri.ok_or_else(|| UpstreamError::Unsendable {
                upstream: settings.name.clone(),
                field: "health.path",
                value: check.path.clone(),
                remedy: "write a path such as /healthz",
            })?,
            server: Arc::clone(server),
            check: check.clone(),
            protocol: settings.protocol,
            host: host.clone(),
            clock: clock.clone(),
        })
    }

    /// Checks immediately, again after `initial_delay`, and then at the configured interval, without end.
    ///
    /// `initial_delay` spreads the checks: all servers are checked at the start, but not all at once later.
    pub(super) async fn run(self, initial_delay: Duration) {
        let mut streak = HealthStreak::default();
        let mut interval = initial_delay;
        loop {
            let started_at = self.clock.now();
            self.record(&mut streak, self.probe().await);
            self.clock.sleep_until(started_at + interval).await;
            interval = self.check.interval;
        }
    }

    /// The check interval.
    pub(super) fn every(&self) -> Duration {
        self.check.interval
    }

    fn record(&self, streak: &mut HealthStreak, result: Result<(), HealthCheckError>) {
        match (streak.record(result.is_ok(), &self.check), result) {
            (Some(HealthTransition::Unhealthy), Err(error)) => self.server.health.mark_unhealthy(error.to_string()),
            (Some(HealthTransition::Healthy), _) => {
                // A recovered server starts afresh: earlier failures no longer count.
                self.server.outlier.record_success();
                self.server.health.mark_healthy();
            }
            _ => {}
        }
    }

    async fn probe(&self) -> Result<(), HealthCheckError> {
        let deadline = self.clock.now() + self.check.timeout;
        match with_deadline(&self.clock, deadline, self.request_status()).await {
            Some(Ok(status)) if status.is_success() || status.is_redirection() => Ok(()),
            Some(Ok(status)) => Err(HealthCheckError::Status(status)),
            Some(Err(error)) => Err(error),
            None => Err(HealthCheckError::Timeout(self.check.timeout)),
        }
    }

    /// Sends the check on a connection of its own, which is closed afterwards.
    async fn request_status(&self) -> Result<StatusCode, HealthCheckError> {
        let io = TokioIo::new(self.server.connect().await?);
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = self.uri.clone();
        request.headers_mut().insert(USER_AGENT, HEALTH_CHECK_USER_AGENT);
        // Aborted on drop.
        let mut driver = JoinSet::new();
        let response = match self.protocol {
            UpstreamProtocol::Http1 => {
                request.headers_mut().insert(HOST, self.host.clone());
                let (mut sender, connection) = http1::handshake(io).await?;
                driver.spawn(connection);
                sender.send_request(request).await?
            }
            UpstreamProtocol::Http2 => {
                let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
                driver.spawn(connection);
                sender.send_request(request).await?
            }
        };
        Ok(response.status())
    }
}
