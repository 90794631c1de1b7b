//! Query parameters as attributes.

use std::borrow::Cow;

use super::text::unescaped;

/// The first parameter of this name.
pub(super) fn first<'r>(query: &'r str, name: &str) -> Option<Cow<'r, str>> {
    query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .find(|(found, _)| decoded(found) == name)
        .map(|(_, value)| decoded(value))
}

/// As forms are encoded: `+` is a space, and so is `%20`.
fn decoded(text: &str) -> Cow<'_, str> {
    if text.contains('+') {
        Cow::Owned(unescaped(text.replace('+', " ").as_bytes()).into_owned())
    } else {
        unescaped(text.as_bytes())
    }
}
