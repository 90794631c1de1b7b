//! Parsers of argument values.

use std::time::Duration;

use sluicegate_engine::limit::parse;
use sluicegate_http_client::{Endpoint, UrlErrorHints};

/// Minimum interval: ticks arrive once per second.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(3_600);

const URL_HINTS: UrlErrorHints =
    UrlErrorHints { example: "http://127.0.0.1:9900", secret: "do not put a token into the URL: use --token-file" };

/// Parses the admin API endpoint: a URL, or `host:port`. Its path is a prefix of the routes: empty, or beginning
/// with `/` and without a trailing one.
pub fn parse_admin_url(text: &str) -> Result<Endpoint, String> {
    let endpoint = Endpoint::parse(text, &URL_HINTS)?;
    if endpoint.query.is_some() || text.contains('#') {
        return Err("a query or fragment is not allowed: remove the part after ? or #".to_owned());
    }
    let path = endpoint.path.trim_end_matches('/').to_owned();
    Ok(Endpoint { path, ..endpoint })
}

/// Parses `2s`, or a number of seconds.
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    let with_unit = if text.bytes().all(|byte| byte.is_ascii_digit()) { format!("{text}s") } else { text.to_owned() };
    let interval = parse::duration(&with_unit).map_err(|error| error.to_string())?;
    if (MIN_INTERVAL..=MAX_INTERVAL).contains(&interval) {
        Ok(interval)
    } else {
        Err("the interval must be from 1s to 1h".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let cases = [
            ("http://127.0.0.1:9900", "127.0.0.1", 9900, "", "http://127.0.0.1:9900"),
            ("http://127.0.0.1:9900/", "127.0.0.1", 9900, "", "http://127.0.0.1:9900"),
            ("localhost:9900", "localhost", 9900, "", "http://localhost:9900"),
            ("localhost", "localhost", 80, "", "http://localhost"),
            ("https://flow.example/admin/", "flow.example", 443, "/admin", "https://flow.example/admin"),
            ("http://[::1]:9900", "::1", 9900, "", "http://[::1]:9900"),
            ("HTTP://Host:1", "Host", 1, "", "http://Host:1"),
        ];
        for (text, host, port, path, shown) in cases {
            let endpoint = parse_admin_url(text).unwrap();
            assert_eq!((endpoint.host.as_str(), endpoint.port, endpoint.path.as_str()), (host, port, path), "{text}");
            assert_eq!(endpoint.to_string(), shown);
        }
        let invalid = [
            "",
            "ftp://x",
            "http://",
            "http://:80",
            "http://me:pw@host",
            "http://host/?x=1",
            "http://host/#x",
            "http://a b",
            "host:99999",
            "host:port",
            "host:",
            "/path",
            "http://host\n",
        ];
        for text in invalid {
            assert!(parse_admin_url(text).is_err(), "{text:?}: {:?}", parse_admin_url(text));
        }
    }

    #[test]
    fn intervals_are_parsed() {
        assert_eq!(parse_interval("2"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_interval("1m"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_interval("1500ms"), Ok(Duration::from_millis(1_500)));
        for text in ["", "0", "0s", "-1", "999ms", "2h", "soon", "99999999999999999999", "1.5"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }
}
