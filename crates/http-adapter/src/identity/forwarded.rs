//! Parser for `Forwarded` (RFC 7239) that reads elements from the right.
//!
//! Trusted proxies append on the right. A parser that starts at the left would first read client input, and
//! an unclosed quote there would swallow the elements written by the proxies.

use std::net::IpAddr;

use super::address::{self, Brackets, trimmed};

/// Iterator over the elements of one header line, last one first. Commas in quoted strings do not separate.
#[derive(Clone, Debug)]
pub(super) struct ForwardedElements<'h> {
    /// Unread part of the line; `None` after the first element was returned.
    remaining: Option<&'h [u8]>,
}

impl<'h> ForwardedElements<'h> {
    pub(super) fn of(line: &'h [u8]) -> Self {
        Self { remaining: Some(line) }
    }
}

impl<'h> Iterator for ForwardedElements<'h> {
    type Item = &'h [u8];

    fn next(&mut self) -> Option<&'h [u8]> {
        let line = self.remaining?;
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
        self.remaining = rest;
        Some(element)
    }
}

/// True if the next byte is escaped, that is, preceded by an odd number of backslashes.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Returns the `for` address of an element; `None` if it has none or several, or is malformed.
pub(super) fn for_address(element: &[u8]) -> Option<IpAddr> {
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

/// Splits at the first semicolon outside a quoted string.
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

/// Removes enclosing quotes; `None` if a quote is misplaced. Escapes are not decoded: no address needs one.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    let Some(inner) = value.strip_prefix(b"\"") else {
        return (!value.contains(&b'"')).then_some(value);
    };
    let end = (0..inner.len()).find(|&at| inner[at] == b'"' && !is_escaped(&inner[..at]))?;
    (end + 1 == inner.len()).then(|| &inner[..end])
}
