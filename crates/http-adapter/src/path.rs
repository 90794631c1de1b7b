//! Path normalization: one spelling for each path.
//!
//! Rules compare paths byte by byte. A client could bypass a rule with another spelling that the upstream
//! still understands. Adapters therefore decide on the normalized path, and patterns are written against it.
//!
//! | received | normalized | reason |
//! |---|---|---|
//! | `/%61pi/%40me`, `/caf%C3%A9` | `/api/@me`, `/café` | escapes of characters allowed in a path are decoded, once |
//! | `/a%2fb`, `/a%20b`, `/100%25` | `/a%2Fb`, `/a%20b`, `/100%25` | slash, `?`, `#`, `%`, spaces and control characters stay escaped, in upper case |
//! | `//api//orders` | `/api/orders` | repeated slashes are merged |
//! | `/api/./orders`, `/api/x/%2e%2E/orders` | `/api/orders` | dot segments are resolved, after the two above |
//! | `/api/%zz` | `/api/%zz` | invalid escapes are kept |
//! | `/api?q=1#top` | `/api` | query and fragment are not part of the path |
//! | `http://shop.example/api` | `/api` | absolute form |
//! | empty, `shop.example:443` | `/` | the authority form has no path |
//! | `*` | `*` | `OPTIONS *`; the only result without a leading slash |
//!
//! A trailing slash is kept: patterns ignore it, but `path.startsWith('/files/')` needs it. Case is kept.

use std::borrow::Cow;

/// Normalizes a path for rule matching.
///
/// The result is at most one byte longer than `raw`, and normalizing it again changes nothing. A path that
/// is already normalized is borrowed.
///
/// ```
/// use sluicegate_http_adapter::normalize_path;
///
/// for spelling in ["/api/orders", "//api//orders", "/api/./orders", "/api/x/../orders", "/%61pi/orders"] {
///     assert_eq!(normalize_path(spelling), "/api/orders");
/// }
/// assert_eq!(normalize_path("/a%2fb"), "/a%2Fb"); // one segment, not two
/// ```
pub fn normalize_path(raw: &str) -> Cow<'_, str> {
    if raw == "*" || is_normal(raw.as_bytes()) { Cow::Borrowed(raw) } else { Cow::Owned(normalize(path_of(raw))) }
}

/// True if the path needs no change.
fn is_normal(path: &[u8]) -> bool {
    let mut segment_begins = false;
    for (at, &byte) in path.iter().enumerate() {
        match byte {
            b'%' | b'?' | b'#' => return false,
            b'/' if segment_begins => return false,
            b'.' if segment_begins && is_dot_segment(&path[at..]) => return false,
            _ => segment_begins = byte == b'/',
        }
    }
    path.first() == Some(&b'/')
}

/// True if a path that begins with a dot begins with a dot segment.
fn is_dot_segment(rest: &[u8]) -> bool {
    let rest = &rest[1..];
    let rest = rest.strip_prefix(b".").unwrap_or(rest);
    rest.first().is_none_or(|byte| *byte == b'/')
}

/// The path of a request target, without scheme, authority, query and fragment.
fn path_of(target: &str) -> &str {
    let target = target.find(['?', '#']).map_or(target, |end| &target[..end]);
    if target.starts_with('/') {
        return target;
    }
    match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |slash| &rest[slash..]),
        None if target.contains('/') => target,
        None => "",
    }
}

fn normalize(path: &str) -> String {
    let mut out = String::with_capacity(path.len() + 1);
    out.push('/');
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        // Invariant: `out` ends with a slash here.
        let start = out.len();
        push_decoded(segment, &mut out);
        match &out[start..] {
            "" => {}
            "." => out.truncate(start),
            ".." => {
                let parent = out[..start - 1].rfind('/').map_or(1, |slash| slash + 1);
                out.truncate(parent);
            }
            _ if segments.peek().is_some() => out.push('/'),
            _ => {}
        }
    }
    out
}

fn push_decoded(mut rest: &str, out: &mut String) {
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match escaped_char(rest.as_bytes()) {
            Some((character, taken)) if !would_form_escape(character, out) => {
                out.push(character);
                taken
            }
            _ if escaped_byte(rest.as_bytes()).is_some() => {
                out.extend(rest[..3].chars().map(|c| c.to_ascii_uppercase()));
                3
            }
            _ => {
                out.push('%');
                1
            }
        };
        rest = &rest[taken..];
    }
    out.push_str(rest);
}

/// True if a decoded digit would complete an escape after a literal percent sign: `%%36%31` must not
/// become `%61`, or the path would be decoded twice.
fn would_form_escape(character: char, out: &str) -> bool {
    let open = match out.as_bytes() {
        [.., b'%'] => true,
        [.., b'%', digit] => digit.is_ascii_hexdigit(),
        _ => false,
    };
    open && character.is_ascii_hexdigit()
}

/// Decodes the escaped character at the start of the text and returns its escaped length, if it is allowed
/// unescaped in a path.
fn escaped_char(text: &[u8]) -> Option<(char, usize)> {
    let count = match escaped_byte(text)? {
        b'/' | b'?' | b'#' | b'%' => return None,
        0x21..=0x7e => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return None,
    };
    let mut bytes = [0; 4];
    for (byte, escape) in bytes[..count].iter_mut().zip(text.chunks(3)) {
        *byte = escaped_byte(escape)?;
    }
    let character = std::str::from_utf8(&bytes[..count]).ok()?.chars().next()?;
    let stands_alone = !character.is_control() && !character.is_whitespace();
    stands_alone.then_some((character, count * 3))
}

fn escaped_byte(text: &[u8]) -> Option<u8> {
    match *text {
        [b'%', high, low, ..] => Some((hex(high)? << 4) | hex(low)?),
        _ => None,
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
