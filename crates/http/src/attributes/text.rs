//! Bytes from the wire as text.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// UTF-8 if that is what they are, else ISO 8859-1, in which any bytes are some text.
pub(super) fn text(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(latin_1(bytes)),
        },
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|error| latin_1(error.as_bytes()))),
    }
}

/// The same, with `%41` as `A`.
pub(super) fn unescaped(bytes: &[u8]) -> Cow<'_, str> {
    text(percent_decode(bytes).into())
}

fn latin_1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}
