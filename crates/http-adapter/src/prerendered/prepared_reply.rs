//! A rule's own reply, prepared for sending.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use sluicegate_engine::rule::{Reply, ReplyBody};

/// Maximum size of a reply file: 16 MiB. Files are held in memory.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// A prepared reply.
pub(crate) enum PreparedReply {
    /// A refusal; without a body, the problem document is sent.
    Refuse { status: StatusCode, headers: HeaderMap, body: Option<Bytes> },
    /// A substitute response.
    Substitute { status: StatusCode, headers: HeaderMap, body: Bytes },
    /// A redirect.
    Redirect { status: StatusCode, location: HeaderValue },
}

impl PreparedReply {
    /// Prepares a reply. Invalid header names, values and statuses are dropped: the rule file parser already
    /// refuses them, and a refusal with a header missing is still a refusal.
    pub(crate) fn new(reply: &Reply) -> Self {
        match reply {
            Reply::Refuse { status, body, headers } => {
                let body = body.as_ref().and_then(content);
                let headers = self::headers(headers, body.as_ref());
                Self::Refuse {
                    status: self::status(*status, StatusCode::TOO_MANY_REQUESTS),
                    headers,
                    body: body.map(|(body, _)| body),
                }
            }
            Reply::Degrade { status, body, headers } => {
                let content = body.as_ref().map(content);
                if let Some(None) = content {
                    // A partial response would be worse than a refusal.
                    let status = StatusCode::SERVICE_UNAVAILABLE;
                    return Self::Refuse { status, headers: self::headers(headers, None), body: None };
                }
                let content = content.flatten();
                let headers = self::headers(headers, content.as_ref());
                let body = content.map(|(body, _)| body).unwrap_or_default();
                Self::Substitute { status: self::status(*status, StatusCode::OK), headers, body }
            }
            Reply::Redirect { status, location } => match HeaderValue::from_str(location) {
                Ok(location) => Self::Redirect { status: self::status(*status, StatusCode::FOUND), location },
                Err(_) => Self::Refuse { status: StatusCode::TOO_MANY_REQUESTS, headers: HeaderMap::new(), body: None },
            },
        }
    }
}

/// Returns a final status; an invalid or informational one becomes the fallback.
fn status(status: u16, fallback: StatusCode) -> StatusCode {
    StatusCode::from_u16(status).ok().filter(|status| !status.is_informational()).unwrap_or(fallback)
}

fn headers(given: &[(String, String)], content: Option<&(Bytes, HeaderValue)>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some((_, kind)) = content {
        headers.insert(header::CONTENT_TYPE, kind.clone());
    }
    for (name, value) in given {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    headers
}

/// The body and its content type; `None` for a file that cannot be read.
fn content(body: &ReplyBody) -> Option<(Bytes, HeaderValue)> {
    let (body, kind) = match body {
        ReplyBody::Text(text) => (Bytes::from(text.clone()), "text/plain; charset=utf-8"),
        ReplyBody::Json(json) => (Bytes::from(json.clone()), "application/json"),
        ReplyBody::File(path) => (Bytes::from(read(Path::new(path)).ok()?), media_type(Path::new(path))),
    };
    Some((body, HeaderValue::from_static(kind)))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut contents)?;
    if contents.len() as u64 > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(contents)
}

/// Media type by file extension.
fn media_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("xml") => "application/xml",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        _ => "application/octet-stream",
    }
}
