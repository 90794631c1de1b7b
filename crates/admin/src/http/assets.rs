//! Dashboard assets, embedded in the binary.

use std::fmt::Write;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rust_embed::{Embed, EmbeddedFile};

use super::pages::{POLICY, with_policy};
use super::problem::Problem;
use super::reply::{self, Reply};
use super::route;

#[derive(Embed)]
#[folder = "assets/"]
#[allow_missing = true]
struct EmbeddedAssets;

/// The dashboard's HTML page.
const INDEX: &str = "index.html";

/// Page served if the dashboard is not embedded.
const FALLBACK_PAGE: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Sluicegate</title>\n\
    <h1>Sluicegate</h1>\n<p><a href=\"/docs/\">Admin API</a>\n</html>\n";

/// Serves the dashboard.
pub(super) fn dashboard(headers: &HeaderMap) -> Reply {
    match EmbeddedAssets::get(INDEX) {
        Some(file) => respond(INDEX, &file, headers),
        None => with_policy(reply::data(StatusCode::OK, "text/html; charset=utf-8", FALLBACK_PAGE), POLICY),
    }
}

/// Serves one asset.
pub(super) fn file(name: &str, headers: &HeaderMap) -> Result<Reply, Problem> {
    match EmbeddedAssets::get(name) {
        Some(file) if name != INDEX => Ok(respond(name, &file, headers)),
        _ => Err(route::unknown(&format!("/assets/{name}"))),
    }
}

/// Serves a file, or 304 if the client has it.
fn respond(name: &str, file: &EmbeddedFile, headers: &HeaderMap) -> Reply {
    let tag = etag(&file.metadata.sha256_hash());
    let mut reply = if matches_etag(headers, &tag) {
        reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        reply::data(StatusCode::OK, content_type(name), Bytes::copy_from_slice(&file.data))
    };
    let response_headers = reply.headers_mut();
    // Revalidated on each use; it changes with the next version of the binary.
    response_headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response_headers.insert(header::ETAG, tag);
    }
    with_policy(reply, POLICY)
}

fn etag(hash: &[u8]) -> String {
    let mut tag = String::from("\"");
    for byte in hash.iter().take(16) {
        // Writing to a string does not fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag + "\""
}

/// True if `If-None-Match` contains this ETag.
pub(super) fn matches_etag(headers: &HeaderMap, tag: &str) -> bool {
    let lines = headers.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
