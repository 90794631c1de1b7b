//! Who may ask: the file of tokens.
//!
//! A line is `TOKEN`, `NAME TOKEN` or `NAME TOKEN read`; blank lines and those that begin with `#` do not count. The
//! name is who is noted as the author of changes; `read` may look, and change nothing.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq;
use thiserror::Error;

/// The shortest token, in characters: what is shorter can be guessed.
const SHORTEST: usize = 16;

/// The longest token, in characters.
const LONGEST: usize = 1_024;

/// The longest name, in characters.
const LONGEST_NAME: usize = 64;

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Who has a token without a name.
const NAMELESS: &str = "admin";

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Look.
    Read,
    /// Look, and change.
    Write,
}

impl Access {
    /// As answers have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Why there are no tokens.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The file cannot be read.
    #[error("cannot read the tokens in {file}: {source}")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line that makes no sense.
    #[error("{file}:{line}: {fault}")]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it, and the remedy. No token is in it.
        fault: String,
    },
    /// There is nothing in it.
    #[error("{file} has no token in it: write one, such as of `openssl rand -hex 32`")]
    Empty {
        /// The file.
        file: PathBuf,
    },
}

/// The tokens there are. They are never printed.
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
    /// Reads a file.
    pub(crate) fn read(file: &Path) -> Result<Self, TokensError> {
        let unreadable = |source| TokensError::Unreadable { file: file.to_owned(), source };
        let size = fs::metadata(file).map_err(unreadable)?.len();
        if size > LARGEST {
            return Err(unreadable(io::Error::other(format!("it has {size} bytes, which is no file of tokens"))));
        }
        Self::parse(file, &fs::read_to_string(file).map_err(unreadable)?)
    }

    /// What an operator should know of a file that can be used all the same.
    pub(crate) fn remark(file: &Path) -> Option<String> {
        let others = fs::metadata(file).ok()?.permissions().mode() & 0o044;
        let remark = || format!("{0} can be read by others on this machine: `chmod 600 {0}`", file.display());
        (others != 0).then(remark)
    }

    fn parse(file: &Path, text: &str) -> Result<Self, TokensError> {
        let mut tokens: Vec<Token> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let at = index + 1;
            let fault = |fault: String| TokensError::Line { file: file.to_owned(), line: at, fault };
            let Some(token) = Token::parse(line, at).map_err(fault)? else { continue };
            for known in &tokens {
                if known.name == token.name {
                    let (name, before) = (&known.name, known.line);
                    return Err(fault(format!("'{name}' is in line {before} already: give each token its own name")));
                }
                if known.secret == token.secret {
                    return Err(fault(format!("the token is that of line {}: make another", known.line)));
                }
            }
            tokens.push(token);
        }
        if tokens.is_empty() { Err(TokensError::Empty { file: file.to_owned() }) } else { Ok(Self(tokens)) }
    }

    /// Who shows this token, and what they may do. How long that takes tells neither which one it is nor where it
    /// differs.
    pub(crate) fn who(&self, shown: &[u8]) -> Option<(&str, Access)> {
        self.0.iter().fold(None, |found, token| {
            let is_it: bool = token.secret.ct_eq(shown).into();
            if is_it { Some((token.name.as_str(), token.access)) } else { found }
        })
    }
}

impl Token {
    /// Reads a line, if there is anything in it.
    fn parse(line: &str, at: usize) -> Result<Option<Self>, String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, secret, access) = match *words {
            [secret] => (NAMELESS, secret, Access::Write),
            [_, "read"] => return Err("the name or the token is missing: write NAME TOKEN read".to_owned()),
            [name, secret] => (name, secret, Access::Write),
            [name, secret, "read"] => (name, secret, Access::Read),
            [_, _, _] => return Err("after the token there may be `read`, and nothing else".to_owned()),
            _ => return Err(format!("it has {} words: write TOKEN, NAME TOKEN or NAME TOKEN read", words.len())),
        };
        if name.chars().count() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(format!("the name has more than {LONGEST_NAME} characters, or such as cannot be shown"));
        }
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the token has characters that cannot be sent: use letters, digits and ASCII signs".to_owned());
        }
        if !(SHORTEST..=LONGEST).contains(&secret.len()) {
            return Err(format!(
                "the token has {} characters: give it {SHORTEST} to {LONGEST}, such as of `openssl rand -hex 32`",
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
    fn a_line_is_a_token_with_who_has_it_and_what_they_may() {
        let text = "# ours\n\n0123456789abcdef\nalice  alice-alice-alice\r\nbob bob-bob-bob-bob-b read\n";
        let tokens = parse(text).unwrap();
        for (shown, who) in [
            ("0123456789abcdef", Some(("admin", Access::Write))),
            ("alice-alice-alice", Some(("alice", Access::Write))),
            ("bob-bob-bob-bob-b", Some(("bob", Access::Read))),
            ("", None),
            ("0123456789abcde", None),
            ("0123456789abcdeF", None),
            ("0123456789abcdef ", None),
            ("# ours", None),
        ] {
            assert_eq!(tokens.who(shown.as_bytes()), who, "{shown}");
        }
        assert!(!format!("{tokens:?}").contains("alice-"));
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_line_and_never_with_the_token() {
        let long = "x".repeat(LONGEST + 1);
        for (text, fault) in [
            ("short", "tokens:1: the token has 5 characters: give it 16 to 1024"),
            (long.as_str(), "tokens:1: the token has 1025 characters"),
            ("\n\nalice read", "tokens:3: the name or the token is missing: write NAME TOKEN read"),
            ("alice 0123456789abcdef write", "tokens:1: after the token there may be `read`"),
            ("a b c d e", "tokens:1: it has 5 words"),
            ("alice 0123456789abcd\u{e9}f", "tokens:1: the token has characters that cannot be sent"),
            ("0123456789abcdef\nfedcba9876543210", "tokens:2: 'admin' is in line 1 already"),
            ("a 0123456789abcdef\nb 0123456789abcdef", "tokens:2: the token is that of line 1"),
            ("# nothing\n", "tokens has no token in it"),
            ("", "tokens has no token in it"),
        ] {
            let told = parse(text).unwrap_err();
            assert!(told.starts_with(fault), "{told}");
            assert!(!told.contains("0123456789abcdef"), "{told}");
        }
    }
}
