//! Where a body ends (RFC 9112, 6).

use http::HeaderValue;

use crate::malformed::Malformed;

/// How a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    Empty,
    /// So many bytes. Zero is a body too, though nothing comes of it.
    Length(u64),
    /// In chunks, each with its length.
    Chunked,
    /// Up to the end of the connection. Answers only.
    UntilClose,
}

/// The longest body that is taken for one. What is longer is no length that anybody means.
const LONGEST: u64 = u64::MAX - 2;

/// What the header lines of a message say about its body and its connection, gathered as they are read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signs {
    length: Option<u64>,
    /// Whether there are several lengths, and they differ.
    contradicts: bool,
    pub(crate) coding: Option<Coding>,
    /// Whether there are codings besides chunks.
    pub(crate) is_coded: bool,
    /// `Connection: close`.
    pub(crate) close: bool,
    /// `Connection: keep-alive`.
    pub(crate) keep_alive: bool,
    /// `Expect: 100-continue`.
    pub(crate) expects_continue: bool,
    /// `TE: trailers`.
    pub(crate) takes_trailers: bool,
}

/// What the last transfer coding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Chunked,
    Other,
}

impl Signs {
    /// A line of `Content-Length`. Answers whether it is the first of its kind; the same once more adds nothing.
    pub(crate) fn length(&mut self, value: &[u8]) -> Result<bool, Malformed> {
        let length = length_of(value)?;
        let known = self.length.replace(length);
        self.contradicts |= known.is_some_and(|known| known != length);
        Ok(known.is_none())
    }

    /// The length, if there is one, and it is one.
    pub(crate) const fn told_length(&self) -> Result<Option<u64>, Malformed> {
        if self.contradicts { Err(Malformed::Length) } else { Ok(self.length) }
    }

    /// Whether a length is told at all.
    pub(crate) const fn tells_length(&self) -> bool {
        self.length.is_some()
    }

    /// A line of `Transfer-Encoding`. What comes last counts: codings are applied in their order.
    pub(crate) fn coding(&mut self, value: &[u8]) {
        let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
        let is_chunked = last.eq_ignore_ascii_case(b"chunked");
        self.coding = Some(if is_chunked { Coding::Chunked } else { Coding::Other });
        let mut codings = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        self.is_coded |= codings.any(|coding| !coding.eq_ignore_ascii_case(b"chunked"));
    }

    /// A line of `TE`.
    pub(crate) fn te(&mut self, value: &HeaderValue) {
        let mut codings = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        self.takes_trailers |= codings.any(|coding| coding.eq_ignore_ascii_case(b"trailers"));
    }

    /// A line of `Connection`.
    pub(crate) fn connection(&mut self, value: &[u8]) {
        for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= token.eq_ignore_ascii_case(b"close");
            self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Whether another message may follow in the connection, as far as these lines say.
    pub(crate) const fn goes_on(&self, is_1_1: bool) -> bool {
        !self.close && (is_1_1 || self.keep_alive)
    }
}

/// Digits, and nothing else.
fn length_of(text: &[u8]) -> Result<u64, Malformed> {
    if text.is_empty() {
        return Err(Malformed::Length);
    }
    let length = text.iter().try_fold(0u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    });
    match length {
        Some(length) if length <= LONGEST => Ok(length),
        Some(_) => Err(Malformed::TooLarge),
        None => Err(Malformed::Length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_are_a_length() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("5", Ok(5)),
            ("0005", Ok(5)),
            ("18446744073709551613", Ok(LONGEST)),
            ("18446744073709551615", Err(Malformed::TooLarge)),
            ("18446744073709551616", Err(Malformed::Length)),
            ("", Err(Malformed::Length)),
            ("+5", Err(Malformed::Length)),
            ("-5", Err(Malformed::Length)),
            ("5, 5", Err(Malformed::Length)),
            ("0x5", Err(Malformed::Length)),
            ("5.0", Err(Malformed::Length)),
            ("5 ", Err(Malformed::Length)),
        ] {
            assert_eq!(length_of(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn the_last_coding_counts() {
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
            let mut signs = Signs::default();
            lines.iter().for_each(|line| signs.coding(line.as_bytes()));
            assert_eq!(signs.coding, Some(expected), "{lines:?}");
        }
    }
}
