//! Decoding of header and query bytes to text.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// Decodes UTF-8, or ISO 8859-1 if the bytes are not valid UTF-8. Never fails.
pub(super) fn to_text(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(latin_1(bytes)),
        },
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|error| latin_1(error.as_bytes()))),
    }
}

/// Percent-decodes, then decodes to text: `%41` is `A`.
pub(super) fn percent_decoded(bytes: &[u8]) -> Cow<'_, str> {
    to_text(percent_decode(bytes).into())
}

fn latin_1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}
