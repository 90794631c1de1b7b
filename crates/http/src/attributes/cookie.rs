//! Cookies as attributes.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::COOKIE;

use super::text::unescaped;

/// The first cookie of this name, in all `Cookie` lines.
///
/// Many frameworks take `"a"` and `%61` for `a`. Counted apart, one session would be as many as it has
/// spellings.
pub(super) fn first<'r>(headers: &'r HeaderMap, name: &str) -> Option<Cow<'r, str>> {
    headers
        .get_all(COOKIE)
        .into_iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b';'))
        .filter_map(|pair| {
            let equals = pair.iter().position(|byte| *byte == b'=')?;
            Some((pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii()))
        })
        .find(|(found, _)| unescaped(found) == name)
        .map(|(_, value)| unescaped(unquoted(value)))
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")).unwrap_or(value)
}
