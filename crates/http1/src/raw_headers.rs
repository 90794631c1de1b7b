//! Raw response headers: forwarded as bytes, without a header map.
//!
//! A gateway changes little in a response: it removes hop-by-hop headers and adds a line or two. Building a map
//! and writing it out again costs more than everything else done to the response. End-to-end headers are
//! therefore kept as runs of bytes that are copied as a whole. Heads that need inspection become a map after
//! all: two lengths, a protocol upgrade, trailers, lines that do not end in CRLF.

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use smallvec::SmallVec;

use crate::error::ParseError;
use crate::fields::{self, ByteSpan};
use crate::framing::FramingHeaders;

/// Raw end-to-end header lines of a response. Hop-by-hop headers and `Transfer-Encoding` are left out.
#[derive(Clone, Debug)]
pub struct RawHeaders {
    head: Bytes,
    runs: Runs,
    length: Option<u64>,
    has_date: bool,
}

type Runs = SmallVec<[ByteSpan; 2]>;

/// Longest header name that a `HeaderMap` accepts.
const MAX_NAME_BYTES: usize = u16::MAX as usize;

/// Result of scanning the header lines, before the input is split off and shared.
pub(crate) struct RawScan {
    runs: Runs,
    pub(crate) framing: FramingHeaders,
    has_date: bool,
}

/// Role of a header line in forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderKind {
    EndToEnd,
    Date,
    Length,
    Coding,
    Connection,
    /// Hop-by-hop.
    HopByHop,
    /// Needs a header map to be handled.
    NeedsMap,
}

impl HeaderKind {
    fn of(name: &[u8]) -> Self {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            2 if is("te") => Self::NeedsMap,
            4 if is("date") => Self::Date,
            7 if is("upgrade") || is("trailer") => Self::NeedsMap,
            10 if is("connection") => Self::Connection,
            10 if is("keep-alive") => Self::HopByHop,
            14 if is("content-length") => Self::Length,
            14 if is("http2-settings") => Self::HopByHop,
            16 if is("proxy-connection") => Self::HopByHop,
            17 if is("transfer-encoding") => Self::Coding,
            18 if is("proxy-authenticate") => Self::HopByHop,
            19 if is("proxy-authorization") => Self::HopByHop,
            _ => Self::EndToEnd,
        }
    }
}

/// Scans the header lines of a head of this length for lines to forward; `None` if the head needs a map.
pub(crate) fn scan(lines: &[httparse::Header<'_>], whole: &[u8], length: usize) -> Result<Option<RawScan>, ParseError> {
    let mut scan = RawScan { runs: Runs::new(), framing: FramingHeaders::default(), has_date: false };
    // The last header line is followed by an empty line.
    let end_of_lines = length - 2;
    for (index, line) in lines.iter().enumerate() {
        if line.name.len() > MAX_NAME_BYTES {
            return Err(ParseError::Header);
        }
        let start = ByteSpan::of(line.name.as_bytes(), whole).start();
        let end = lines.get(index + 1).map_or(end_of_lines, |next| ByteSpan::of(next.name.as_bytes(), whole).start());
        if whole.get(end - 2..end) != Some(b"\r\n") {
            return Ok(None);
        }
        let is_end_to_end = match HeaderKind::of(line.name.as_bytes()) {
            HeaderKind::EndToEnd => true,
            HeaderKind::Date => {
                scan.has_date = true;
                true
            }
            HeaderKind::Length if scan.framing.add_content_length(line.value)? => true,
            HeaderKind::Coding => {
                scan.framing.add_transfer_encoding(line.value);
                false
            }
            HeaderKind::Connection if line.value.eq_ignore_ascii_case(b"keep-alive") => {
                scan.framing.keep_alive = true;
                false
            }
            HeaderKind::Connection if line.value.eq_ignore_ascii_case(b"close") => {
                scan.framing.close = true;
                false
            }
            HeaderKind::HopByHop => false,
            // It may name further hop-by-hop headers.
            HeaderKind::Connection | HeaderKind::Length | HeaderKind::NeedsMap => return Ok(None),
        };
        if is_end_to_end {
            match scan.runs.last_mut() {
                Some(run) if run.end() == start => *run = ByteSpan::new(run.start(), end),
                _ => scan.runs.push(ByteSpan::new(start, end)),
            }
        }
    }
    let has_two_framings = scan.framing.coding.is_some() && scan.framing.has_content_length();
    Ok(Some(scan).filter(|_| !has_two_framings))
}

impl RawScan {
    /// Binds the scanned runs to the shared bytes of the head.
    pub(crate) fn into_raw_headers(self, head: Bytes) -> Result<RawHeaders, ParseError> {
        Ok(RawHeaders { head, runs: self.runs, length: self.framing.content_length()?, has_date: self.has_date })
    }
}

impl RawHeaders {
    /// Writes the lines, each with its CRLF.
    pub fn write(&self, output: &mut Vec<u8>) {
        for run in &self.runs {
            output.extend_from_slice(run.in_slice(&self.head));
        }
    }

    /// The value of `Content-Length`, which is one of the lines.
    pub const fn length(&self) -> Option<u64> {
        self.length
    }

    /// True if there is a `Date` header.
    pub const fn has_date(&self) -> bool {
        self.has_date
    }

    /// True if there is a header of this name.
    pub fn contains(&self, name: &HeaderName) -> bool {
        let name = name.as_str().as_bytes();
        let lines = self.runs.iter().flat_map(|run| run.in_slice(&self.head).split_inclusive(|byte| *byte == b'\n'));
        lines.filter_map(|line| line.split(|byte| *byte == b':').next()).any(|it| it.eq_ignore_ascii_case(name))
    }

    /// Parses the lines into a map.
    pub fn into_map(self) -> Result<HeaderMap, ParseError> {
        let mut text = Vec::with_capacity(self.head.len());
        self.write(&mut text);
        text.extend_from_slice(b"\r\n");
        fields::parse_map(Bytes::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw_headers(text: &str) -> Option<RawHeaders> {
        let head = format!("HTTP/1.1 200 OK\r\n{text}\r\n");
        let mut space = [httparse::EMPTY_HEADER; 16];
        let mut parsed = httparse::Response::new(&mut space);
        let length = parsed.parse(head.as_bytes()).unwrap().unwrap();
        let scan = scan(parsed.headers, head.as_bytes(), length).unwrap()?;
        Some(scan.into_raw_headers(Bytes::copy_from_slice(head.as_bytes())).unwrap())
    }

    fn written(raw: &RawHeaders) -> String {
        let mut output = Vec::new();
        raw.write(&mut output);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn end_to_end_headers_are_kept_verbatim() {
        for (head, passed_on) in [
            ("", ""),
            ("Server:x\r\n", "Server:x\r\n"),
            ("A: 1\r\nConnection: keep-alive\r\na:  2 \r\n", "A: 1\r\na:  2 \r\n"),
            ("Connection: Close\r\nKeep-Alive: timeout=5\r\nB: 2\r\n", "B: 2\r\n"),
            ("A: 1\r\nTransfer-Encoding: chunked\r\nProxy-Authenticate: x\r\n", "A: 1\r\n"),
            ("Content-Length: 5\r\nX: \r\nProxy-Connection: x\r\nY: 1\r\n", "Content-Length: 5\r\nX: \r\nY: 1\r\n"),
        ] {
            let raw = raw_headers(head).unwrap();
            assert_eq!(written(&raw), passed_on, "{head:?}");
            assert_eq!(raw.clone().into_map().unwrap().len(), passed_on.lines().count(), "{head:?}");
        }
    }

    #[test]
    fn special_headers_need_a_map() {
        for head in [
            "Connection: keep-alive, X-Mine\r\nX-Mine: 1\r\n",
            "Connection: upgrade\r\n",
            "Upgrade: websocket\r\n",
            "Trailer: X-Sum\r\n",
            "TE: trailers\r\n",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "A: 1\nB: 2\r\n",
            "A: 1\r\nB: 2\n",
        ] {
            assert!(raw_headers(head).is_none(), "{head:?}");
        }
    }

    #[test]
    fn length_and_date_are_known() {
        let raw = raw_headers("dATE: x\r\nContent-Length: 42\r\nRateLimit-Limit : 5\r\n".replace(" :", ":").as_str())
            .unwrap();
        assert_eq!((raw.length(), raw.has_date()), (Some(42), true));
        assert!(raw.contains(&HeaderName::from_static("ratelimit-limit")));
        assert!(!raw.contains(&HeaderName::from_static("ratelimit")));
        assert_eq!(raw.into_map().unwrap()["ratelimit-limit"], "5");
    }
}
