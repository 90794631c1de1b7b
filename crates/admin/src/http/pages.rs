//! What describes the rest: the OpenAPI document, the pages to browse it with, and whether all is well.
//!
//! Everything is in the program: no page asks for anything from elsewhere, and the policy it is sent with
//! would not let it.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use utoipa_swagger_ui::Config;

use super::problem::{Kind, Problem};
use super::reply::{self, Reply};
use super::route;

/// The description of the API.
pub(super) const DESCRIPTION: &str = include_str!("openapi.json");

/// What the dashboard may do: nothing but what it is sent from here.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The browser of the description styles its elements one by one and has its pictures in its styles.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

static DOCS: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::new(["/openapi.json"]).validator_url("none").use_base_layout()));

/// The process lives.
pub(super) fn health() -> Reply {
    reply::data(StatusCode::OK, "text/plain; charset=utf-8", "OK\n")
}

/// Whether the process does what it is there for.
pub(super) fn ready(is_stopping: bool, rules: usize) -> Result<Reply, Problem> {
    match (is_stopping, rules) {
        (true, _) => Err(Problem::new(Kind::Unavailable, "it is about to stop: ask another")),
        (false, 0) => Err(Problem::new(Kind::Unavailable, "no rules are in force: look at /v1/status for why")),
        (false, _) => Ok(health()),
    }
}

/// The description of the API.
pub(super) fn description() -> Reply {
    with_policy(reply::data(StatusCode::OK, "application/json", DESCRIPTION), DOCS_POLICY)
}

/// To the folder, which the addresses in its pages are relative to.
pub(super) fn to_docs() -> Reply {
    let mut answer = reply::empty(StatusCode::PERMANENT_REDIRECT);
    answer.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/docs/"));
    answer
}

/// A file to browse the description with.
pub(super) fn docs(file: &str) -> Result<Reply, Problem> {
    let found = utoipa_swagger_ui::serve(file, Arc::clone(&DOCS)).ok().flatten();
    let found = found.ok_or_else(|| route::unknown(&format!("/docs/{file}")))?;
    let bytes = Bytes::from(found.bytes.into_owned());
    let mut reply = with_policy(reply::data(StatusCode::OK, "application/octet-stream", bytes), DOCS_POLICY);
    if let Ok(kind) = HeaderValue::try_from(&*found.content_type) {
        reply.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    Ok(reply)
}

/// The same, with what a browser may do with it.
pub(super) fn with_policy(mut reply: Reply, policy: &'static str) -> Reply {
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    reply
}
