//! Headers that are for the next hop only, and never go further (RFC 9110, 7.6.1).

use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use smallvec::SmallVec;

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
static PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
static HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// Takes off an answer what is for this hop only, and what `Connection` names as such.
pub(crate) fn strip_answer(headers: &mut HeaderMap) {
    strip(headers);
    // Only clients say what they take.
    headers.remove(TE);
}

/// Takes off a request what is for this hop only, and what `Connection` names as such; but never what it cannot do
/// without.
pub(crate) fn strip(headers: &mut HeaderMap) {
    let mut values = headers.get_all(CONNECTION).iter();
    let is_usual = |value: &HeaderValue| {
        let value = value.as_bytes();
        value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
    };
    if let (Some(value), None) = (values.next(), values.next())
        && is_usual(value)
        && headers.keys().filter(|name| is_of_hop(name)).count() == 1
    {
        // Nothing else, as in most answers of servers that keep their connections.
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
    let takes_trailers = headers.get_all(TE).iter().any(|value| {
        let mut codings = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        codings.any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
    });
    for name in named.iter().chain([&KEEP_ALIVE, &PROXY_CONNECTION, &HTTP2_SETTINGS]) {
        headers.remove(name);
    }
    for name in [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    if takes_trailers {
        // The one word of it that may be passed on; gRPC does not do without.
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Whether a header is always for the next hop only.
pub(super) fn is_of_hop(name: &HeaderName) -> bool {
    matches!(*name, CONNECTION | PROXY_AUTHENTICATE | PROXY_AUTHORIZATION | TE | TRANSFER_ENCODING | UPGRADE)
        || *name == KEEP_ALIVE
        || *name == PROXY_CONNECTION
        || *name == HTTP2_SETTINGS
}

/// Whether a request asks to go on in another protocol, such as WebSocket. To go on in HTTP, also under TLS, is
/// not offered: what came then would pass by the rules, the routes and the checks.
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
    fn what_is_for_one_hop_goes_no_further() {
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
        strip(&mut all);
        assert_eq!(all, headers(&[("host", "a"), ("accept", "*/*"), ("te", "trailers")]));
    }

    /// Only clients say what they take.
    #[test]
    fn an_answer_is_not_told_which_trailers_are_taken() {
        let mut answer = headers(&[("te", "trailers"), ("connection", "te"), ("server", "x")]);
        strip_answer(&mut answer);
        assert_eq!(answer, headers(&[("server", "x")]));
    }

    #[test]
    fn a_connection_that_is_kept_says_so_to_this_hop_only() {
        for (value, left) in [("keep-alive", 1), ("Close", 1), ("x-mine", 1), ("keep-alive, x-mine", 1)] {
            let mut all = headers(&[("connection", value), ("server", "x")]);
            strip(&mut all);
            assert_eq!(all.len(), left, "{value}");
        }
        let mut all = headers(&[("connection", "keep-alive"), ("keep-alive", "timeout=5"), ("server", "x")]);
        strip(&mut all);
        assert_eq!(all, headers(&[("server", "x")]));
    }

    #[test]
    fn an_upgrade_is_asked_for_twice() {
        assert!(is_upgrade(&headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")])));
        assert!(!is_upgrade(&headers(&[("upgrade", "websocket")])));
        assert!(!is_upgrade(&headers(&[("connection", "upgrade")])));
    }

    #[test]
    fn nobody_goes_on_in_http() {
        for protocol in ["h2c", "H2C", "websocket, h2c", " h2c ,websocket", "HTTP/2.0", "TLS/1.2", "h2"] {
            assert!(!is_upgrade(&headers(&[("connection", "upgrade"), ("upgrade", protocol)])), "{protocol}");
        }
        assert!(is_upgrade(&headers(&[("connection", "upgrade"), ("upgrade", "websocket/13, h2cx")])));
    }
}
