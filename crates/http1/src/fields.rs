//! Header fields: from byte spans in the input to a header map.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use crate::error::ParseError;
use crate::framing::FramingHeaders;

/// Maximum number of header lines per head.
pub(crate) const MAX_HEADERS: usize = 100;

/// Extra capacity of the map for headers that a gateway adds; growing the map later costs more.
const EXTRA_HEADERS: usize = 4;

/// A range of bytes in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteSpan {
    start: u32,
    end: u32,
}

impl ByteSpan {
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    pub(crate) const fn start(self) -> usize {
        self.start as usize
    }

    pub(crate) const fn end(self) -> usize {
        self.end as usize
    }

    /// Computes the span of `part`, which must lie within `whole`.
    pub(crate) fn of(part: &[u8], whole: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        Self::new(start, start + part.len())
    }

    /// The span as a shared slice of `whole`.
    pub(crate) fn in_bytes(self, whole: &Bytes) -> Bytes {
        whole.slice(self.start as usize..self.end as usize)
    }

    pub(crate) fn in_slice(self, whole: &[u8]) -> &[u8] {
        &whole[self.start as usize..self.end as usize]
    }
}

/// Spans of the header names and values of a head.
pub(crate) type Spans = SmallVec<[(ByteSpan, ByteSpan); 16]>;

pub(crate) fn spans(lines: &[httparse::Header<'_>], whole: &[u8]) -> Spans {
    lines.iter().map(|line| (ByteSpan::of(line.name.as_bytes(), whole), ByteSpan::of(line.value, whole))).collect()
}

/// Builds the header map of a head and collects its framing headers.
pub(crate) fn parse_headers(spans: &Spans, head: &Bytes) -> Result<(HeaderMap, FramingHeaders), ParseError> {
    let mut headers = HeaderMap::with_capacity(spans.len() + EXTRA_HEADERS);
    let mut framing = FramingHeaders::default();
    for (name, value) in spans {
        let name = HeaderName::from_bytes(name.in_slice(head)).map_err(|_| ParseError::Header)?;
        let value = HeaderValue::from_maybe_shared(value.in_bytes(head)).map_err(|_| ParseError::Header)?;
        match name {
            CONTENT_LENGTH if !framing.add_content_length(value.as_bytes())? => continue,
            TRANSFER_ENCODING => framing.add_transfer_encoding(value.as_bytes()),
            CONNECTION => framing.add_connection(value.as_bytes()),
            TE => framing.add_te(&value),
            EXPECT => framing.expects_continue |= value.as_bytes().eq_ignore_ascii_case(b"100-continue"),
            _ => {}
        }
        headers.try_append(name, value).map_err(|_| ParseError::TooLarge)?;
    }
    Ok((headers, framing))
}

/// Parses header lines without a start line, up to the empty line, into a map.
pub(crate) fn parse_map(text: Bytes) -> Result<HeaderMap, ParseError> {
    let mut lines = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let spans = match httparse::parse_headers(&text, &mut lines) {
        Ok(httparse::Status::Complete((_, lines))) => spans(lines, &text),
        _ => return Err(ParseError::Header),
    };
    parse_headers(&spans, &text).map(|(map, _)| map)
}
