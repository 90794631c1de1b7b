//! Request attributes, as named in keys, conditions and costs.
//!
//! Five attributes are built in; five kinds are looked up by a name in brackets; any other word is a custom
//! attribute provided by the adapter or by the program that uses the library. A word that looks like a typo of
//! a built-in attribute is rejected: as a custom attribute it would always be absent, and its rule would never
//! limit anything.
//!
//! ```
//! use sluicegate_engine::rule::Attribute;
//!
//! assert_eq!("client.ip".parse(), Ok(Attribute::ClientIp));
//! assert_eq!("header['X-Tier']".parse(), Ok(Attribute::Header("x-tier".into())));
//! assert_eq!("account".parse(), Ok(Attribute::Custom("account".into())));
//!
//! let error = "client_ip".parse::<Attribute>().unwrap_err();
//! assert_eq!(error.to_string(), "unknown attribute 'client_ip': did you mean client.ip?");
//! ```

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::quote::{Quoted, read_quoted};
use crate::spelling::within_one_edit;

/// Named property of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Attribute {
    /// Client address, as determined by the adapter: `client.ip`.
    ClientIp,
    /// Called service: `service`.
    Service,
    /// Method: `method`.
    Method,
    /// Host of the request: `host`.
    Host,
    /// Path: `path`.
    Path,
    /// Header, by its lower-case name: `header['x-tier']`.
    Header(String),
    /// Query parameter: `query['q']`.
    Query(String),
    /// Cookie: `cookie['sid']`.
    Cookie(String),
    /// Parameter of the matched path pattern: `param['id']`.
    Param(String),
    /// Descriptor entry, by its key: `descriptor['remote_address']`.
    Descriptor(String),
    /// Custom attribute provided by the adapter: `account`, `api_key`, `jwt.sub`.
    Custom(String),
}

/// Error of parsing an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct AttributeError {
    /// Problem and remedy.
    pub message: String,
}

/// Attributes without brackets.
const PLAIN_ATTRIBUTES: [(&str, Attribute); 5] = [
    ("client.ip", Attribute::ClientIp),
    ("service", Attribute::Service),
    ("method", Attribute::Method),
    ("host", Attribute::Host),
    ("path", Attribute::Path),
];

/// Attributes that take a name in brackets.
const BRACKETED_KINDS: [&str; 5] = ["header", "query", "cookie", "param", "descriptor"];

/// Reserved words of the condition syntax; they cannot name an attribute.
const RESERVED: [&str; 4] = ["has", "in", "true", "false"];

/// Valid names that are close to a built-in one by spelling.
const NOT_TYPOS: [&str; 1] = ["clientid"];

impl Attribute {
    /// Header of this name, in any case.
    pub fn header(name: impl AsRef<str>) -> Self {
        Self::Header(name.as_ref().to_ascii_lowercase())
    }

    /// Custom attribute of this name.
    pub fn custom(name: impl Into<String>) -> Self {
        Self::Custom(name.into())
    }
}

impl FromStr for Attribute {
    type Err = AttributeError;

    fn from_str(text: &str) -> Result<Self, AttributeError> {
        let text = text.trim();
        match text.split_once('[') {
            Some((head, _)) => parse_bracketed(text, head.trim_end()),
            None => parse_plain(text),
        }
    }
}

fn parse_plain(text: &str) -> Result<Attribute, AttributeError> {
    if let Some((_, attribute)) = PLAIN_ATTRIBUTES.iter().find(|(name, _)| *name == text) {
        return Ok(attribute.clone());
    }
    if text.is_empty() {
        return error("empty attribute: name one, such as client.ip, header['x-tier'] or account".to_owned());
    }
    if !is_identifier(text) {
        let excerpt = QuotedExcerpt(text);
        return error(format!(
            "{excerpt} is not an attribute: a name starts with a letter and contains letters, digits, '_', '.' and '-'"
        ));
    }
    if RESERVED.contains(&text) {
        return error(format!("'{text}' is reserved in conditions: rename the attribute"));
    }
    let (head, tail) = text.split_once('.').unwrap_or((text, "NAME"));
    if let Some(head) = bracketed_kind_like(head) {
        return error(format!("'{text}' is missing its brackets: did you mean {head}['{tail}']?"));
    }
    match PLAIN_ATTRIBUTES.iter().find(|(name, _)| is_typo(text, name)) {
        Some((name, _)) => error(format!("unknown attribute '{text}': did you mean {name}?")),
        None => Ok(Attribute::Custom(text.to_owned())),
    }
}

fn parse_bracketed(text: &str, head: &str) -> Result<Attribute, AttributeError> {
    let rest = text[head.len()..].trim_start();
    let inside = rest.strip_prefix('[').unwrap_or(rest).trim_start();
    let (name, consumed) = read_quoted(inside).map_err(|fault| AttributeError {
        message: format!("in the brackets of {}: {}", QuotedExcerpt(head), fault.message),
    })?;
    match inside[consumed..].trim_start() {
        "]" => {}
        "" => return error(format!("{} is missing the closing bracket ]", QuotedExcerpt(text))),
        _ => {
            return error(format!("unexpected text at the end of {}: write {head}['NAME']", QuotedExcerpt(text)));
        }
    }
    if name.is_empty() {
        return error(format!("the name in the brackets of {} is empty", QuotedExcerpt(head)));
    }
    match head {
        "header" => Ok(Attribute::header(name)),
        "query" => Ok(Attribute::Query(name)),
        "cookie" => Ok(Attribute::Cookie(name)),
        "param" => Ok(Attribute::Param(name)),
        "descriptor" => Ok(Attribute::Descriptor(name)),
        _ => match bracketed_kind_like(head) {
            Some(known) => error(format!("unknown attribute '{head}': did you mean {known}[{}]?", Quoted(&name))),
            None => error(format!(
                "{} takes no brackets: only header, query, cookie, param and descriptor do",
                QuotedExcerpt(head)
            )),
        },
    }
}

fn error<T>(message: String) -> Result<T, AttributeError> {
    Err(AttributeError { message })
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(is_identifier_byte)
}

/// True if an attribute name may contain this byte.
pub(super) fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

/// Bracketed kind that a word is, or is probably meant to be.
fn bracketed_kind_like(word: &str) -> Option<&'static str> {
    let word = normalised(word);
    let word = if word == "queries" { "query" } else { word.strip_suffix('s').unwrap_or(&word) };
    BRACKETED_KINDS.into_iter().find(|known| *known == word)
}

/// True if `word` is probably a misspelling of `known`.
fn is_typo(word: &str, known: &str) -> bool {
    let word = normalised(word);
    let known = normalised(known);
    // Between short words one letter is not enough evidence: "cost" is not "host".
    let near = known.len() >= 6 && within_one_edit(&word, &known);
    (near || word.strip_suffix('s').unwrap_or(&word) == known) && !NOT_TYPOS.contains(&word.as_str())
}

/// Letters and digits only, in lower case.
pub(super) fn normalised(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Text in an error message: quoted, and truncated if long.
pub(super) struct QuotedExcerpt<'a>(pub(super) &'a str);

impl fmt::Display for QuotedExcerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_CHARS: usize = 60;
        match self.0.char_indices().nth(MAX_CHARS) {
            Some((end, _)) => write!(f, "{}...", Quoted(&self.0[..end])),
            None => Quoted(self.0).fmt(f),
        }
    }
}

/// Formats the notation that [`FromStr`] parses.
impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientIp => f.write_str("client.ip"),
            Self::Service => f.write_str("service"),
            Self::Method => f.write_str("method"),
            Self::Host => f.write_str("host"),
            Self::Path => f.write_str("path"),
            Self::Header(name) => write!(f, "header[{}]", Quoted(name)),
            Self::Query(name) => write!(f, "query[{}]", Quoted(name)),
            Self::Cookie(name) => write!(f, "cookie[{}]", Quoted(name)),
            Self::Param(name) => write!(f, "param[{}]", Quoted(name)),
            Self::Descriptor(name) => write!(f, "descriptor[{}]", Quoted(name)),
            Self::Custom(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Attribute, String> {
        text.parse::<Attribute>().map_err(|error| error.message)
    }

    #[test]
    fn attributes_round_trip() {
        for text in [
            "client.ip",
            "service",
            "method",
            "host",
            "path",
            "header['x-tier']",
            "query['q']",
            "cookie['sid']",
            "param['id']",
            "descriptor['remote_address']",
            "account",
            "api_key",
            "jwt.sub",
            "client_id",
            "cost",
            "tenant-2",
            "post",
            "header[\"it's\"]",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse(r#" header[ "X-Tier" ] "#), Ok(Attribute::Header("x-tier".into())));
        assert_eq!(parse("query['Q']"), Ok(Attribute::Query("Q".into())));
    }

    #[test]
    fn typos_get_a_suggestion() {
        for (text, suggestion) in [
            ("client_ip", "client.ip?"),
            ("clientip", "client.ip?"),
            ("clientIp", "client.ip?"),
            ("clinet.ip", "client.ip?"),
            ("Host", "host?"),
            ("paths", "path?"),
            ("servise", "service?"),
            ("metod", "method?"),
            ("headers['x']", "header['x']?"),
            ("Cookie['x']", "cookie['x']?"),
            ("queries['x']", "query['x']?"),
            ("header", "header['NAME']?"),
            ("header.x-tier", "header['x-tier']?"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.ends_with(&format!("did you mean {suggestion}")), "{text}: {message}");
        }
    }

    #[test]
    fn malformed_attributes_are_rejected() {
        for text in [
            "",
            " ",
            "1st",
            "a b",
            "_x",
            "header[]",
            "header['']",
            "header['x'",
            "header['x']y",
            "header[x]",
            "x['y']",
            "[",
            "['x']",
            "in",
            "has",
            "true",
            "h\u{e9}ader",
            "a\0b",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsed_attributes_round_trip(text in "\\PC*|[a-z]{1,7}(\\['.*'\\])?") {
            if let Ok(attribute) = text.parse::<Attribute>() {
                prop_assert_eq!(attribute.to_string().parse(), Ok(attribute));
            }
        }
    }
}
