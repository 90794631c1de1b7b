//! The `grpc-timeout` header.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Maximum number of digits.
const MAX_DIGITS: usize = 8;

/// The timeout set by the client, if any. An invalid value is ignored, as usual in gRPC.
pub(crate) fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(GRPC_TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.len() > MAX_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3_600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_timeout_is_a_number_and_a_unit() {
        for (text, expected) in [
            ("20m", Some(Duration::from_millis(20))),
            ("1S", Some(Duration::from_secs(1))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3_600))),
            ("2M", Some(Duration::from_secs(120))),
            ("7u", Some(Duration::from_micros(7))),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("m", None),
            ("20", None),
            ("+2m", None),
            ("123456789n", None),
            ("2 m", None),
            ("20ms", None),
        ] {
            let headers = HeaderMap::from_iter([(GRPC_TIMEOUT, HeaderValue::from_static(text))]);
            assert_eq!(grpc_timeout(&headers), expected, "{text}");
        }
        let strange = HeaderMap::from_iter([(GRPC_TIMEOUT, HeaderValue::from_bytes(b"1\xffS").unwrap())]);
        assert_eq!(grpc_timeout(&strange), None);
        assert_eq!(grpc_timeout(&HeaderMap::new()), None);
    }
}
