//! Cookies as attributes.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::COOKIE;

use super::decode::percent_decoded;

/// Returns the first cookie with this name in all `Cookie` lines.
///
/// Many frameworks read `"a"` and `%61` as `a`. Counting them separately would give one session as many
/// counters as it has spellings.
pub(super) fn first<'r>(headers: &'r HeaderMap, name: &str) -> Option<Cow<'r, str>> {
    headers
        .get_all(COOKIE)
        .into_iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b';'))
        .filter_map(|pair| {
            let equals = pair.iter().position(|byte| *byte == b'=')?;
            Some((pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii()))
        })
        .find(|(found, _)| percent_decoded(found) == name)
        .map(|(_, value)| percent_decoded(unquoted(value)))
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")).unwrap_or(value)
}
