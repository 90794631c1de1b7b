//! What a request can be told apart by.
//!
//! Rules name attributes in keys, conditions and costs. Five of them every request has a place for;
//! four kinds are looked up by a name in brackets; any other word is one the adapter, or the program
//! using the library, provides under that name. A word that looks like a slip of the pen for one of
//! the known ones is refused: as a name of its own it would always be absent, and its rule would never
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

/// A named property of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Attribute {
    /// The client's address, as the adapter established it: `client.ip`.
    ClientIp,
    /// The service called: `service`.
    Service,
    /// The method: `method`.
    Method,
    /// The host asked for: `host`.
    Host,
    /// The path: `path`.
    Path,
    /// A header, by its lower-case name: `header['x-tier']`.
    Header(String),
    /// A query parameter: `query['q']`.
    Query(String),
    /// A cookie: `cookie['sid']`.
    Cookie(String),
    /// A parameter of the matched path pattern: `param['id']`.
    Param(String),
    /// An entry of a descriptor, by its key: `descriptor['remote_address']`.
    Descriptor(String),
    /// Anything else the adapter provides, by name: `account`, `api_key`, `jwt.sub`.
    Custom(String),
}

/// Why a text names no attribute.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct AttributeError {
    /// What is wrong, and the remedy.
    pub message: String,
}

/// The attributes that stand alone.
const PLAIN: [(&str, Attribute); 5] = [
    ("client.ip", Attribute::ClientIp),
    ("service", Attribute::Service),
    ("method", Attribute::Method),
    ("host", Attribute::Host),
    ("path", Attribute::Path),
];

/// The attributes that take a name in brackets.
const NAMED: [&str; 5] = ["header", "query", "cookie", "param", "descriptor"];

/// Words of the condition notation, which cannot name an attribute too.
const RESERVED: [&str; 4] = ["has", "in", "true", "false"];

/// Close to a known name by spelling, yet names people mean.
const NOT_A_SLIP: [&str; 1] = ["clientid"];

impl Attribute {
    /// The header of this name, in whatever case.
    pub fn header(name: impl AsRef<str>) -> Self {
        Self::Header(name.as_ref().to_ascii_lowercase())
    }

    /// The attribute provided under this name.
    pub fn custom(name: impl Into<String>) -> Self {
        Self::Custom(name.into())
    }
}

impl FromStr for Attribute {
    type Err = AttributeError;

    fn from_str(text: &str) -> Result<Self, AttributeError> {
        let text = text.trim();
        match text.split_once('[') {
            Some((head, _)) => bracketed(text, head.trim_end()),
            None => plain(text),
        }
    }
}

fn plain(text: &str) -> Result<Attribute, AttributeError> {
    if let Some((_, attribute)) = PLAIN.iter().find(|(name, _)| *name == text) {
        return Ok(attribute.clone());
    }
    if text.is_empty() {
        return error("no attribute: name one, such as client.ip, header['x-tier'] or account".to_owned());
    }
    if !is_identifier(text) {
        let shown = Shown(text);
        return error(format!(
            "{shown} is no attribute: a name starts with a letter and has letters, digits, '_', '.' and '-'"
        ));
    }
    if RESERVED.contains(&text) {
        return error(format!("'{text}' has a meaning in conditions: give the attribute another name"));
    }
    let (head, tail) = text.split_once('.').unwrap_or((text, "NAME"));
    if let Some(head) = named_like(head) {
        return error(format!("'{text}' lacks its brackets: did you mean {head}['{tail}']?"));
    }
    match PLAIN.iter().find(|(name, _)| is_slip(text, name)) {
        Some((name, _)) => error(format!("unknown attribute '{text}': did you mean {name}?")),
        None => Ok(Attribute::Custom(text.to_owned())),
    }
}

fn bracketed(text: &str, head: &str) -> Result<Attribute, AttributeError> {
    let rest = text[head.len()..].trim_start();
    let inside = rest.strip_prefix('[').unwrap_or(rest).trim_start();
    let (name, taken) = read_quoted(inside).map_err(|fault| AttributeError {
        message: format!("in the brackets of {}: {}", Shown(head), fault.message),
    })?;
    match inside[taken..].trim_start() {
        "]" => {}
        "" => return error(format!("{} lacks its closing bracket ]", Shown(text))),
        _ => return error(format!("{} goes on after its name: write {head}['NAME'] and nothing more", Shown(text))),
    }
    if name.is_empty() {
        return error(format!("the name in the brackets of {} is empty", Shown(head)));
    }
    match head {
        "header" => Ok(Attribute::header(name)),
        "query" => Ok(Attribute::Query(name)),
        "cookie" => Ok(Attribute::Cookie(name)),
        "param" => Ok(Attribute::Param(name)),
        "descriptor" => Ok(Attribute::Descriptor(name)),
        _ => match named_like(head) {
            Some(known) => error(format!("unknown attribute '{head}': did you mean {known}[{}]?", Quoted(&name))),
            None => {
                error(format!("{} takes no brackets: only header, query, cookie, param and descriptor do", Shown(head)))
            }
        },
    }
}

fn error<T>(message: String) -> Result<T, AttributeError> {
    Err(AttributeError { message })
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(is_identifier_byte)
}

/// Whether a name may contain this.
pub(super) fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

/// The bracketed kind that a word is or was meant to be.
fn named_like(word: &str) -> Option<&'static str> {
    let word = normalised(word);
    let word = if word == "queries" { "query" } else { word.strip_suffix('s').unwrap_or(&word) };
    NAMED.into_iter().find(|known| *known == word)
}

/// Whether `word` is most likely `known` misspelt.
fn is_slip(word: &str, known: &str) -> bool {
    let word = normalised(word);
    let known = normalised(known);
    // Between short words one letter is too little to go by: "cost" is not "host".
    let near = known.len() >= 6 && within_one_edit(word.as_bytes(), known.as_bytes());
    (near || word.strip_suffix('s').unwrap_or(&word) == known) && !NOT_A_SLIP.contains(&word.as_str())
}

/// Only letters and digits, in lower case.
pub(super) fn normalised(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether two words differ by at most one letter added, left out or replaced, or two swapped.
pub(super) fn within_one_edit(a: &[u8], b: &[u8]) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
    let (short, long) = (&short[same..], &long[same..]);
    match (short, long) {
        ([], long) => long.len() <= 1,
        (short, [_, rest @ ..]) if short.len() + 1 == long.len() => short == rest,
        ([a, b, rest @ ..], [c, d, other @ ..]) if a == d && b == c => rest == other,
        (short, long) => short[1..] == long[1..],
    }
}

/// A text in an error message: quoted, and cut where it is too long to be read.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 60;
        match self.0.char_indices().nth(LONGEST) {
            Some((end, _)) => write!(f, "{}...", Quoted(&self.0[..end])),
            None => Quoted(self.0).fmt(f),
        }
    }
}

/// Writes the notation that [`FromStr`] reads.
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

    fn read(text: &str) -> Result<Attribute, String> {
        text.parse::<Attribute>().map_err(|error| error.message)
    }

    #[test]
    fn the_notation_is_read_and_written_back() {
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
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        assert_eq!(read(r#" header[ "X-Tier" ] "#), Ok(Attribute::Header("x-tier".into())));
        assert_eq!(read("query['Q']"), Ok(Attribute::Query("Q".into())));
    }

    #[test]
    fn slips_are_named_with_what_was_meant() {
        for (text, meant) in [
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
            let message = read(text).unwrap_err();
            assert!(message.ends_with(&format!("did you mean {meant}")), "{text}: {message}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
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
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_edit_is_one_edit() {
        for (a, b, near) in [
            ("", "", true),
            ("", "a", true),
            ("", "ab", false),
            ("abc", "abc", true),
            ("abc", "abd", true),
            ("abc", "acb", true),
            ("abc", "ab", true),
            ("abc", "bc", true),
            ("abc", "cba", false),
            ("abcd", "badc", false),
            ("ab", "ba", true),
            ("a", "b", true),
        ] {
            assert_eq!(within_one_edit(a.as_bytes(), b.as_bytes()), near, "{a} {b}");
            assert_eq!(within_one_edit(b.as_bytes(), a.as_bytes()), near, "{b} {a}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_back(text in "\\PC*|[a-z]{1,7}(\\['.*'\\])?") {
            if let Ok(attribute) = text.parse::<Attribute>() {
                prop_assert_eq!(attribute.to_string().parse(), Ok(attribute));
            }
        }
    }
}
