//! Target of `top`: validated endpoint, token and interval.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use http::header::HeaderValue;
use sluicegate_engine::limit::parse;

use crate::args;
use crate::endpoint::{Endpoint, UrlErrorHints};

/// Environment variable with the token, if no file is given.
const TOKEN_VARIABLE: &str = "SLUICEGATE_TOKEN";
/// Maximum size of a token file.
const MAX_TOKEN_FILE_BYTES: u64 = 64 << 10;
/// Minimum interval: ticks arrive once per second.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(3_600);

const URL_HINTS: UrlErrorHints =
    UrlErrorHints { example: "http://127.0.0.1:9900", secret: "do not put a token into the URL: use --token-file" };

/// Process to watch, and its settings.
#[derive(Clone, Debug)]
pub(super) struct AdminTarget {
    pub(super) endpoint: Endpoint,
    /// The `Authorization` header; its `Debug` form does not show it.
    pub(super) authorization: Option<HeaderValue>,
    pub(super) interval: Duration,
}

impl AdminTarget {
    /// Validates the arguments. The error is a message for the user.
    pub(super) fn new(args: &args::Top) -> Result<Self, String> {
        let authorization = match (&args.token_file, std::env::var(TOKEN_VARIABLE)) {
            (Some(path), _) => Some(read_token(path)?),
            (None, Ok(token)) if !token.trim().is_empty() => {
                Some(authorization(token.trim()).map_err(|error| format!("{TOKEN_VARIABLE}: {error}"))?)
            }
            (None, Err(std::env::VarError::NotUnicode(_))) => {
                return Err(format!("{TOKEN_VARIABLE}: a token must consist of visible ASCII characters"));
            }
            (None, _) => None,
        };
        Ok(Self { endpoint: args.url.clone(), authorization, interval: args.interval })
    }
}

/// Parses the admin API endpoint: a URL, or `host:port`. Its path is a prefix of the routes: empty, or beginning
/// with `/` and without a trailing one.
pub(crate) fn parse_endpoint(text: &str) -> Result<Endpoint, String> {
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

/// Reads the first token of a file: alone on its line, or after a name, as in the file named by `admin.token_file`.
fn read_token(path: &Path) -> Result<HeaderValue, String> {
    let file_error = |message: &str| format!("{}: {message}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| file_error(&error.to_string()))?;
    let read =
        file.take(MAX_TOKEN_FILE_BYTES).read_to_string(&mut text).map_err(|error| file_error(&error.to_string()))?;
    if read as u64 == MAX_TOKEN_FILE_BYTES {
        return Err(file_error("not a token file: it is too large"));
    }
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    match words[..] {
        [token] | [_, token] | [_, token, _] => authorization(token).map_err(|error| file_error(&error)),
        [] => Err(file_error("the file contains no token")),
        _ => Err(file_error("invalid first line: expected `TOKEN` or `NAME TOKEN`")),
    }
}

fn authorization(token: &str) -> Result<HeaderValue, String> {
    let is_valid = token.bytes().all(|byte| byte.is_ascii_graphic());
    let value = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| is_valid);
    let mut value = value.ok_or("a token must consist of visible ASCII characters")?;
    value.set_sensitive(true);
    Ok(value)
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
            let endpoint = parse_endpoint(text).unwrap();
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
            assert!(parse_endpoint(text).is_err(), "{text:?}: {:?}", parse_endpoint(text));
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

    #[test]
    fn tokens_are_not_in_debug_output() {
        let value = authorization("open-sesame").unwrap();
        assert_eq!(value.as_bytes(), b"Bearer open-sesame");
        assert!(!format!("{value:?}").contains("sesame"));
        for token in ["a b", "a\n", "größe", "\0"] {
            assert!(authorization(token).is_err(), "{token:?}");
        }
    }
}
