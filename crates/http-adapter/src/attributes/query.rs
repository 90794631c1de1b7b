//! Query parameters as attributes.

use std::borrow::Cow;

use super::decode::percent_decoded;

/// Returns the first parameter with this name.
pub(super) fn first<'r>(query: &'r str, name: &str) -> Option<Cow<'r, str>> {
    query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .find(|(found, _)| decoded(found) == name)
        .map(|(_, value)| decoded(value))
}

/// Form decoding: both `+` and `%20` are a space.
fn decoded(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        Cow::Owned(percent_decoded(text.replace('+', " ").as_bytes()).into_owned())
    } else {
        percent_decoded(text.as_bytes())
    }
}
