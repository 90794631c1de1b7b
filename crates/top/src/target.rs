//! Target of `top`: validated endpoint, token and interval.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use http::header::HeaderValue;
use sluicegate_http_client::Endpoint;

use crate::args::TopArgs;

/// Environment variable with the token, if no file is given.
const TOKEN_VARIABLE: &str = "SLUICEGATE_TOKEN";
/// Maximum size of a token file.
const MAX_TOKEN_FILE_BYTES: u64 = 64 << 10;

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
    pub(super) fn new(args: &TopArgs) -> Result<Self, String> {
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
    fn tokens_are_not_in_debug_output() {
        let value = authorization("open-sesame").unwrap();
        assert_eq!(value.as_bytes(), b"Bearer open-sesame");
        assert!(!format!("{value:?}").contains("sesame"));
        for token in ["a b", "a\n", "größe", "\0"] {
            assert!(authorization(token).is_err(), "{token:?}");
        }
    }
}
