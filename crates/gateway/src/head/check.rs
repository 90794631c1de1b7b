//! What a request's head must look like (RFC 9110, 9112 and 9113).
//!
//! It has been read as a message of its protocol: lengths and codings that contradict each other, folded lines,
//! spaces before colons and bytes that no header may have never come here. What is left is what only a gateway
//! minds.

use http::header::{HOST, TRANSFER_ENCODING};
use http::{Method, Request, Version};

use super::Survey;
use crate::failure::Failure;

/// Checks a head, and answers what else in it needs attention.
pub(crate) fn check<B>(head: &Request<B>) -> Result<Survey, Failure> {
    let survey = Survey::of(head.headers());
    if *head.method() == Method::CONNECT || *head.method() == Method::TRACE {
        return Err(Failure::NotDone("CONNECT and TRACE are not done here"));
    }
    let host = match survey.hosts {
        0 => None,
        1 => head.headers().get(HOST),
        _ => return Err(Failure::Bad("there are two Host headers")),
    };
    let target = head.uri().authority();
    match (host, target) {
        (None, None) if head.version() > Version::HTTP_10 => return Err(Failure::Bad("there is no Host header")),
        (Some(host), Some(target))
            if head.version() >= Version::HTTP_2
                && !host.as_bytes().eq_ignore_ascii_case(target.as_str().as_bytes()) =>
        {
            return Err(Failure::Bad("Host and :authority differ"));
        }
        _ => {}
    }
    let is_host = |text: &[u8]| text.iter().all(|byte| is_of_host(*byte));
    if host.is_some_and(|host| !is_host(host.as_bytes())) || target.is_some_and(|it| !is_host(it.as_str().as_bytes())) {
        return Err(Failure::Bad("the host is no host"));
    }
    let path = head.uri().path();
    let is_path = path.starts_with('/') || (path == "*" && *head.method() == Method::OPTIONS);
    if !is_path {
        return Err(Failure::Bad("the target is no path"));
    }
    if survey.coded {
        let mut codings = head.headers().get_all(TRANSFER_ENCODING).iter();
        let is_chunked = codings.next().is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
        if !is_chunked || codings.next().is_some() {
            return Err(Failure::NotDone("of transfer codings, only chunked is known here"));
        }
    }
    Ok(survey)
}

/// Host and port that the request asks for: of its target if that has any, as HTTP/2 does, else of the header.
pub(crate) fn authority<B>(head: &Request<B>) -> &str {
    let of_header = || head.headers().get(HOST)?.to_str().ok();
    head.uri().authority().map(http::uri::Authority::as_str).or_else(of_header).unwrap_or_default()
}

/// What a host and its port may be made of; a login before it is none of it.
const fn is_of_host(byte: u8) -> bool {
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
    fn heads_are_as_the_standards_say() {
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
            let checked = check(&head(version, method, uri, headers)).err().map(|failure| failure.status().as_u16());
            assert_eq!(checked, expected, "{version:?} {method} {uri} {headers:?}");
        }
    }
}
