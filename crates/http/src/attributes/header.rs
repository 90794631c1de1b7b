//! Headers as attributes.

use std::borrow::Cow;

use http::HeaderMap;

use super::text::text;

/// All lines of a header as the one list they are (RFC 9110, section 5.3).
///
/// Taking only one of them would let a client hide the value that the program behind looks at.
pub(super) fn list<'r>(headers: &'r HeaderMap, name: &str) -> Option<Cow<'r, str>> {
    let mut lines = headers.get_all(name).into_iter().map(|value| value.as_bytes().trim_ascii());
    let first = lines.next()?;
    let Some(second) = lines.next() else { return Some(text(Cow::Borrowed(first))) };
    let mut joined = first.to_vec();
    for line in std::iter::once(second).chain(lines) {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(line);
    }
    Some(text(Cow::Owned(joined)))
}

/// The first line of a header that has a single value.
pub(super) fn first<'r>(headers: &'r HeaderMap, name: &str) -> Option<Cow<'r, str>> {
    headers.get(name).map(|value| text(Cow::Borrowed(value.as_bytes().trim_ascii())))
}
