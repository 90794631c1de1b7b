//! Validation of request heads (RFC 9110, 9112 and 9113).
//!
//! The HTTP parser has already rejected contradictory lengths and codings, folded lines, spaces before colons
//! and invalid header bytes. The checks here are specific to a gateway.

use http::header::{HOST, TRANSFER_ENCODING};
use http::{Method, Request, Version};

use super::HeaderScan;
use crate::error::ProxyError;

/// Validates a head and returns the scan of its headers.
pub(crate) fn check<B>(head: &Request<B>) -> Result<HeaderScan, ProxyError> {
    let scan = HeaderScan::of(head.headers());
    if *head.method() == Method::CONNECT || *head.method() == Method::TRACE {
        return Err(ProxyError::NotImplemented("CONNECT and TRACE are not supported"));
    }
    let host = match scan.hosts {
        0 => None,
        1 => head.headers().get(HOST),
        _ => return Err(ProxyError::BadRequest("duplicate Host header")),
    };
    let target = head.uri().authority();
    match (host, target) {
        (None, None) if head.version() > Version::HTTP_10 => {
            return Err(ProxyError::BadRequest("missing Host header"));
        }
        (Some(host), Some(target))
            if head.version() >= Version::HTTP_2
                && !host.as_bytes().eq_ignore_ascii_case(target.as_str().as_bytes()) =>
        {
            return Err(ProxyError::BadRequest("Host and :authority differ"));
        }
        _ => {}
    }
    let is_host = |text: &[u8]| text.iter().all(|byte| is_host_byte(*byte));
    if host.is_some_and(|host| !is_host(host.as_bytes())) || target.is_some_and(|it| !is_host(it.as_str().as_bytes())) {
        return Err(ProxyError::BadRequest("invalid host"));
    }
    let path = head.uri().path();
    let is_path = path.starts_with('/') || (path == "*" && *head.method() == Method::OPTIONS);
    if !is_path {
        return Err(ProxyError::BadRequest("the request target is not a path"));
    }
    if scan.has_transfer_encoding {
        let mut codings = head.headers().get_all(TRANSFER_ENCODING).iter();
        let is_chunked = codings.next().is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
        if !is_chunked || codings.next().is_some() {
            return Err(ProxyError::NotImplemented("unsupported transfer coding: only chunked is supported"));
        }
    }
    Ok(scan)
}

/// The requested host and port: from the target if it has an authority, as in HTTP/2, else from the `Host`
/// header.
pub(crate) fn authority<B>(head: &Request<B>) -> &str {
    let of_header = || head.headers().get(HOST)?.to_str().ok();
    head.uri().authority().map(http::uri::Authority::as_str).or_else(of_header).unwrap_or_default()
}

/// True for bytes that may occur in a host and port. Userinfo is not accepted.
const fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b':'
                | b'_'
                | b'~'
                | b'['
                | b']'
                | b'%'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(version: Version, method: &str, uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().version(version).method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn request_heads_are_validated() {
        let (one, old, two) = (Version::HTTP_11, Version::HTTP_10, Version::HTTP_2);
        for (version, method, uri, headers, expected) in [
            (one, "GET", "/", &[("host", "a")][..], None),
            (one, "GET", "/", &[("host", "")], None),
            (one, "GET", "/", &[("host", "[::1]:80")], None),
            (old, "GET", "/", &[], None),
            (one, "OPTIONS", "*", &[("host", "a")], None),
            (one, "GET", "http://a/x", &[("host", "b")], None),
            (two, "GET", "http://a/x", &[], None),
            (two, "GET", "http://a/x", &[("host", "A")], None),
            (one, "POST", "/", &[("host", "a"), ("transfer-encoding", "Chunked")], None),
            (one, "GET", "/", &[], Some(400)),
            (two, "GET", "/", &[], Some(400)),
            (one, "GET", "/", &[("host", "a"), ("host", "a")], Some(400)),
            (old, "GET", "/", &[("host", "a"), ("host", "b")], Some(400)),
            (one, "GET", "/", &[("host", "a b")], Some(400)),
            (one, "GET", "/", &[("host", "a/b")], Some(400)),
            (one, "GET", "/", &[("host", "u@a")], Some(400)),
            (one, "GET", "http://u@a/", &[("host", "a")], Some(400)),
            (one, "GET", "*", &[("host", "a")], Some(400)),
            (one, "GET", "a", &[("host", "a")], Some(400)),
            (two, "GET", "http://a/x", &[("host", "b")], Some(400)),
            (one, "CONNECT", "a:80", &[("host", "a")], Some(501)),
            (one, "TRACE", "/", &[("host", "a")], Some(501)),
            (one, "POST", "/", &[("host", "a"), ("transfer-encoding", "gzip, chunked")], Some(501)),
            (
                one,
                "POST",
                "/",
                &[("host", "a"), ("transfer-encoding", "gzip"), ("transfer-encoding", "chunked")],
                Some(501),
            ),
        ] {
            let checked = check(&head(version, method, uri, headers)).err().map(|error| error.status().as_u16());
            assert_eq!(checked, expected, "{version:?} {method} {uri} {headers:?}");
        }
    }
}
