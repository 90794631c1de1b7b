//! The elements of `Forwarded` (RFC 7239), from the right.
//!
//! They are cut off from the right because that is where the trusted proxies wrote. A reader that begins at
//! the left would meet what the client sent first, and a quote left open there would swallow all that the
//! proxies said.

use std::net::IpAddr;

use super::address::{self, Brackets, trimmed};

/// The elements of one header line, the last one first. Commas in quoted strings separate nothing.
#[derive(Clone, Debug)]
pub(super) struct Elements<'h> {
    /// What is left of the line; `None` when the first element was handed out.
    rest: Option<&'h [u8]>,
}

impl<'h> Elements<'h> {
    pub(super) fn of(line: &'h [u8]) -> Self {
        Self { rest: Some(line) }
    }
}

impl<'h> Iterator for Elements<'h> {
    type Item = &'h [u8];

    fn next(&mut self) -> Option<&'h [u8]> {
        let line = self.rest?;
        let mut quoted = false;
        let comma = (0..line.len()).rev().find(|&at| match line[at] {
            b'"' if quoted => {
                quoted = is_escaped(&line[..at]);
                false
            }
            b'"' => {
                quoted = true;
                false
            }
            b',' => !quoted,
            _ => false,
        });
        let (rest, element) = match comma {
            Some(comma) => (Some(&line[..comma]), &line[comma + 1..]),
            None => (None, line),
        };
        self.rest = rest;
        Some(element)
    }
}

/// Whether what follows is escaped by a backslash that is not escaped itself.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The address an element is `for`; `None` if it has none, several, or is no list of parameters.
pub(super) fn client_of(element: &[u8]) -> Option<IpAddr> {
    let mut client = None;
    let mut rest = Some(element);
    while let Some(text) = rest {
        let (pair, after) = first_parameter(text);
        rest = after;
        if trimmed(pair).is_empty() {
            continue;
        }
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (trimmed(&pair[..equals]), unquoted(trimmed(&pair[equals + 1..]))?);
        if name.eq_ignore_ascii_case(b"for") {
            let address = address::parse(value, Brackets::Required)?;
            if client.replace(address).is_some() {
                return None;
            }
        }
    }
    client
}

/// The text up to the first semicolon that is not in a quoted string, and what follows it.
fn first_parameter(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let (mut quoted, mut escaped) = (false, false);
    let end = text.iter().position(|&byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b';' => return !quoted,
            _ => {}
        }
        false
    });
    match end {
        Some(end) => (&text[..end], Some(&text[end + 1..])),
        None => (text, None),
    }
}

/// What is between the quotes, if there are any; `None` if they are not where quotes can be. Escapes are
/// left alone: no address needs one.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    let Some(inner) = value.strip_prefix(b"\"") else {
        return (!value.contains(&b'"')).then_some(value);
    };
    let end = (0..inner.len()).find(|&at| inner[at] == b'"' && !is_escaped(&inner[..at]))?;
    (end + 1 == inner.len()).then(|| &inner[..end])
}
