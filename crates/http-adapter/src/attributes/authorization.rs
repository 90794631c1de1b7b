//! Credentials of the `Authorization` header.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::decode::to_text;

/// Returns the credentials if the scheme matches, ignoring case. Only the first line is used, as in most
/// upstream applications.
pub(super) fn credentials<'r>(headers: &'r HeaderMap, scheme: &str) -> Option<Cow<'r, str>> {
    let line = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let (found, rest) = line.split_at_checked(scheme.len())?;
    let separated = rest.first().is_some_and(u8::is_ascii_whitespace);
    (separated && found.eq_ignore_ascii_case(scheme.as_bytes())).then(|| to_text(Cow::Borrowed(rest.trim_ascii())))
}
