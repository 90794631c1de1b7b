//! `sluicegate health`: whether a running process serves, as an exit code. For containers that hold nothing but this
//! program, and for scripts: the admin API's `/readyz` needs no token.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use thiserror::Error;
use tokio::time::timeout;

use crate::answer::Answer;
use crate::args;
use crate::connect::{Connector, described};
use crate::place::Place;

/// How long the whole question may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer that is read, and the longest reason that is shown, in letters.
const LONGEST_ANSWER: usize = 64 << 10;
const LONGEST_REASON: usize = 300;

/// Why a process cannot be said to serve.
#[derive(Debug, Error)]
enum Ill {
    #[error("it cannot be asked: {0}")]
    Unreachable(String),
    #[error("it has not answered within {} s", PATIENCE.as_secs())]
    Silent,
    #[error("it is not ready: {0}")]
    NotReady(String),
}

pub(crate) fn run(args: &args::Health) -> Answer {
    let place = &args.url;
    match asked(place) {
        Ok(()) => Answer::done(format!("{place} is ready\n")),
        Err(ill) => Answer::failed(&format!("{place}: {ill}")),
    }
}

fn asked(place: &Place) -> Result<(), Ill> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Ill::Unreachable(error.to_string()))?;
    let asked = runtime.block_on(async { timeout(PATIENCE, ask(place)).await.unwrap_or(Err(Ill::Silent)) });
    // A name that is still being looked up is not waited for.
    runtime.shutdown_background();
    asked
}

async fn ask(place: &Place) -> Result<(), Ill> {
    let unreachable = |error: hyper::Error| Ill::Unreachable(error.to_string());
    let connector = Connector::new(place.clone()).map_err(Ill::Unreachable)?;
    let stream = connector.connect().await.map_err(|error| Ill::Unreachable(described(&error)))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
    // How it ends is heard by who waits for the answer.
    tokio::spawn(async move { drop(connection.await) });
    let request = Request::get(format!("{}/readyz", place.path))
        .header(HOST, &place.authority)
        .header(USER_AGENT, concat!("sluicegate-health/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())
        .map_err(|error| Ill::Unreachable(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(unreachable)?;
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(());
    }
    let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
    let reason = body.ok().and_then(|body| reason(&body.to_bytes()));
    Err(Ill::NotReady(reason.unwrap_or_else(|| status.to_string())))
}

/// What a problem document says, fit to be shown: whoever answers may be anybody.
fn reason(body: &[u8]) -> Option<String> {
    let problem: Value = serde_json::from_slice(body).ok()?;
    let detail = problem.get("detail")?.as_str()?;
    Some(detail.chars().filter(|letter| !letter.is_control()).take(LONGEST_REASON).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_fit_to_be_shown() {
        let said = |body: &str| reason(body.as_bytes());
        assert_eq!(said(r#"{"detail":"no rules"}"#).as_deref(), Some("no rules"));
        assert_eq!(said("{\"detail\":\"\\u001b[2Jgone\\r\\n\"}").as_deref(), Some("[2Jgone"));
        let long = format!(r#"{{"detail":"{}"}}"#, "x".repeat(10_000));
        assert_eq!(said(&long).map(|reason| reason.len()), Some(LONGEST_REASON));
        for body in ["", "OK\n", "[]", "{}", r#"{"detail":7}"#, "\u{0}"] {
            assert_eq!(said(body), None, "{body:?}");
        }
    }
}
