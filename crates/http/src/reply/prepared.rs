//! A rule's own reply, ready to be sent.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use sluicegate_engine::rule::{Reply, ReplyBody};

/// The longest file that is answered with: 16 MiB. It is kept in memory.
const LONGEST_FILE: u64 = 16 << 20;

/// What a rule answers.
pub(crate) enum Prepared {
    /// A refusal; without a body, the problem document is sent.
    Refuse { status: StatusCode, headers: HeaderMap, body: Option<Bytes> },
    /// Something else, as if nothing were wrong.
    Instead { status: StatusCode, headers: HeaderMap, body: Bytes },
    /// Another place.
    Elsewhere { status: StatusCode, location: HeaderValue },
}

impl Prepared {
    /// Header names, values and statuses that HTTP does not know are left out: the rule file refuses
    /// them, and a refusal with one header less is still a refusal.
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
                    // Half an answer is worse than a refusal.
                    let status = StatusCode::SERVICE_UNAVAILABLE;
                    return Self::Refuse { status, headers: self::headers(headers, None), body: None };
                }
                let content = content.flatten();
                let headers = self::headers(headers, content.as_ref());
                let body = content.map(|(body, _)| body).unwrap_or_default();
                Self::Instead { status: self::status(*status, StatusCode::OK), headers, body }
            }
            Reply::Redirect { status, location } => match HeaderValue::from_str(location) {
                Ok(location) => Self::Elsewhere { status: self::status(*status, StatusCode::FOUND), location },
                Err(_) => Self::Refuse { status: StatusCode::TOO_MANY_REQUESTS, headers: HeaderMap::new(), body: None },
            },
        }
    }
}

/// A final status; one that is not is replaced.
fn status(status: u16, otherwise: StatusCode) -> StatusCode {
    StatusCode::from_u16(status).ok().filter(|status| !status.is_informational()).unwrap_or(otherwise)
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

/// A body with its type; `None` for a file that cannot be read.
fn content(body: &ReplyBody) -> Option<(Bytes, HeaderValue)> {
    let (body, kind) = match body {
        ReplyBody::Text(text) => (Bytes::from(text.clone()), "text/plain; charset=utf-8"),
        ReplyBody::Json(json) => (Bytes::from(json.clone()), "application/json"),
        ReplyBody::File(path) => (Bytes::from(read(Path::new(path)).ok()?), kind_of(Path::new(path))),
    };
    Some((body, HeaderValue::from_static(kind)))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    File::open(path)?.take(LONGEST_FILE + 1).read_to_end(&mut contents)?;
    if contents.len() as u64 > LONGEST_FILE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(contents)
}

/// The media type that a file's name stands for.
fn kind_of(path: &Path) -> &'static str {
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
