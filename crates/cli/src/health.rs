//! `sluicegate health`: readiness check with an exit code, for containers that contain only this program and for
//! scripts. The admin API's `/readyz` needs no token.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sluicegate_http_client::{Connector, Endpoint, error_text};
use sluicegate_terminal::CommandOutput;
use thiserror::Error;
use tokio::time::timeout;

use crate::args;

/// Timeout of the complete check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum response size in bytes, and maximum length of a shown reason in characters.
const MAX_RESPONSE_BYTES: usize = 64 << 10;
const MAX_REASON_CHARS: usize = 300;

/// Reason that a process is not ready.
#[derive(Debug, Error)]
enum HealthError {
    #[error("unreachable: {0}")]
    Unreachable(String),
    #[error("no response within {} s", CHECK_TIMEOUT.as_secs())]
    Timeout,
    #[error("not ready: {0}")]
    NotReady(String),
}

pub(crate) fn run(args: &args::Health) -> CommandOutput {
    let endpoint = &args.url;
    match check_blocking(endpoint) {
        Ok(()) => CommandOutput::done(format!("{endpoint} is ready\n")),
        Err(error) => CommandOutput::failed(&format!("{endpoint}: {error}")),
    }
}

fn check_blocking(endpoint: &Endpoint) -> Result<(), HealthError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| HealthError::Unreachable(error.to_string()))?;
    let result =
        runtime.block_on(async { timeout(CHECK_TIMEOUT, check(endpoint)).await.unwrap_or(Err(HealthError::Timeout)) });
    // A DNS lookup still in progress is not awaited.
    runtime.shutdown_background();
    result
}

async fn check(endpoint: &Endpoint) -> Result<(), HealthError> {
    let unreachable = |error: hyper::Error| HealthError::Unreachable(error.to_string());
    let connector = Connector::new(endpoint.clone()).map_err(HealthError::Unreachable)?;
    let stream = connector.connect().await.map_err(|error| HealthError::Unreachable(error_text(&error)))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
    // Connection errors reach the task that awaits the response.
    tokio::spawn(async move { drop(connection.await) });
    let request = Request::get(format!("{}/readyz", endpoint.path))
        .header(HOST, &endpoint.authority)
        .header(USER_AGENT, concat!("sluicegate-health/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())
        .map_err(|error| HealthError::Unreachable(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(unreachable)?;
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(());
    }
    let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
    let reason = body.ok().and_then(|body| reason(&body.to_bytes()));
    Err(HealthError::NotReady(reason.unwrap_or_else(|| status.to_string())))
}

/// Extracts the detail of a problem document and sanitizes it: the server is not trusted.
fn reason(body: &[u8]) -> Option<String> {
    let problem: Value = serde_json::from_slice(body).ok()?;
    let detail = problem.get("detail")?.as_str()?;
    Some(detail.chars().filter(|letter| !letter.is_control()).take(MAX_REASON_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_sanitized() {
        let reason_of = |body: &str| reason(body.as_bytes());
        assert_eq!(reason_of(r#"{"detail":"no rules"}"#).as_deref(), Some("no rules"));
        assert_eq!(reason_of("{\"detail\":\"\\u001b[2Jgone\\r\\n\"}").as_deref(), Some("[2Jgone"));
        let long = format!(r#"{{"detail":"{}"}}"#, "x".repeat(10_000));
        assert_eq!(reason_of(&long).map(|reason| reason.len()), Some(MAX_REASON_CHARS));
        for body in ["", "OK\n", "[]", "{}", r#"{"detail":7}"#, "\u{0}"] {
            assert_eq!(reason_of(body), None, "{body:?}");
        }
    }
}
