//! Which trailers are passed on (RFC 9110, 6.5).

use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HOST, MAX_FORWARDS,
    SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName};

/// Whether a header makes sense behind the body. What says where the message ends, who sends it, or how its body is
/// to be read does not: whoever merged it into the head would be deceived.
pub fn may_trail(name: &HeaderName) -> bool {
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

/// Those of the trailers that a head has announced, and that may be.
pub fn announced(head: &HeaderMap, mut trailers: HeaderMap) -> HeaderMap {
    let is_announced = |name: &HeaderName| {
        let mut names = head.get_all(TRAILER).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        names.any(|announced| announced.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
    };
    let unwanted: Vec<_> = trailers.keys().filter(|name| !may_trail(name) || !is_announced(name)).cloned().collect();
    for name in unwanted {
        trailers.remove(name);
    }
    trailers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_announced_and_may_be_is_passed_on() {
        let headers = |lines: &[(&'static str, &'static str)]| -> HeaderMap {
            lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
        };
        let head = headers(&[("trailer", "X-Sum, Host ,content-length")]);
        let trailers = headers(&[("x-sum", "5"), ("host", "evil"), ("content-length", "9"), ("x-other", "1")]);
        assert_eq!(announced(&head, trailers.clone()), headers(&[("x-sum", "5")]));
        assert_eq!(announced(&HeaderMap::new(), trailers), HeaderMap::new());
    }
}
