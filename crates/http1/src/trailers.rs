//! Filter for trailers that may be forwarded (RFC 9110, section 6.5).

use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HOST, MAX_FORWARDS,
    SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName};

/// True if a header may be a trailer. Headers for framing, routing, authentication and content processing may
/// not: merged into the head, they could mislead the recipient.
pub fn is_allowed_trailer(name: &HeaderName) -> bool {
    !matches!(
        *name,
        AUTHORIZATION
            | CACHE_CONTROL
            | CONTENT_ENCODING
            | CONTENT_LENGTH
            | CONTENT_RANGE
            | CONTENT_TYPE
            | HOST
            | MAX_FORWARDS
            | SET_COOKIE
            | TE
            | TRAILER
            | TRANSFER_ENCODING
    )
}

/// Keeps the trailers that the head announced and that are allowed.
pub fn filter_trailers(head: &HeaderMap, mut trailers: HeaderMap) -> HeaderMap {
    let is_announced = |name: &HeaderName| {
        let mut names = head.get_all(TRAILER).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        names.any(|announced| announced.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
    };
    let removed: Vec<_> =
        trailers.keys().filter(|name| !is_allowed_trailer(name) || !is_announced(name)).cloned().collect();
    for name in removed {
        trailers.remove(name);
    }
    trailers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_announced_and_allowed_trailers_pass() {
        let headers = |lines: &[(&'static str, &'static str)]| -> HeaderMap {
            lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
        };
        let head = headers(&[("trailer", "X-Sum, Host ,content-length")]);
        let trailers = headers(&[("x-sum", "5"), ("host", "evil"), ("content-length", "9"), ("x-other", "1")]);
        assert_eq!(filter_trailers(&head, trailers.clone()), headers(&[("x-sum", "5")]));
        assert_eq!(filter_trailers(&HeaderMap::new(), trailers), HeaderMap::new());
    }
}
