//! Validated arguments of `probe`.

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use sluicegate_engine::limit::parse;

use super::criteria::Criteria;
use super::search::Search;
use crate::args;
use crate::endpoint::{Endpoint, UrlErrorHints};

const URL_HINTS: UrlErrorHints = UrlErrorHints {
    example: "http://127.0.0.1:8080/path",
    secret: "do not put a password into the URL: use -H 'authorization: ...'",
};

/// Headers that the user may not set, with the alternative.
const RESERVED_HEADERS: [(HeaderName, &str); 4] = [
    (header::HOST, "use --host"),
    (header::CONTENT_LENGTH, "it is derived from --data"),
    (header::TRANSFER_ENCODING, "it is derived from --data"),
    (header::CONNECTION, "connections are always persistent"),
];

/// Settings of the load test.
pub(super) struct ProbeSettings {
    pub(super) search: Search,
    pub(super) criteria: Criteria,
    pub(super) step: Duration,
    pub(super) max_time: Duration,
    pub(super) max_in_flight: usize,
}

/// The request that is sent.
#[derive(Clone)]
pub(super) struct ProbeRequest {
    pub(super) method: Method,
    /// Path and query.
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) timeout: Duration,
}

impl ProbeSettings {
    pub(super) fn new(args: &args::Probe) -> Result<Self, String> {
        if args.to < args.from {
            return Err("--to is less than --from".to_owned());
        }
        if args.max_time < args.step {
            return Err("--max-time is shorter than one --step".to_owned());
        }
        Ok(Self {
            search: Search { from: args.from, to: args.to, grow: args.grow },
            criteria: Criteria { p99: args.p99, max_lateness: args.max_late },
            step: args.step,
            max_time: args.max_time,
            max_in_flight: args.max_in_flight as usize,
        })
    }
}

impl ProbeRequest {
    pub(super) fn new(args: &args::Probe) -> Result<Self, String> {
        let endpoint = &args.url;
        let query = endpoint.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
        let uri = format!("{}{query}", endpoint.path).parse().map_err(|error| format!("{}: {error}", endpoint.path))?;
        let method = match (&args.method, &args.data) {
            (Some(method), _) => method.clone(),
            (None, Some(_)) => Method::POST,
            (None, None) => Method::GET,
        };
        let mut headers = HeaderMap::new();
        let agent = HeaderValue::from_static(concat!("sluicegate-probe/", env!("CARGO_PKG_VERSION")));
        headers.insert(header::USER_AGENT, agent);
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        let mut user_headers = HeaderMap::new();
        for (name, value) in &args.headers {
            let header_error = |message: &str| format!("header {name}: {message}");
            let name = HeaderName::try_from(name).map_err(|error| header_error(&error.to_string()))?;
            if let Some((_, instead)) = RESERVED_HEADERS.iter().find(|(not, _)| *not == name) {
                return Err(header_error(instead));
            }
            let value =
                HeaderValue::try_from(value).map_err(|_| header_error("the value contains invalid characters"))?;
            user_headers.append(name, value);
        }
        // User headers replace default ones and may be repeated.
        headers.extend(user_headers);
        let host = args.host.as_deref().unwrap_or(&endpoint.authority);
        let host = HeaderValue::try_from(host).map_err(|_| "--host: invalid host name".to_owned())?;
        headers.insert(header::HOST, host);
        let body = args.data.clone().map_or_else(Bytes::new, Bytes::from);
        Ok(Self { method, uri, headers, body, timeout: args.timeout })
    }
}

/// Parses the target URL.
pub(crate) fn url(text: &str) -> Result<Endpoint, String> {
    if text.contains('#') {
        return Err("a fragment is never sent: remove the part after #".to_owned());
    }
    Endpoint::parse(text, &URL_HINTS)
}

/// Parses an HTTP method.
pub(crate) fn method(text: &str) -> Result<Method, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
        return Err("methods are uppercase, such as GET".to_owned());
    }
    text.parse().map_err(|_| "not an HTTP method: expected a method such as GET".to_owned())
}

/// Parses `10`, `10/s` or `0.5/s`.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || b"._".contains(&byte));
    let rate = number.replace('_', "").parse().ok().filter(|_| is_plain);
    match rate {
        Some(rate) if (1.0..=1e6).contains(&rate) => Ok(rate),
        Some(_) => Err("the rate must be from 1/s to 1000000/s".to_owned()),
        None => Err("expected requests per second, such as 10 or 10/s".to_owned()),
    }
}

/// Parses the growth factor.
pub(crate) fn grow(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(grow) if (1.05..=10.0).contains(&grow) => Ok(grow),
        _ => Err("the factor must be a number from 1.05 to 10".to_owned()),
    }
}

/// Parses `20%` as a fraction.
pub(crate) fn buffer(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (0.0..=95.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected a percentage from 0% to 95%".to_owned()),
    }
}

/// Parses the step duration.
pub(crate) fn step(text: &str) -> Result<Duration, String> {
    parse_duration_within(
        text,
        Duration::from_millis(200),
        Duration::from_secs(600),
        "the duration must be from 200ms to 10m",
    )
}

/// Parses the maximum duration of the test.
pub(crate) fn max_time(text: &str) -> Result<Duration, String> {
    parse_duration_within(
        text,
        Duration::from_secs(1),
        Duration::from_secs(86_400),
        "the duration must be from 1s to 1d",
    )
}

/// Parses the request timeout.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    parse_duration_within(
        text,
        Duration::from_millis(1),
        Duration::from_secs(300),
        "the duration must be from 1ms to 5m",
    )
}

fn parse_duration_within(text: &str, min: Duration, max: Duration, range: &str) -> Result<Duration, String> {
    let time = parse::duration(text).map_err(|error| error.to_string())?;
    if (min..=max).contains(&time) { Ok(time) } else { Err(range.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_keep_path_and_query() {
        let endpoint = url("https://shop.example/api/orders/?draft=1").unwrap();
        assert_eq!((endpoint.path.as_str(), endpoint.query.as_deref()), ("/api/orders/", Some("draft=1")));
        assert_eq!(endpoint.to_string(), "https://shop.example/api/orders/?draft=1");
        assert_eq!(url("localhost:8080").unwrap().path, "/");
        for text in ["", "ftp://x", "http://me:pw@x/", "http://x/#y", "http://x:y/"] {
            assert!(url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!((rate("10"), rate("1.5/s"), rate("100_000/s")), (Ok(10.0), Ok(1.5), Ok(100_000.0)));
        for text in ["", "0", "-1", "inf", "NaN", "1e3", "10/m", "0.5", "2000000"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert_eq!((buffer("20%"), buffer("0"), buffer("12.5 %")), (Ok(0.2), Ok(0.0), Ok(0.125)));
        for text in ["", "%", "-1%", "100%", "NaN%"] {
            assert!(buffer(text).is_err(), "{text}");
        }
        assert_eq!(grow("2"), Ok(2.0));
        for text in ["1", "inf", "NaN", "", "11"] {
            assert!(grow(text).is_err(), "{text}");
        }
        assert!(step("100ms").is_err() && step("5").is_err() && max_time("2d").is_err() && timeout("0ms").is_err());
    }
}
