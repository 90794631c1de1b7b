//! The lines of an answer's head, passed on as they stand.
//!
//! A gateway changes little about an answer: it takes off what is for its own hop, and adds a line or two. To make a map of
//! all lines for that, and lines of the map, costs more than all else that is done to the answer. So what may go on is
//! kept as runs of bytes that are copied whole. What takes a closer look is made a map after all: two lengths, another
//! protocol, trailers, lines that do not end as they should.

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use smallvec::SmallVec;

use crate::fields::{self, Span};
use crate::framing::Signs;
use crate::malformed::Malformed;

/// The lines of a head that are passed on. Those for this hop only, and those that tell how the body is framed in
/// chunks, are not among them.
#[derive(Clone, Debug)]
pub struct Lines {
    head: Bytes,
    runs: Runs,
    length: Option<u64>,
    has_date: bool,
}

type Runs = SmallVec<[Span; 2]>;

/// No map takes a name that is longer.
const LONGEST_NAME: usize = u16::MAX as usize;

/// What was found by a look at the lines, before the bytes are in shared hands.
pub(crate) struct Found {
    runs: Runs,
    pub(crate) signs: Signs,
    has_date: bool,
}

/// What a line is to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    PassedOn,
    Date,
    Length,
    Coding,
    Connection,
    /// For this hop only.
    OfHop,
    /// Something that takes a closer look.
    Special,
}

impl Kind {
    fn of(name: &[u8]) -> Self {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            2 if is("te") => Self::Special,
            4 if is("date") => Self::Date,
            7 if is("upgrade") || is("trailer") => Self::Special,
            10 if is("connection") => Self::Connection,
            10 if is("keep-alive") => Self::OfHop,
            14 if is("content-length") => Self::Length,
            14 if is("http2-settings") => Self::OfHop,
            16 if is("proxy-connection") => Self::OfHop,
            17 if is("transfer-encoding") => Self::Coding,
            18 if is("proxy-authenticate") => Self::OfHop,
            19 if is("proxy-authorization") => Self::OfHop,
            _ => Self::PassedOn,
        }
    }
}

/// Finds what may be passed on among the lines of a head of this length; `None` if that takes a closer look.
pub(crate) fn find(lines: &[httparse::Header<'_>], whole: &[u8], length: usize) -> Result<Option<Found>, Malformed> {
    let mut found = Found { runs: Runs::new(), signs: Signs::default(), has_date: false };
    // Behind the last line comes an empty one.
    let end_of_lines = length - 2;
    for (nth, line) in lines.iter().enumerate() {
        if line.name.len() > LONGEST_NAME {
            return Err(Malformed::Field);
        }
        let start = Span::of(line.name.as_bytes(), whole).start();
        let end = lines.get(nth + 1).map_or(end_of_lines, |next| Span::of(next.name.as_bytes(), whole).start());
        if whole.get(end - 2..end) != Some(b"\r\n") {
            return Ok(None);
        }
        let is_passed_on = match Kind::of(line.name.as_bytes()) {
            Kind::PassedOn => true,
            Kind::Date => {
                found.has_date = true;
                true
            }
            Kind::Length if found.signs.length(line.value)? => true,
            Kind::Coding => {
                found.signs.coding(line.value);
                false
            }
            Kind::Connection if line.value.eq_ignore_ascii_case(b"keep-alive") => {
                found.signs.keep_alive = true;
                false
            }
            Kind::Connection if line.value.eq_ignore_ascii_case(b"close") => {
                found.signs.close = true;
                false
            }
            Kind::OfHop => false,
            // It may name other lines that are for this hop.
            Kind::Connection | Kind::Length | Kind::Special => return Ok(None),
        };
        if is_passed_on {
            match found.runs.last_mut() {
                Some(run) if run.end() == start => *run = Span::new(run.start(), end),
                _ => found.runs.push(Span::new(start, end)),
            }
        }
    }
    let is_framed_twice = found.signs.coding.is_some() && found.signs.tells_length();
    Ok(Some(found).filter(|_| !is_framed_twice))
}

impl Found {
    /// The lines, among the same bytes in shared hands.
    pub(crate) fn in_bytes(self, head: Bytes) -> Result<Lines, Malformed> {
        Ok(Lines { head, runs: self.runs, length: self.signs.told_length()?, has_date: self.has_date })
    }
}

impl Lines {
    /// Writes them, each with its end.
    pub fn write(&self, output: &mut Vec<u8>) {
        for run in &self.runs {
            output.extend_from_slice(run.in_slice(&self.head));
        }
    }

    /// What `Content-Length` says, which is among the lines.
    pub const fn length(&self) -> Option<u64> {
        self.length
    }

    /// Whether the answer tells when it was made.
    pub const fn has_date(&self) -> bool {
        self.has_date
    }

    /// Whether there is a line of this name.
    pub fn contains(&self, name: &HeaderName) -> bool {
        let name = name.as_str().as_bytes();
        let lines = self.runs.iter().flat_map(|run| run.in_slice(&self.head).split_inclusive(|byte| *byte == b'\n'));
        lines.filter_map(|line| line.split(|byte| *byte == b':').next()).any(|it| it.eq_ignore_ascii_case(name))
    }

    /// A map of them.
    pub fn into_map(self) -> Result<HeaderMap, Malformed> {
        let mut text = Vec::with_capacity(self.head.len());
        self.write(&mut text);
        text.extend_from_slice(b"\r\n");
        fields::map(Bytes::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Option<Lines> {
        let head = format!("HTTP/1.1 200 OK\r\n{text}\r\n");
        let mut space = [httparse::EMPTY_HEADER; 16];
        let mut parsed = httparse::Response::new(&mut space);
        let length = parsed.parse(head.as_bytes()).unwrap().unwrap();
        let found = find(parsed.headers, head.as_bytes(), length).unwrap()?;
        Some(found.in_bytes(Bytes::copy_from_slice(head.as_bytes())).unwrap())
    }

    fn written(lines: &Lines) -> String {
        let mut output = Vec::new();
        lines.write(&mut output);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn what_is_for_others_is_passed_on_as_it_stands() {
        for (head, passed_on) in [
            ("", ""),
            ("Server:x\r\n", "Server:x\r\n"),
            ("A: 1\r\nConnection: keep-alive\r\na:  2 \r\n", "A: 1\r\na:  2 \r\n"),
            ("Connection: Close\r\nKeep-Alive: timeout=5\r\nB: 2\r\n", "B: 2\r\n"),
            ("A: 1\r\nTransfer-Encoding: chunked\r\nProxy-Authenticate: x\r\n", "A: 1\r\n"),
            ("Content-Length: 5\r\nX: \r\nProxy-Connection: x\r\nY: 1\r\n", "Content-Length: 5\r\nX: \r\nY: 1\r\n"),
        ] {
            let lines = lines(head).unwrap();
            assert_eq!(written(&lines), passed_on, "{head:?}");
            assert_eq!(lines.clone().into_map().unwrap().len(), passed_on.lines().count(), "{head:?}");
        }
    }

    #[test]
    fn what_is_special_is_looked_at_closely() {
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
            assert!(lines(head).is_none(), "{head:?}");
        }
    }

    #[test]
    fn what_they_say_is_known() {
        let lines =
            lines("dATE: x\r\nContent-Length: 42\r\nRateLimit-Limit : 5\r\n".replace(" :", ":").as_str()).unwrap();
        assert_eq!((lines.length(), lines.has_date()), (Some(42), true));
        assert!(lines.contains(&HeaderName::from_static("ratelimit-limit")));
        assert!(!lines.contains(&HeaderName::from_static("ratelimit")));
        assert_eq!(lines.into_map().unwrap()["ratelimit-limit"], "5");
    }
}
