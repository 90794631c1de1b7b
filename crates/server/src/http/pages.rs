//! Static pages: the OpenAPI document, the pages to browse it, and the health check.
//!
//! All assets are compiled in: no page loads anything from elsewhere, and the content security policy forbids it.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use utoipa_swagger_ui::Config;

use super::openapi;
use super::problem::Problem;
use super::route;

/// The OpenAPI document of the API, built at its first use.
pub(super) static OPENAPI: LazyLock<String> = LazyLock::new(openapi::document);

const ROOT: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Sluicegate</title>\n\
    <h1>Sluicegate decision server</h1>\n<p><a href=\"/docs/\">API documentation</a>, \
    <a href=\"/openapi.json\">OpenAPI document</a>\n</html>\n";

/// Allows only our own resources and no inline scripts. The API browser uses inline styles and images in its
/// styles.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static DOCS: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::new(["/openapi.json"]).validator_url("none").use_base_layout()));

/// The health response.
pub(super) fn health() -> Response<Full<Bytes>> {
    page(Bytes::from_static(b"OK\n"), "text/plain; charset=utf-8")
}

/// The start page with links.
pub(super) fn root() -> Response<Full<Bytes>> {
    page(Bytes::from_static(ROOT.as_bytes()), "text/html; charset=utf-8")
}

/// The OpenAPI document.
pub(super) fn openapi() -> Response<Full<Bytes>> {
    page(Bytes::from_static(OPENAPI.as_bytes()), "application/json")
}

/// Redirects to `/docs/`, since the URLs in its pages are relative.
pub(super) fn docs_redirect() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/docs/"));
    response
}

/// A file of the API browser.
pub(super) fn docs(file: &str) -> Result<Response<Full<Bytes>>, Problem> {
    let found = utoipa_swagger_ui::serve(file, Arc::clone(&DOCS)).ok().flatten();
    let found = found.ok_or_else(|| route::unknown_path(&format!("/docs/{file}")))?;
    let bytes = Bytes::from(found.bytes.into_owned());
    Ok(page(bytes, &found.content_type))
}

fn page(body: Bytes, kind: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::try_from(kind) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
