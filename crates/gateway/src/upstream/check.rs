//! Asks a server whether it is well.

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
use super::connect::before;
use super::error::{ConnectError, UpstreamError};
use super::server::Server;
use super::watched::{Tally, Turn};

/// Who asks.
const AGENT: HeaderValue = HeaderValue::from_static("sluicegate-health");

/// Why a server is not well.
#[derive(Debug, Error)]
enum Fault {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("no proper answer: {0}")]
    Http(#[from] hyper::Error),
    #[error("answered {0}")]
    Status(StatusCode),
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
}

/// The health check of one server.
pub(super) struct Checker {
    server: Arc<Server>,
    check: HealthCheck,
    protocol: UpstreamProtocol,
    uri: Uri,
    host: HeaderValue,
    clock: ClockHandle,
}

impl Checker {
    /// The check of a server of this upstream. There is no client whose `Host` could be sent: then it is the
    /// server's own.
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
            // There, host and scheme are sent as parts of the URL.
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

    /// Asks at once, then again after `lag`, and from then on at the set pace. For ever.
    ///
    /// `lag` is what spreads the servers: all are asked at the start, but never again all at once.
    pub(super) async fn run(self, lag: Duration) {
        let mut tally = Tally::default();
        let mut pace = lag;
        loop {
            let begun = self.clock.now();
            self.note(&mut tally, self.ask().await);
            self.clock.sleep_until(begun + pace).await;
            pace = self.check.every;
        }
    }

    /// How often it asks.
    pub(super) fn every(&self) -> Duration {
        self.check.every
    }

    fn note(&self, tally: &mut Tally, result: Result<(), Fault>) {
        match (tally.note(result.is_ok(), &self.check), result) {
            (Some(Turn::Out), Err(fault)) => self.server.watched.take_out(fault.to_string()),
            (Some(Turn::In), _) => {
                // It begins anew: what failed before it was out says nothing now.
                self.server.rests.answered();
                self.server.watched.let_in();
            }
            _ => {}
        }
    }

    async fn ask(&self) -> Result<(), Fault> {
        let deadline = self.clock.now() + self.check.timeout;
        match before(&self.clock, deadline, self.exchange()).await {
            Some(Ok(status)) if status.is_success() || status.is_redirection() => Ok(()),
            Some(Ok(status)) => Err(Fault::Status(status)),
            Some(Err(fault)) => Err(fault),
            None => Err(Fault::Late(self.check.timeout)),
        }
    }

    /// Over a connection of its own, which is closed whatever comes of it.
    async fn exchange(&self) -> Result<StatusCode, Fault> {
        let io = TokioIo::new(self.server.connect().await?);
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = self.uri.clone();
        request.headers_mut().insert(USER_AGENT, AGENT);
        // Aborted when dropped.
        let mut driver = JoinSet::new();
        let answer = match self.protocol {
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
        Ok(answer.status())
    }
}
