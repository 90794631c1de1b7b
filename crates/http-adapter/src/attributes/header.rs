//! Headers as attributes.

use std::borrow::Cow;

use http::HeaderMap;

use super::decode::to_text;

/// All lines of a header joined as one list (RFC 9110, section 5.3).
///
/// Reading only one line would let a client hide the value that the upstream reads.
pub(super) fn list<'r>(headers: &'r HeaderMap, name: &str) -> Option<Cow<'r, str>> {
    let mut lines = headers.get_all(name).into_iter().map(|value| value.as_bytes().trim_ascii());
    let first = lines.next()?;
    let Some(second) = lines.next() else { return Some(to_text(Cow::Borrowed(first))) };
    let mut joined = first.to_vec();
    for line in std::iter::once(second).chain(lines) {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(line);
    }
    Some(to_text(Cow::Owned(joined)))
}

/// The first line of a single-value header.
pub(super) fn first<'r>(headers: &'r HeaderMap, name: &str) -> Option<Cow<'r, str>> {
    headers.get(name).map(|value| to_text(Cow::Borrowed(value.as_bytes().trim_ascii())))
}
