//! Hop-by-hop headers, which are not forwarded (RFC 9110, section 7.6.1).

use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use smallvec::SmallVec;

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
static PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
static HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// Removes hop-by-hop headers from a response, including those named by `Connection`.
pub(crate) fn strip_response_hop_by_hop(headers: &mut HeaderMap) {
    strip_hop_by_hop(headers);
    // `TE` is a request header.
    headers.remove(TE);
}

/// Removes hop-by-hop headers from a request, including those named by `Connection`, but never `Host` or
/// `Content-Length`.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let mut values = headers.get_all(CONNECTION).iter();
    let is_single_option = |value: &HeaderValue| {
        let value = value.as_bytes();
        value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
    };
    if let (Some(value), None) = (values.next(), values.next())
        && is_single_option(value)
        && headers.keys().filter(|name| is_hop_by_hop(name)).count() == 1
    {
        // Fast case: most responses of servers with keep-alive have only this one.
        headers.remove(CONNECTION);
        return;
    }
    strip_all(headers);
}

fn strip_all(headers: &mut HeaderMap) {
    let mut named: SmallVec<[HeaderName; 4]> = SmallVec::new();
    for value in headers.get_all(CONNECTION) {
        let tokens = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let names = tokens.filter_map(|token| HeaderName::from_bytes(token).ok());
        named.extend(names.filter(|name| *name != HOST && *name != CONTENT_LENGTH));
    }
    let accepts_trailers = headers.get_all(TE).iter().any(|value| {
        let mut codings = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        codings.any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
    });
    for name in named.iter().chain([&KEEP_ALIVE, &PROXY_CONNECTION, &HTTP2_SETTINGS]) {
        headers.remove(name);
    }
    for name in [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    if accepts_trailers {
        // The only value of `TE` that may be forwarded; gRPC requires it.
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// True if a header is always hop-by-hop.
pub(super) fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(*name, CONNECTION | PROXY_AUTHENTICATE | PROXY_AUTHORIZATION | TE | TRANSFER_ENCODING | UPGRADE)
        || *name == KEEP_ALIVE
        || *name == PROXY_CONNECTION
        || *name == HTTP2_SETTINGS
}

/// True if a request asks for a protocol upgrade, such as WebSocket. Upgrades to HTTP, also over TLS, are not
/// offered: requests in them would bypass the rules, routes and checks.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    let is_http = |protocol: &[u8]| {
        let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default().trim_ascii();
        [&b"h2c"[..], b"h2", b"http", b"tls"].iter().any(|known| name.eq_ignore_ascii_case(known))
    };
    headers.contains_key(UPGRADE)
        && !headers.get_all(UPGRADE).iter().any(|value| value.as_bytes().split(|byte| *byte == b',').any(is_http))
        && headers.get_all(CONNECTION).iter().any(|value| {
            let mut tokens = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            tokens.any(|token| token.eq_ignore_ascii_case(b"upgrade"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let mut all = headers(&[
            ("host", "a"),
            ("connection", "keep-alive, X-Mine ,, (, Host"),
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic x"),
            ("te", "gzip;q=1, Trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "x"),
            ("accept", "*/*"),
        ]);
        strip_hop_by_hop(&mut all);
        assert_eq!(all, headers(&[("host", "a"), ("accept", "*/*"), ("te", "trailers")]));
    }

    /// `TE` is a request header.
    #[test]
    fn te_is_removed_from_responses() {
        let mut response = headers(&[("te", "trailers"), ("connection", "te"), ("server", "x")]);
        strip_response_hop_by_hop(&mut response);
        assert_eq!(response, headers(&[("server", "x")]));
    }

    #[test]
    fn connection_header_is_removed() {
        for (value, remaining) in [("keep-alive", 1), ("Close", 1), ("x-mine", 1), ("keep-alive, x-mine", 1)] {
            let mut all = headers(&[("connection", value), ("server", "x")]);
            strip_hop_by_hop(&mut all);
            assert_eq!(all.len(), remaining, "{value}");
        }
        let mut all = headers(&[("connection", "keep-alive"), ("keep-alive", "timeout=5"), ("server", "x")]);
        strip_hop_by_hop(&mut all);
        assert_eq!(all, headers(&[("server", "x")]));
    }

    #[test]
    fn an_upgrade_needs_both_headers() {
        assert!(is_upgrade(&headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")])));
        assert!(!is_upgrade(&headers(&[("upgrade", "websocket")])));
        assert!(!is_upgrade(&headers(&[("connection", "upgrade")])));
    }

    #[test]
    fn upgrades_to_http_are_ignored() {
        for protocol in ["h2c", "H2C", "websocket, h2c", " h2c ,websocket", "HTTP/2.0", "TLS/1.2", "h2"] {
            assert!(!is_upgrade(&headers(&[("connection", "upgrade"), ("upgrade", protocol)])), "{protocol}");
        }
        assert!(is_upgrade(&headers(&[("connection", "upgrade"), ("upgrade", "websocket/13, h2cx")])));
    }
}
