//! Reading the head of an answer.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, StatusCode};

use crate::fields;
use crate::framing::{Coding, Framing, Signs};
use crate::lines::{self, Lines};
use crate::malformed::Malformed;

/// An answer's head, and what comes behind it.
#[derive(Debug)]
pub struct ReadResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub head: Head,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether the connection can carry another request.
    pub goes_on: bool,
}

/// The headers of an answer: those that are passed on, as lines, or all of them in a map.
#[derive(Debug, Default)]
pub struct Head {
    lines: Option<Lines>,
    /// Empty as long as there are lines.
    map: HeaderMap,
}

impl From<HeaderMap> for Head {
    fn from(map: HeaderMap) -> Self {
        Self { lines: None, map }
    }
}

impl From<Lines> for Head {
    fn from(lines: Lines) -> Self {
        Self { lines: Some(lines), map: HeaderMap::new() }
    }
}

impl Head {
    /// Those that are passed on as they stand, if any are.
    pub const fn lines(&self) -> Option<&Lines> {
        self.lines.as_ref()
    }

    /// All of them, unless they are [lines](Self::lines).
    pub const fn map(&self) -> &HeaderMap {
        &self.map
    }

    /// All of them in a map, to be looked at and changed.
    pub fn map_mut(&mut self) -> &mut HeaderMap {
        if let Some(lines) = self.lines.take() {
            // They were lines of a head when they were read, and are so still.
            self.map = lines.into_map().unwrap_or_default();
        }
        &mut self.map
    }
}

/// What the headers of an answer are wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// To be looked at.
    Map,
    /// To be passed on, if that is all there is to it.
    Lines,
}

/// Takes the head of the answer to a request of this method off the front of what was read; `None` if it is not
/// there whole. A head may be `longest` bytes long.
pub fn read_response(
    input: &mut BytesMut,
    method: &Method,
    longest: usize,
    wanted: Wanted,
) -> Result<Option<ReadResponse>, Malformed> {
    let mut lines = [MaybeUninit::uninit(); fields::MOST];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut parsed, input, &mut lines) {
        Ok(httparse::Status::Complete(length)) if length <= longest => length,
        Ok(httparse::Status::Partial) if input.len() < longest => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Malformed::TooLarge),
        Err(httparse::Error::HeaderName | httparse::Error::HeaderValue) => return Err(Malformed::Field),
        Err(_) => return Err(Malformed::FirstLine),
    };
    let (Some(version), Some(status)) = (parsed.version, parsed.code) else { return Err(Malformed::FirstLine) };
    let status = StatusCode::from_u16(status).map_err(|_| Malformed::FirstLine)?;
    let is_1_1 = version == 1;
    let found = match wanted {
        Wanted::Lines if may_be_lines(status) => lines::find(parsed.headers, input, length)?,
        _ => None,
    };
    if let Some(found) = found {
        let framing = framing(&found.signs, is_1_1, status, method)?;
        let goes_on = found.signs.goes_on(is_1_1) && framing != Framing::UntilClose;
        let lines = found.in_bytes(input.split_to(length).freeze())?;
        return Ok(Some(ReadResponse { status, head: lines.into(), framing, goes_on }));
    }
    let spans = fields::spans(parsed.headers, input);
    let bytes = input.split_to(length).freeze();
    let (mut headers, signs) = fields::gather(&spans, &bytes)?;
    let framing = framing(&signs, is_1_1, status, method)?;
    let mut goes_on = signs.goes_on(is_1_1);
    if framing == Framing::Chunked && signs.tells_length() {
        headers.remove(CONTENT_LENGTH);
        goes_on = false;
    }
    // Behind a switch of protocols there is no HTTP any more, whether anybody asked for it or not.
    goes_on &= framing != Framing::UntilClose && status != StatusCode::SWITCHING_PROTOCOLS;
    Ok(Some(ReadResponse { status, head: headers.into(), framing, goes_on }))
}

/// How the body behind a head with these signs is framed (RFC 9112, 6.3).
fn framing(signs: &Signs, is_1_1: bool, status: StatusCode, method: &Method) -> Result<Framing, Malformed> {
    Ok(match signs.coding {
        Some(_) if !is_1_1 => return Err(Malformed::Coding),
        _ if has_no_body(status, method) => Framing::Empty,
        // Nobody asked for it, and to pass its bytes on as if they were not coded would be a lie.
        Some(_) if signs.is_coded => return Err(Malformed::Coding),
        Some(Coding::Other) => Framing::UntilClose,
        Some(Coding::Chunked) => Framing::Chunked,
        None => signs.told_length()?.map_or(Framing::UntilClose, Framing::Length),
    })
}

/// Whether an answer of this status may be passed on as it stands. What comes before an answer is not, and where there is
/// no content, its length is not told.
fn may_be_lines(status: StatusCode) -> bool {
    !status.is_informational() && status != StatusCode::NO_CONTENT
}

/// Answers that have no body, whatever their head says (RFC 9112, 6.3).
fn has_no_body(status: StatusCode, method: &Method) -> bool {
    *method == Method::HEAD
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways of reading agree.
    fn read(method: &Method, text: &str) -> Result<ReadResponse, Malformed> {
        let [map, lines] = [Wanted::Map, Wanted::Lines].map(|wanted| {
            let mut input = BytesMut::from(text);
            read_response(&mut input, method, 1_000, wanted).map(|read| read.unwrap())
        });
        let known = |read: &Result<ReadResponse, Malformed>| {
            read.as_ref().map(|read| (read.status, read.framing, read.goes_on)).map_err(|malformed| *malformed)
        };
        assert_eq!(known(&map), known(&lines), "{text}");
        map
    }

    #[test]
    fn what_follows_a_head_is_known() {
        use Framing::{Chunked, Empty, Length, UntilClose};
        for (method, first, lines, framing, goes_on) in [
            ("GET", "HTTP/1.1 200 OK", "Content-Length: 5", Length(5), true),
            ("GET", "HTTP/1.1 200", "Content-Length: 5", Length(5), true),
            ("HEAD", "HTTP/1.1 200 OK", "Content-Length: 5", Empty, true),
            ("HEAD", "HTTP/1.1 200 OK", "Transfer-Encoding: chunked", Empty, true),
            ("GET", "HTTP/1.1 204 None", "X: a", Empty, true),
            ("GET", "HTTP/1.1 304 Same", "Content-Length: 500", Empty, true),
            ("GET", "HTTP/1.1 101 Switching", "Upgrade: a", Empty, false),
            ("GET", "HTTP/1.1 200 OK", "X: a", UntilClose, false),
            ("GET", "HTTP/1.0 200 OK", "Content-Length: 5", Length(5), false),
            ("GET", "HTTP/1.0 200 OK", "Content-Length: 5\r\nConnection: keep-alive", Length(5), true),
            ("GET", "HTTP/1.1 200 OK", "Content-Length: 5\r\nConnection: close", Length(5), false),
            ("GET", "HTTP/1.1 200 OK", "Transfer-Encoding: chunked", Chunked, true),
            ("HEAD", "HTTP/1.1 200 OK", "Transfer-Encoding: gzip", Empty, true),
            ("GET", "HTTP/1.1 200 OK", "Transfer-Encoding: chunked\r\nContent-Length: 5", Chunked, false),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let read = read(&method, &format!("{first}\r\n{lines}\r\n\r\n")).unwrap();
            assert_eq!((read.framing, read.goes_on), (framing, goes_on), "{method} {first} {lines}");
        }
    }

    #[test]
    fn no_name_is_too_long_for_one_reader_and_not_for_the_other() {
        let text = format!("HTTP/1.1 200 OK\r\n{}: 1\r\nContent-Length: 0\r\n\r\n", "n".repeat(65_536));
        for wanted in [Wanted::Map, Wanted::Lines] {
            let read = read_response(&mut BytesMut::from(text.as_str()), &Method::GET, 256 << 10, wanted);
            assert_eq!(read.unwrap_err(), Malformed::Field);
        }
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for text in [
            "nonsense\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
        ] {
            assert!(read(&Method::GET, text).is_err(), "{text}");
        }
    }
}
