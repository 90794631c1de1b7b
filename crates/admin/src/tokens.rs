//! Token file of the admin API.
//!
//! A line is `TOKEN`, `NAME TOKEN` or `NAME TOKEN read`; blank lines and lines that begin with `#` are ignored.
//! The name is recorded as the author of changes; `read` allows reading only.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use subtle::ConstantTimeEq;
use thiserror::Error;
use utoipa::ToSchema;

/// Minimum length of a token in characters: shorter ones can be guessed.
const MIN_TOKEN_CHARS: usize = 16;

/// Maximum length of a token, in characters.
const MAX_TOKEN_CHARS: usize = 1_024;

/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Name of a token without a name.
const DEFAULT_NAME: &str = "admin";

/// Access level of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// Read only.
    Read,
    /// Read and write.
    Write,
}

/// Error in the token file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The file cannot be read.
    #[error("cannot read the token file {file}: {source}")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A line is invalid.
    #[error("{file}:{line}: {error}")]
    InvalidLine {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The error and its remedy. Contains no token.
        error: String,
    },
    /// The file contains no token.
    #[error("{file} contains no token: add one, for example from `openssl rand -hex 32`")]
    Empty {
        /// The file.
        file: PathBuf,
    },
}

/// The configured tokens. Never printed.
#[derive(Clone)]
pub(crate) struct Tokens(Vec<Token>);

#[derive(Clone)]
struct Token {
    name: String,
    secret: Box<[u8]>,
    access: Access,
    line: usize,
}

impl Tokens {
    /// Reads a token file.
    pub(crate) fn read(file: &Path) -> Result<Self, TokensError> {
        let unreadable = |source| TokensError::Unreadable { file: file.to_owned(), source };
        let size = fs::metadata(file).map_err(unreadable)?.len();
        if size > MAX_FILE_BYTES {
            return Err(unreadable(io::Error::other(format!(
                "the file has {size} bytes, more than the limit of {MAX_FILE_BYTES}"
            ))));
        }
        Self::parse(file, &fs::read_to_string(file).map_err(unreadable)?)
    }

    /// Warning about a usable file with unsafe permissions.
    pub(crate) fn permission_warning(file: &Path) -> Option<String> {
        let others = fs::metadata(file).ok()?.permissions().mode() & 0o044;
        let warning = || format!("{0} is readable by other users: run `chmod 600 {0}`", file.display());
        (others != 0).then(warning)
    }

    fn parse(file: &Path, text: &str) -> Result<Self, TokensError> {
        let mut tokens: Vec<Token> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let at = index + 1;
            let invalid = |error: String| TokensError::InvalidLine { file: file.to_owned(), line: at, error };
            let Some(token) = Token::parse(line, at).map_err(invalid)? else { continue };
            for known in &tokens {
                if known.name == token.name {
                    let (name, before) = (&known.name, known.line);
                    return Err(invalid(format!(
                        "duplicate name '{name}', first used in line {before}: give each token its own name"
                    )));
                }
                if known.secret == token.secret {
                    return Err(invalid(format!(
                        "duplicate token, first used in line {}: generate another",
                        known.line
                    )));
                }
            }
            tokens.push(token);
        }
        if tokens.is_empty() { Err(TokensError::Empty { file: file.to_owned() }) } else { Ok(Self(tokens)) }
    }

    /// Returns the name and access level of a token. Compares in constant time: the duration reveals neither
    /// the matching token nor the position of a difference.
    pub(crate) fn identify(&self, presented: &[u8]) -> Option<(&str, Access)> {
        self.0.iter().fold(None, |found, token| {
            let is_it: bool = token.secret.ct_eq(presented).into();
            if is_it { Some((token.name.as_str(), token.access)) } else { found }
        })
    }
}

impl Token {
    /// Parses a line; `None` if it is blank or a comment.
    fn parse(line: &str, at: usize) -> Result<Option<Self>, String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, secret, access) = match *words {
            [secret] => (DEFAULT_NAME, secret, Access::Write),
            [_, "read"] => return Err("missing name or token: use NAME TOKEN read".to_owned()),
            [name, secret] => (name, secret, Access::Write),
            [name, secret, "read"] => (name, secret, Access::Read),
            [_, _, _] => return Err("unexpected word after the token: only `read` is allowed".to_owned()),
            _ => return Err(format!("{} words: use TOKEN, NAME TOKEN or NAME TOKEN read", words.len())),
        };
        if name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control) {
            return Err(format!("the name has more than {MAX_NAME_CHARS} characters or control characters"));
        }
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the token has invalid characters: use printable ASCII without spaces".to_owned());
        }
        if !(MIN_TOKEN_CHARS..=MAX_TOKEN_CHARS).contains(&secret.len()) {
            return Err(format!(
                "the token has {} characters: use {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS}, for example from `openssl rand -hex 32`",
                secret.len()
            ));
        }
        Ok(Some(Self { name: name.to_owned(), secret: secret.as_bytes().into(), access, line: at }))
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|token| (&token.name, token.access))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Tokens, String> {
        Tokens::parse(Path::new("tokens"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_give_token_name_and_access() {
        let text = "# ours\n\n0123456789abcdef\nalice  alice-alice-alice\r\nbob bob-bob-bob-bob-b read\n";
        let tokens = parse(text).unwrap();
        for (token, caller) in [
            ("0123456789abcdef", Some(("admin", Access::Write))),
            ("alice-alice-alice", Some(("alice", Access::Write))),
            ("bob-bob-bob-bob-b", Some(("bob", Access::Read))),
            ("", None),
            ("0123456789abcde", None),
            ("0123456789abcdeF", None),
            ("0123456789abcdef ", None),
            ("# ours", None),
        ] {
            assert_eq!(tokens.identify(token.as_bytes()), caller, "{token}");
        }
        assert!(!format!("{tokens:?}").contains("alice-"));
    }

    #[test]
    fn errors_name_the_line_and_never_the_token() {
        let long = "x".repeat(MAX_TOKEN_CHARS + 1);
        for (text, error) in [
            ("short", "tokens:1: the token has 5 characters: use 16 to 1024"),
            (long.as_str(), "tokens:1: the token has 1025 characters"),
            ("\n\nalice read", "tokens:3: missing name or token: use NAME TOKEN read"),
            ("alice 0123456789abcdef write", "tokens:1: unexpected word after the token"),
            ("a b c d e", "tokens:1: 5 words"),
            ("alice 0123456789abcd\u{e9}f", "tokens:1: the token has invalid characters"),
            ("0123456789abcdef\nfedcba9876543210", "tokens:2: duplicate name 'admin'"),
            ("a 0123456789abcdef\nb 0123456789abcdef", "tokens:2: duplicate token, first used in line 1"),
            ("# nothing\n", "tokens contains no token"),
            ("", "tokens contains no token"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.starts_with(error), "{message}");
            assert!(!message.contains("0123456789abcdef"), "{message}");
        }
    }
}
