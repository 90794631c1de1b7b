//! The dashboard's files. They are in the program.

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
struct Files;

/// The page that everything else belongs to.
const INDEX: &str = "index.html";

/// What is there without a dashboard.
const BARE: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Sluicegate</title>\n\
    <h1>Sluicegate</h1>\n<p><a href=\"/docs/\">What can be asked here</a>\n</html>\n";

/// The dashboard.
pub(super) fn dashboard(headers: &HeaderMap) -> Reply {
    match Files::get(INDEX) {
        Some(file) => send(INDEX, &file, headers),
        None => with_policy(reply::data(StatusCode::OK, "text/html; charset=utf-8", BARE), POLICY),
    }
}

/// A file of it.
pub(super) fn file(name: &str, headers: &HeaderMap) -> Result<Reply, Problem> {
    match Files::get(name) {
        Some(file) if name != INDEX => Ok(send(name, &file, headers)),
        _ => Err(route::unknown(&format!("/assets/{name}"))),
    }
}

/// A file, unless the asker has it already.
fn send(name: &str, file: &EmbeddedFile, headers: &HeaderMap) -> Reply {
    let tag = tag(&file.metadata.sha256_hash());
    let mut reply = if has(headers, &tag) {
        reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        reply::data(StatusCode::OK, kind(name), Bytes::copy_from_slice(&file.data))
    };
    let kept = reply.headers_mut();
    // It is asked for each time, and sent when it has changed: with the next version of the program.
    kept.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        kept.insert(header::ETAG, tag);
    }
    with_policy(reply, POLICY)
}

fn tag(hash: &[u8]) -> String {
    let mut tag = String::from("\"");
    for byte in hash.iter().take(16) {
        // Writing to a string does not fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag + "\""
}

/// Whether the asker has what this tag stands for.
pub(super) fn has(headers: &HeaderMap, tag: &str) -> bool {
    let lines = headers.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}

fn kind(name: &str) -> &'static str {
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
