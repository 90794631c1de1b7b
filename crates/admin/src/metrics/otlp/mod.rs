//! OTLP metrics exporter: pushes metrics over HTTP with protobuf.
//!
//! Values are cumulative, so a failed push loses nothing: the next one covers the time in between. Of the
//! OpenTelemetry crates only the messages are used: everything is already counted, and the SDK would merge rules
//! beyond two thousand series.

mod encode;

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use prost::Message;
use sluicegate_config::settings;
use sluicegate_http_client::{Endpoint, UrlErrorHints};
use thiserror::Error;
use tokio::net::TcpStream;

use super::gather;
use crate::providers::Providers;
use encode::TimeRange;

/// Default path of the collector.
const METRICS_PATH: &str = "/v1/metrics";

/// Maximum duration of a push.
const PUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// The collector endpoint is invalid.
#[derive(Debug, Error)]
#[error("admin.otlp: invalid collector '{endpoint}': {reason}")]
pub struct OtlpError {
    endpoint: String,
    reason: String,
}

const URL_HINTS: UrlErrorHints =
    UrlErrorHints { example: "http://127.0.0.1:4318", secret: "credentials in the URL are not supported" };

/// Error of a push.
#[derive(Debug, Error)]
enum PushError {
    #[error("connection failed: {0}")]
    Unreachable(#[from] std::io::Error),
    #[error("connection lost: {0}")]
    Broken(#[from] hyper::Error),
    #[error("response status {0}")]
    Refused(StatusCode),
    #[error("no response within {0:?}")]
    Timeout(Duration),
}

/// Pushes metrics at a fixed interval.
#[derive(Clone, Debug)]
pub(crate) struct OtlpExporter {
    collector: Endpoint,
    path: String,
    interval: Duration,
    since: SystemTime,
}

impl OtlpExporter {
    pub(crate) fn new(settings: &settings::Otlp) -> Result<Self, OtlpError> {
        let invalid = |reason| OtlpError { endpoint: settings.endpoint.clone(), reason };
        if !settings.endpoint.starts_with("http://") {
            return Err(invalid("use a URL that starts with http://".to_owned()));
        }
        let collector = Endpoint::parse(&settings.endpoint, &URL_HINTS).map_err(invalid)?;
        let path = match collector.path.as_str() {
            "/" | "" => METRICS_PATH.to_owned(),
            path if path.ends_with(METRICS_PATH) => path.to_owned(),
            path => format!("{}{METRICS_PATH}", path.trim_end_matches('/')),
        };
        Ok(Self { collector, path, interval: settings.interval, since: SystemTime::now() })
    }

    /// Pushes forever. `notify` is called on the first failure, and on recovery.
    pub(crate) async fn run(&self, sources: &Providers, notify: &(dyn Fn(&str) + Send + Sync)) {
        let clock = sources.sluice.clock();
        let authority = &self.collector.authority;
        let mut is_failing = false;
        loop {
            clock.sleep(self.interval).await;
            let pushed = tokio::select! {
                biased;
                pushed = self.push(sources) => pushed,
                () = async { clock.sleep(PUSH_TIMEOUT).await } => Err(PushError::Timeout(PUSH_TIMEOUT)),
            };
            match &pushed {
                Ok(()) if is_failing => notify(&format!("metrics push to {authority} recovered")),
                Err(error) if !is_failing => notify(&format!("metrics push to {authority} failed: {error}")),
                _ => {}
            }
            is_failing = pushed.is_err();
        }
    }

    async fn push(&self, sources: &Providers) -> Result<(), PushError> {
        let message =
            encode::export_request(gather::gather_all(sources), TimeRange::new(self.since, SystemTime::now()));
        let body = Full::new(Bytes::from(message.encode_to_vec()));
        let request = Request::post(&self.path)
            .header(header::HOST, &self.collector.authority)
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header(header::USER_AGENT, concat!("sluicegate/", env!("CARGO_PKG_VERSION")))
            .body(body)
            // Its parts were parsed as a URI before.
            .map_err(std::io::Error::other)?;
        let stream = TcpStream::connect((self.collector.host.as_str(), self.collector.port)).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let exchange = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            if status.is_success() { Ok(()) } else { Err(PushError::Refused(status)) }
        };
        tokio::select! {
            biased;
            result = exchange => result,
            closed = connection => Err(closed.err().map_or_else(
                || PushError::Unreachable(std::io::ErrorKind::UnexpectedEof.into()),
                PushError::Broken,
            )),
        }
    }
}
