//! Metrics, pushed to a collector of OpenTelemetry: OTLP over HTTP, in protobuf.
//!
//! Values are totals, so a push that fails loses nothing: the next one tells of the time in between too. The SDK of
//! OpenTelemetry is not needed for it, as nothing is to be gathered that is not counted already; and it would stop
//! telling rules apart at two thousand series.

pub(crate) mod message;
mod rendered;

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use prost::Message;
use sluicegate_config::settings;
use thiserror::Error;
use tokio::net::TcpStream;

use super::reading;
use crate::sources::Sources;
use rendered::Span;

/// Where metrics are taken, if only the collector is named.
const PATH: &str = "/v1/metrics";

/// The longest that a push may take.
const LONGEST: Duration = Duration::from_secs(10);

/// Why a collector cannot be pushed to.
#[derive(Debug, Error)]
#[error("admin.otlp: '{endpoint}' is no collector: name one such as http://127.0.0.1:4318")]
pub struct OtlpError {
    endpoint: String,
}

/// Why a push failed.
#[derive(Debug, Error)]
enum PushError {
    #[error("it cannot be reached: {0}")]
    Unreachable(#[from] std::io::Error),
    #[error("the connection broke: {0}")]
    Broken(#[from] hyper::Error),
    #[error("it answered {0}")]
    Refused(StatusCode),
    #[error("it did not answer within {0:?}")]
    Late(Duration),
}

/// Pushes metrics, every so often.
#[derive(Clone, Debug)]
pub(crate) struct Push {
    host: String,
    port: u16,
    /// As requests name the collector.
    authority: String,
    path: String,
    every: Duration,
    since: SystemTime,
}

impl Push {
    pub(crate) fn new(settings: &settings::Otlp) -> Result<Self, OtlpError> {
        let wrong = || OtlpError { endpoint: settings.endpoint.clone() };
        let uri: Uri = settings.endpoint.parse().map_err(|_| wrong())?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http")).ok_or_else(wrong)?;
        let path = match uri.path() {
            "/" | "" => PATH.to_owned(),
            path if path.ends_with(PATH) => path.to_owned(),
            path => format!("{}{PATH}", path.trim_end_matches('/')),
        };
        Ok(Self {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(80),
            authority: authority.to_string(),
            path,
            every: settings.every,
            since: SystemTime::now(),
        })
    }

    /// Pushes for ever. `tell` hears when that begins to fail, and when it works again.
    pub(crate) async fn run(&self, sources: &Sources, tell: &(dyn Fn(&str) + Send + Sync)) {
        let clock = sources.sluice.clock();
        let mut is_failing = false;
        loop {
            clock.sleep(self.every).await;
            let pushed = tokio::select! {
                biased;
                pushed = self.push(sources) => pushed,
                () = async { clock.sleep(LONGEST).await } => Err(PushError::Late(LONGEST)),
            };
            match &pushed {
                Ok(()) if is_failing => tell(&format!("metrics are pushed to {} again", self.authority)),
                Err(error) if !is_failing => tell(&format!("metrics cannot be pushed to {}: {error}", self.authority)),
                _ => {}
            }
            is_failing = pushed.is_err();
        }
    }

    async fn push(&self, sources: &Sources) -> Result<(), PushError> {
        let message = rendered::request(reading::all(sources), Span::new(self.since, SystemTime::now()));
        let body = Full::new(Bytes::from(message.encode_to_vec()));
        let request = Request::post(&self.path)
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header(header::USER_AGENT, concat!("sluicegate/", env!("CARGO_PKG_VERSION")))
            .body(body)
            // Parts of it were a URI before.
            .map_err(std::io::Error::other)?;
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let asking = async {
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            if status.is_success() { Ok(()) } else { Err(PushError::Refused(status)) }
        };
        tokio::select! {
            biased;
            answered = asking => answered,
            ended = connection => Err(ended.err().map_or_else(
                || PushError::Unreachable(std::io::ErrorKind::UnexpectedEof.into()),
                PushError::Broken,
            )),
        }
    }
}
