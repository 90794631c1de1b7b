//! Parsers of argument values.

use std::time::Duration;

use http::Method;
use sluicegate_engine::limit::parse;
use sluicegate_http_client::{Endpoint, UrlErrorHints};

const URL_HINTS: UrlErrorHints = UrlErrorHints {
    example: "http://127.0.0.1:8080/path",
    secret: "do not put a password into the URL: use -H 'authorization: ...'",
};

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
