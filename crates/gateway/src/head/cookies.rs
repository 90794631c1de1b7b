//! Joins `Cookie` headers, which HTTP/2 may send separately (RFC 9113, section 8.2.3).

use bytes::BytesMut;
use http::header::{COOKIE, HeaderMap, HeaderValue};

/// Joins all cookies into one header; outside of HTTP/2 there must not be more than one.
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let mut line = BytesMut::new();
    for value in headers.get_all(COOKIE) {
        if !line.is_empty() {
            line.extend_from_slice(b"; ");
        }
        line.extend_from_slice(value.as_bytes());
    }
    // Valid header values stay valid when joined.
    if let Ok(line) = HeaderValue::from_maybe_shared(line.freeze()) {
        headers.insert(COOKIE, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_joined_in_order() {
        let mut headers = HeaderMap::new();
        join_cookies(&mut headers);
        assert!(headers.is_empty());
        for (cookie, joined) in [("a=1", "a=1"), ("b=2; c", "a=1; b=2; c"), ("d=4", "a=1; b=2; c; d=4")] {
            headers.append(COOKIE, HeaderValue::from_static(cookie));
            join_cookies(&mut headers);
            assert_eq!(headers.get_all(COOKIE).iter().collect::<Vec<_>>(), [joined]);
        }
    }
}
