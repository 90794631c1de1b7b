//! Header lines, from where they stand among the bytes to a map.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use crate::framing::Signs;
use crate::malformed::Malformed;

/// The most header lines of a head.
pub(crate) const MOST: usize = 100;

/// Room for what a gateway adds to a head: growing the map costs more than the adding.
const ADDED: usize = 4;

/// From where to where something stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    pub(crate) const fn start(self) -> usize {
        self.start as usize
    }

    pub(crate) const fn end(self) -> usize {
        self.end as usize
    }

    /// Of a part of `whole`.
    pub(crate) fn of(part: &[u8], whole: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        Self::new(start, start + part.len())
    }

    /// The part, of the same bytes in shared hands.
    pub(crate) fn in_bytes(self, whole: &Bytes) -> Bytes {
        whole.slice(self.start as usize..self.end as usize)
    }

    pub(crate) fn in_slice(self, whole: &[u8]) -> &[u8] {
        &whole[self.start as usize..self.end as usize]
    }
}

/// Where the names and values of a head stand.
pub(crate) type Spans = SmallVec<[(Span, Span); 16]>;

pub(crate) fn spans(lines: &[httparse::Header<'_>], whole: &[u8]) -> Spans {
    lines.iter().map(|line| (Span::of(line.name.as_bytes(), whole), Span::of(line.value, whole))).collect()
}

/// The map of a head's lines, and what they say about its body.
pub(crate) fn gather(spans: &Spans, head: &Bytes) -> Result<(HeaderMap, Signs), Malformed> {
    let mut headers = HeaderMap::with_capacity(spans.len() + ADDED);
    let mut signs = Signs::default();
    for (name, value) in spans {
        let name = HeaderName::from_bytes(name.in_slice(head)).map_err(|_| Malformed::Field)?;
        let value = HeaderValue::from_maybe_shared(value.in_bytes(head)).map_err(|_| Malformed::Field)?;
        match name {
            CONTENT_LENGTH if !signs.length(value.as_bytes())? => continue,
            TRANSFER_ENCODING => signs.coding(value.as_bytes()),
            CONNECTION => signs.connection(value.as_bytes()),
            TE => signs.te(&value),
            EXPECT => signs.expects_continue |= value.as_bytes().eq_ignore_ascii_case(b"100-continue"),
            _ => {}
        }
        headers.try_append(name, value).map_err(|_| Malformed::TooLarge)?;
    }
    Ok((headers, signs))
}

/// The map of lines alone, up to the empty one behind them.
pub(crate) fn map(text: Bytes) -> Result<HeaderMap, Malformed> {
    let mut lines = [httparse::EMPTY_HEADER; MOST];
    let spans = match httparse::parse_headers(&text, &mut lines) {
        Ok(httparse::Status::Complete((_, lines))) => spans(lines, &text),
        _ => return Err(Malformed::Field),
    };
    gather(&spans, &text).map(|(map, _)| map)
}
