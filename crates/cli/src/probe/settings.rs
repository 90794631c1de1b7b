//! The arguments as they were typed, one by one and together.

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use sluicegate_engine::limit::parse;

use super::search::Course;
use super::verdict::Demands;
use crate::args;
use crate::place::{Place, Wording};

const WORDING: Wording = Wording {
    example: "http://127.0.0.1:8080/path",
    secret: "a password does not belong into the URL: give it with -H 'authorization: ...'",
};

/// Headers that are not for the user to set, and what to do instead.
const NOT_BY_HAND: [(HeaderName, &str); 4] = [
    (header::HOST, "give it with --host"),
    (header::CONTENT_LENGTH, "it follows from --data"),
    (header::TRANSFER_ENCODING, "it follows from --data"),
    (header::CONNECTION, "connections are kept"),
];

/// How to load the target, and what to ask of it.
pub(super) struct Settings {
    pub(super) course: Course,
    pub(super) demands: Demands,
    pub(super) step: Duration,
    pub(super) max_time: Duration,
    pub(super) max_in_flight: usize,
}

/// The request that is sent again and again.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) method: Method,
    /// Path and query.
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) timeout: Duration,
}

impl Settings {
    pub(super) fn new(args: &args::Probe) -> Result<Self, String> {
        if args.to < args.from {
            return Err("--to is less than --from".to_owned());
        }
        if args.max_time < args.step {
            return Err("--max-time is shorter than one --step".to_owned());
        }
        Ok(Self {
            course: Course { from: args.from, to: args.to, grow: args.grow },
            demands: Demands { p99: args.p99, late: args.max_late },
            step: args.step,
            max_time: args.max_time,
            max_in_flight: args.max_in_flight as usize,
        })
    }
}

impl Question {
    pub(super) fn new(args: &args::Probe) -> Result<Self, String> {
        let place = &args.url;
        let query = place.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
        let uri = format!("{}{query}", place.path).parse().map_err(|error| format!("{}: {error}", place.path))?;
        let method = match (&args.method, &args.data) {
            (Some(method), _) => method.clone(),
            (None, Some(_)) => Method::POST,
            (None, None) => Method::GET,
        };
        let mut headers = HeaderMap::new();
        let agent = HeaderValue::from_static(concat!("sluicegate-probe/", env!("CARGO_PKG_VERSION")));
        headers.insert(header::USER_AGENT, agent);
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        let mut given = HeaderMap::new();
        for (name, value) in &args.headers {
            let wrong = |why: &str| format!("header {name}: {why}");
            let name = HeaderName::try_from(name).map_err(|error| wrong(&error.to_string()))?;
            if let Some((_, instead)) = NOT_BY_HAND.iter().find(|(not, _)| *not == name) {
                return Err(wrong(instead));
            }
            let value =
                HeaderValue::try_from(value).map_err(|_| wrong("its value has other than visible characters"))?;
            given.append(name, value);
        }
        // What is given takes the place of what would be sent, and may be given several times.
        headers.extend(given);
        let host = args.host.as_deref().unwrap_or(&place.authority);
        let host = HeaderValue::try_from(host).map_err(|_| "--host: this is no name of a host".to_owned())?;
        headers.insert(header::HOST, host);
        let body = args.data.clone().map_or_else(Bytes::new, Bytes::from);
        Ok(Self { method, uri, headers, body, timeout: args.timeout })
    }
}

/// Reads the URL to load.
pub(crate) fn url(text: &str) -> Result<Place, String> {
    if text.contains('#') {
        return Err("what comes after # is never sent: leave it out".to_owned());
    }
    Place::read(text, &WORDING)
}

/// Reads a method.
pub(crate) fn method(text: &str) -> Result<Method, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
        return Err("methods are written in capital letters, such as GET".to_owned());
    }
    text.parse().map_err(|_| "it is no method: write one such as GET".to_owned())
}

/// Reads `10`, `10/s` or `0.5/s`.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || b"._".contains(&byte));
    let rate = number.replace('_', "").parse().ok().filter(|_| is_plain);
    match rate {
        Some(rate) if (1.0..=1e6).contains(&rate) => Ok(rate),
        Some(_) => Err("it is from 1/s to 1000000/s".to_owned()),
        None => Err("it is requests per second, such as 10 or 10/s".to_owned()),
    }
}

/// Reads how many times the step before a step is.
pub(crate) fn grow(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(grow) if (1.05..=10.0).contains(&grow) => Ok(grow),
        _ => Err("it is a number from 1.05 to 10".to_owned()),
    }
}

/// Reads `20%`, as a share of one.
pub(crate) fn buffer(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (0.0..=95.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("it is a percentage from 0% to 95%".to_owned()),
    }
}

/// Reads how long a step is.
pub(crate) fn step(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(200), Duration::from_secs(600), "it is from 200ms to 10m")
}

/// Reads how long everything may take.
pub(crate) fn max_time(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_secs(1), Duration::from_secs(86_400), "it is from 1s to 1d")
}

/// Reads how long one request may take.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(1), Duration::from_secs(300), "it is from 1ms to 5m")
}

fn within(text: &str, least: Duration, most: Duration, range: &str) -> Result<Duration, String> {
    let time = parse::duration(text).map_err(|error| error.to_string())?;
    if (least..=most).contains(&time) { Ok(time) } else { Err(range.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_keep_what_is_asked() {
        let place = url("https://shop.example/api/orders/?draft=1").unwrap();
        assert_eq!((place.path.as_str(), place.query.as_deref()), ("/api/orders/", Some("draft=1")));
        assert_eq!(place.to_string(), "https://shop.example/api/orders/?draft=1");
        assert_eq!(url("localhost:8080").unwrap().path, "/");
        for text in ["", "ftp://x", "http://me:pw@x/", "http://x/#y", "http://x:y/"] {
            assert!(url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_have_their_bounds() {
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
