//! OpenAPI document, Swagger UI, and health checks.
//!
//! Everything is embedded in the binary: no page loads anything from elsewhere, and the content security policy
//! forbids it.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use utoipa_swagger_ui::Config;

use super::openapi;
use super::problem::{Problem, ProblemKind};
use super::reply::{self, Reply};
use super::route;

/// OpenAPI document, built at its first use.
pub(super) static OPENAPI: LazyLock<String> = LazyLock::new(openapi::document);

/// Content security policy of the dashboard: only resources of this server.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Content security policy of Swagger UI, which uses inline styles and images in its styles.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

static DOCS: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::new(["/openapi.json"]).validator_url("none").use_base_layout()));

/// Liveness check.
pub(super) fn health() -> Reply {
    reply::data(StatusCode::OK, "text/plain; charset=utf-8", "OK\n")
}

/// Readiness check.
pub(super) fn ready(is_stopping: bool, rules: usize) -> Result<Reply, Problem> {
    match (is_stopping, rules) {
        (true, _) => Err(Problem::new(ProblemKind::Unavailable, "the process is shutting down")),
        (false, 0) => Err(Problem::new(ProblemKind::Unavailable, "no rules are active: see /v1/status")),
        (false, _) => Ok(health()),
    }
}

/// Serves the OpenAPI document.
pub(super) fn openapi() -> Reply {
    with_policy(reply::data(StatusCode::OK, "application/json", OPENAPI.as_str()), DOCS_POLICY)
}

/// Redirects to the directory, which the URLs in its pages are relative to.
pub(super) fn redirect_to_docs() -> Reply {
    let mut reply = reply::empty(StatusCode::PERMANENT_REDIRECT);
    reply.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/docs/"));
    reply
}

/// Serves a file of Swagger UI.
pub(super) fn docs_file(file: &str) -> Result<Reply, Problem> {
    let found = utoipa_swagger_ui::serve(file, Arc::clone(&DOCS)).ok().flatten();
    let found = found.ok_or_else(|| route::unknown(&format!("/docs/{file}")))?;
    let bytes = Bytes::from(found.bytes.into_owned());
    let mut reply = with_policy(reply::data(StatusCode::OK, "application/octet-stream", bytes), DOCS_POLICY);
    if let Ok(kind) = HeaderValue::try_from(&*found.content_type) {
        reply.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    Ok(reply)
}

/// Adds the security headers to a response.
pub(super) fn with_policy(mut reply: Reply, policy: &'static str) -> Reply {
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    reply
}
