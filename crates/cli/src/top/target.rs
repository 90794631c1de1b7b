//! Which process is watched, and with which token: arguments as they were typed, made sure of.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use http::header::HeaderValue;
use sluicegate_engine::limit::parse;

use crate::args;
use crate::place::{Place, Wording};

/// Where the token is if no file is named.
const TOKEN_VARIABLE: &str = "SLUICEGATE_TOKEN";
/// A file of tokens is never this long.
const LONGEST_FILE: u64 = 64 << 10;
/// Figures come once a second.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
const LONGEST_INTERVAL: Duration = Duration::from_secs(3_600);

const WORDING: Wording = Wording {
    example: "http://127.0.0.1:9900",
    secret: "a token does not belong into the URL: give it with --token-file",
};

/// What is watched, and how.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) place: Place,
    /// The whole `Authorization` header; its `Debug` form does not show it.
    pub(super) authorization: Option<HeaderValue>,
    pub(super) interval: Duration,
}

impl Target {
    /// Fails with what is wrong, for people.
    pub(super) fn new(args: &args::Top) -> Result<Self, String> {
        let authorization = match (&args.token_file, std::env::var(TOKEN_VARIABLE)) {
            (Some(path), _) => Some(read_token(path)?),
            (None, Ok(token)) if !token.trim().is_empty() => {
                Some(authorization(token.trim()).map_err(|wrong| format!("{TOKEN_VARIABLE}: {wrong}"))?)
            }
            (None, Err(std::env::VarError::NotUnicode(_))) => {
                return Err(format!("{TOKEN_VARIABLE}: a token has only visible ASCII characters"));
            }
            (None, _) => None,
        };
        Ok(Self { place: args.url.clone(), authorization, interval: args.interval })
    }
}

/// Reads where an admin API is: a URL, or `host:port`. Its path comes before the routes: empty, or `/` and more, but
/// not at its end.
pub(crate) fn place(text: &str) -> Result<Place, String> {
    let place = Place::read(text, &WORDING)?;
    if place.query.is_some() || text.contains('#') {
        return Err("it ends with the path: leave out what comes after ? or #".to_owned());
    }
    let path = place.path.trim_end_matches('/').to_owned();
    Ok(Place { path, ..place })
}

/// Reads `2s`, or a number of seconds.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let with_unit = if text.bytes().all(|byte| byte.is_ascii_digit()) { format!("{text}s") } else { text.to_owned() };
    let interval = parse::duration(&with_unit).map_err(|error| error.to_string())?;
    if (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&interval) {
        Ok(interval)
    } else {
        Err("it is from 1s to 1h".to_owned())
    }
}

/// The first token of a file: alone on its line, or after a name, as in the file that `admin.token` names.
fn read_token(path: &Path) -> Result<HeaderValue, String> {
    let wrong = |why: &str| format!("{}: {why}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| wrong(&error.to_string()))?;
    let read = file.take(LONGEST_FILE).read_to_string(&mut text).map_err(|error| wrong(&error.to_string()))?;
    if read as u64 == LONGEST_FILE {
        return Err(wrong("this is no file of tokens: it is far too long"));
    }
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    match words[..] {
        [token] | [_, token] | [_, token, _] => authorization(token).map_err(|why| wrong(&why)),
        [] => Err(wrong("there is no token in it")),
        _ => Err(wrong("its first line is neither `TOKEN` nor `NAME TOKEN`")),
    }
}

fn authorization(token: &str) -> Result<HeaderValue, String> {
    let is_fit = token.bytes().all(|byte| byte.is_ascii_graphic());
    let value = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| is_fit);
    let mut value = value.ok_or("a token has only visible ASCII characters")?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
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
            let place = place(text).unwrap();
            assert_eq!((place.host.as_str(), place.port, place.path.as_str()), (host, port, path), "{text}");
            assert_eq!(place.to_string(), shown);
        }
        let wrong = [
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
        for text in wrong {
            assert!(place(text).is_err(), "{text:?}: {:?}", place(text));
        }
    }

    #[test]
    fn intervals_are_read() {
        assert_eq!(interval("2"), Ok(Duration::from_secs(2)));
        assert_eq!(interval("1m"), Ok(Duration::from_secs(60)));
        assert_eq!(interval("1500ms"), Ok(Duration::from_millis(1_500)));
        for text in ["", "0", "0s", "-1", "999ms", "2h", "soon", "99999999999999999999", "1.5"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tokens_are_not_shown() {
        let value = authorization("open-sesame").unwrap();
        assert_eq!(value.as_bytes(), b"Bearer open-sesame");
        assert!(!format!("{value:?}").contains("sesame"));
        for token in ["a b", "a\n", "größe", "\0"] {
            assert!(authorization(token).is_err(), "{token:?}");
        }
    }
}
