//! What describes the rest: the OpenAPI document, the pages to browse it with, and whether all is well.
//!
//! Everything is in the program: no page asks for anything from elsewhere, and the policy it is sent with
//! would not let it.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use utoipa_swagger_ui::Config;

use super::problem::Problem;
use super::route;

/// The description of the API.
pub(super) const DESCRIPTION: &str = include_str!("openapi.json");

const ROOT: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Sluicegate</title>\n\
    <h1>Sluicegate decides here</h1>\n<p><a href=\"/docs/\">What can be asked</a>, and \
    <a href=\"/openapi.json\">the same for programs</a>.\n</html>\n";

/// Only what we send, and no scripts within pages. The browser of the description styles its elements one by one
/// and has its pictures in its styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static DOCS: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::new(["/openapi.json"]).validator_url("none").use_base_layout()));

/// All is well.
pub(super) fn health() -> Response<Full<Bytes>> {
    page(Bytes::from_static(b"OK\n"), "text/plain; charset=utf-8")
}

/// Where to go on from.
pub(super) fn root() -> Response<Full<Bytes>> {
    page(Bytes::from_static(ROOT.as_bytes()), "text/html; charset=utf-8")
}

/// The description of the API.
pub(super) fn description() -> Response<Full<Bytes>> {
    page(Bytes::from_static(DESCRIPTION.as_bytes()), "application/json")
}

/// To the folder, which the addresses in its pages are relative to.
pub(super) fn to_docs() -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::PERMANENT_REDIRECT;
    answer.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/docs/"));
    answer
}

/// A file to browse the description with.
pub(super) fn docs(file: &str) -> Result<Response<Full<Bytes>>, Problem> {
    let found = utoipa_swagger_ui::serve(file, Arc::clone(&DOCS)).ok().flatten();
    let found = found.ok_or_else(|| route::unknown(&format!("/docs/{file}")))?;
    let bytes = Bytes::from(found.bytes.into_owned());
    Ok(page(bytes, &found.content_type))
}

fn page(body: Bytes, kind: &str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body));
    let headers = answer.headers_mut();
    if let Ok(kind) = HeaderValue::try_from(kind) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    answer
}
