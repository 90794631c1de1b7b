//! One spelling for each path.
//!
//! Rules compare paths byte for byte. A client that wants to slip past one spells the path otherwise and
//! hopes that the program behind still understands it. So adapters ask with the normal path, and patterns
//! are written against it.
//!
//! | came as | is taken for | because |
//! |---|---|---|
//! | `/%61pi/%40me`, `/caf%C3%A9` | `/api/@me`, `/café` | an escape of what may stand in a path is decoded, once |
//! | `/a%2fb`, `/a%20b`, `/100%25` | `/a%2Fb`, `/a%20b`, `/100%25` | slash, `?`, `#`, `%`, spaces and control characters stay escaped, in upper case |
//! | `//api//orders` | `/api/orders` | slashes in a row are one |
//! | `/api/./orders`, `/api/x/%2e%2E/orders` | `/api/orders` | dot segments are resolved, after the two above |
//! | `/api/%zz` | `/api/%zz` | what is no escape is left alone |
//! | `/api?q=1#top` | `/api` | neither query nor fragment is part of a path |
//! | `http://shop.example/api` | `/api` | the absolute form names a path too |
//! | empty, `shop.example:443` | `/` | the authority form has none |
//! | `*` | `*` | `OPTIONS *` asks about no path; it is the only one without a slash in front |
//!
//! A slash at the end stays: to patterns it makes no difference, and `path.startsWith('/files/')` would
//! miss it. Letters keep their case.

use std::borrow::Cow;

/// The one spelling of a path that rules are matched against.
///
/// It is never more than one byte longer than `raw`, and applying it again changes nothing. A path that is
/// in order already is borrowed.
///
/// ```
/// use sluicegate_http::normal_path;
///
/// for spelling in ["/api/orders", "//api//orders", "/api/./orders", "/api/x/../orders", "/%61pi/orders"] {
///     assert_eq!(normal_path(spelling), "/api/orders");
/// }
/// assert_eq!(normal_path("/a%2fb"), "/a%2Fb"); // one segment, not two
/// ```
pub fn normal_path(raw: &str) -> Cow<'_, str> {
    if raw == "*" || is_normal(raw.as_bytes()) { Cow::Borrowed(raw) } else { Cow::Owned(rewritten(path_of(raw))) }
}

/// Whether nothing about it could need a change.
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

/// Whether a path that begins with a dot begins with a dot segment.
fn is_dot_segment(rest: &[u8]) -> bool {
    let rest = &rest[1..];
    let rest = rest.strip_prefix(b".").unwrap_or(rest);
    rest.first().is_none_or(|byte| *byte == b'/')
}

/// The path of a request target: without scheme, authority, query and fragment.
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

fn rewritten(path: &str) -> String {
    let mut out = String::with_capacity(path.len() + 1);
    out.push('/');
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        // Here `out` ends with a slash.
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
            Some((character, taken)) if !completes_an_escape(character, out) => {
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

/// Whether a decoded digit would make an escape out of a percent sign that was none: `%%36%31` must not
/// become `%61`, or decoding once would not be once.
fn completes_an_escape(character: char, out: &str) -> bool {
    let open = match out.as_bytes() {
        [.., b'%'] => true,
        [.., b'%', digit] => digit.is_ascii_hexdigit(),
        _ => false,
    };
    open && character.is_ascii_hexdigit()
}

/// The character the text begins with in escaped form, and how long that is, if it may stand in a path
/// by itself.
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
