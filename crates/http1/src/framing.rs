//! Message framing: how the end of a body is determined (RFC 9112, section 6).

use http::HeaderValue;

use crate::error::ParseError;

/// Framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Empty,
    /// A body of this many bytes. Zero is an explicit empty body.
    Length(u64),
    /// The chunked transfer coding.
    Chunked,
    /// The body ends with the connection. Responses only.
    UntilClose,
}

/// Largest accepted `Content-Length`; larger values are treated as errors.
const MAX_CONTENT_LENGTH: u64 = u64::MAX - 2;

/// Header values that determine framing and connection reuse, collected while the head is parsed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FramingHeaders {
    length: Option<u64>,
    /// Set if there are several lengths that differ.
    is_contradictory: bool,
    pub(crate) coding: Option<Coding>,
    /// Set if there are transfer codings other than chunked.
    pub(crate) has_other_coding: bool,
    /// `Connection: close`.
    pub(crate) close: bool,
    /// `Connection: keep-alive`.
    pub(crate) keep_alive: bool,
    /// `Expect: 100-continue`.
    pub(crate) expects_continue: bool,
    /// `TE: trailers`.
    pub(crate) accepts_trailers: bool,
}

/// The last transfer coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Chunked,
    Other,
}

impl FramingHeaders {
    /// Adds a `Content-Length` value. Returns true if it is the first; an identical repetition adds nothing.
    pub(crate) fn add_content_length(&mut self, value: &[u8]) -> Result<bool, ParseError> {
        let length = parse_length(value)?;
        let known = self.length.replace(length);
        self.is_contradictory |= known.is_some_and(|known| known != length);
        Ok(known.is_none())
    }

    /// The content length, if there is one; an error if there are several that differ.
    pub(crate) const fn content_length(&self) -> Result<Option<u64>, ParseError> {
        if self.is_contradictory { Err(ParseError::Length) } else { Ok(self.length) }
    }

    /// True if there is a `Content-Length`.
    pub(crate) const fn has_content_length(&self) -> bool {
        self.length.is_some()
    }

    /// Adds a `Transfer-Encoding` value. The last coding counts, because codings are applied in order.
    pub(crate) fn add_transfer_encoding(&mut self, value: &[u8]) {
        let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
        let is_chunked = last.eq_ignore_ascii_case(b"chunked");
        self.coding = Some(if is_chunked { Coding::Chunked } else { Coding::Other });
        let mut codings = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        self.has_other_coding |= codings.any(|coding| !coding.eq_ignore_ascii_case(b"chunked"));
    }

    /// Adds a `TE` value.
    pub(crate) fn add_te(&mut self, value: &HeaderValue) {
        let mut codings = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        self.accepts_trailers |= codings.any(|coding| coding.eq_ignore_ascii_case(b"trailers"));
    }

    /// Adds a `Connection` value.
    pub(crate) fn add_connection(&mut self, value: &[u8]) {
        for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= token.eq_ignore_ascii_case(b"close");
            self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// True if these headers allow another message on the connection.
    pub(crate) const fn is_persistent(&self, is_http11: bool) -> bool {
        !self.close && (is_http11 || self.keep_alive)
    }
}

/// Parses a decimal number that consists of digits only.
fn parse_length(text: &[u8]) -> Result<u64, ParseError> {
    if text.is_empty() {
        return Err(ParseError::Length);
    }
    let length = text.iter().try_fold(0u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    });
    match length {
        Some(length) if length <= MAX_CONTENT_LENGTH => Ok(length),
        Some(_) => Err(ParseError::TooLarge),
        None => Err(ParseError::Length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_length_is_digits_only() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("5", Ok(5)),
            ("0005", Ok(5)),
            ("18446744073709551613", Ok(MAX_CONTENT_LENGTH)),
            ("18446744073709551615", Err(ParseError::TooLarge)),
            ("18446744073709551616", Err(ParseError::Length)),
            ("", Err(ParseError::Length)),
            ("+5", Err(ParseError::Length)),
            ("-5", Err(ParseError::Length)),
            ("5, 5", Err(ParseError::Length)),
            ("0x5", Err(ParseError::Length)),
            ("5.0", Err(ParseError::Length)),
            ("5 ", Err(ParseError::Length)),
        ] {
            assert_eq!(parse_length(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn the_last_transfer_coding_counts() {
        for (lines, expected) in [
            (&["chunked"][..], Coding::Chunked),
            (&["Chunked"], Coding::Chunked),
            (&["gzip, chunked"], Coding::Chunked),
            (&["gzip", " chunked\t"], Coding::Chunked),
            (&["chunked, gzip"], Coding::Other),
            (&["chunked", "identity"], Coding::Other),
            (&["chunked;q=1"], Coding::Other),
            (&["chunked,"], Coding::Other),
            (&["\"chunked\""], Coding::Other),
            (&["xchunked"], Coding::Other),
            (&[""], Coding::Other),
        ] {
            let mut framing = FramingHeaders::default();
            lines.iter().for_each(|line| framing.add_transfer_encoding(line.as_bytes()));
            assert_eq!(framing.coding, Some(expected), "{lines:?}");
        }
    }
}
