//! Parser for the head of a response.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, StatusCode};

use crate::error::ParseError;
use crate::fields;
use crate::framing::{Coding, Framing, FramingHeaders};
use crate::raw_headers::{self, RawHeaders};

/// A parsed response head and the properties of its message.
#[derive(Debug)]
pub struct ReadResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub head: ResponseHead,
    /// Framing of the body.
    pub framing: Framing,
    /// True if the connection can carry another request.
    pub keep_alive: bool,
}

/// The headers of a response: either the end-to-end headers as raw lines, or all headers as a map.
#[derive(Debug, Default)]
pub struct ResponseHead {
    raw: Option<RawHeaders>,
    /// Empty while the headers are raw.
    map: HeaderMap,
}

impl From<HeaderMap> for ResponseHead {
    fn from(map: HeaderMap) -> Self {
        Self { raw: None, map }
    }
}

impl From<RawHeaders> for ResponseHead {
    fn from(raw: RawHeaders) -> Self {
        Self { raw: Some(raw), map: HeaderMap::new() }
    }
}

impl ResponseHead {
    /// The raw header lines, if the headers are kept raw.
    pub const fn raw(&self) -> Option<&RawHeaders> {
        self.raw.as_ref()
    }

    /// All headers, unless they are [raw](Self::raw).
    pub const fn map(&self) -> &HeaderMap {
        &self.map
    }

    /// All headers as a map that can be changed; converts raw headers.
    pub fn map_mut(&mut self) -> &mut HeaderMap {
        if let Some(raw) = self.raw.take() {
            // The lines were parsed as headers before, so parsing succeeds again.
            self.map = raw.into_map().unwrap_or_default();
        }
        &mut self.map
    }
}

/// Representation of the response headers that the caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderMode {
    /// A map, to inspect the headers.
    Map,
    /// Raw lines to forward, if the head allows it.
    Raw,
}

/// Splits the head of the response to a request with this method off the front of `input`; `None` if it is
/// incomplete. A head may have at most `max_header_size` bytes.
pub fn read_response(
    input: &mut BytesMut,
    method: &Method,
    max_header_size: usize,
    mode: HeaderMode,
) -> Result<Option<ReadResponse>, ParseError> {
    let mut lines = [MaybeUninit::uninit(); fields::MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut parsed, input, &mut lines) {
        Ok(httparse::Status::Complete(length)) if length <= max_header_size => length,
        Ok(httparse::Status::Partial) if input.len() < max_header_size => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(ParseError::TooLarge),
        Err(httparse::Error::HeaderName | httparse::Error::HeaderValue) => return Err(ParseError::Header),
        Err(_) => return Err(ParseError::StartLine),
    };
    let (Some(version), Some(status)) = (parsed.version, parsed.code) else { return Err(ParseError::StartLine) };
    let status = StatusCode::from_u16(status).map_err(|_| ParseError::StartLine)?;
    let is_http11 = version == 1;
    let scan = match mode {
        HeaderMode::Raw if can_stay_raw(status) => raw_headers::scan(parsed.headers, input, length)?,
        _ => None,
    };
    if let Some(scan) = scan {
        let framing = framing(&scan.framing, is_http11, status, method)?;
        let keep_alive = scan.framing.is_persistent(is_http11) && framing != Framing::UntilClose;
        let raw = scan.into_raw_headers(input.split_to(length).freeze())?;
        return Ok(Some(ReadResponse { status, head: raw.into(), framing, keep_alive }));
    }
    let spans = fields::spans(parsed.headers, input);
    let bytes = input.split_to(length).freeze();
    let (mut headers, framing_headers) = fields::parse_headers(&spans, &bytes)?;
    let framing = framing(&framing_headers, is_http11, status, method)?;
    let mut keep_alive = framing_headers.is_persistent(is_http11);
    if framing == Framing::Chunked && framing_headers.has_content_length() {
        headers.remove(CONTENT_LENGTH);
        keep_alive = false;
    }
    // After a protocol switch the connection no longer carries HTTP, whether the switch was requested or not.
    keep_alive &= framing != Framing::UntilClose && status != StatusCode::SWITCHING_PROTOCOLS;
    Ok(Some(ReadResponse { status, head: headers.into(), framing, keep_alive }))
}

/// Determines the framing of the response body (RFC 9112, section 6.3).
fn framing(
    headers: &FramingHeaders,
    is_http11: bool,
    status: StatusCode,
    method: &Method,
) -> Result<Framing, ParseError> {
    Ok(match headers.coding {
        Some(_) if !is_http11 => return Err(ParseError::TransferCoding),
        _ if has_no_body(status, method) => Framing::Empty,
        // The client did not ask for the coding; forwarding the bytes as if they were not encoded would be wrong.
        Some(_) if headers.has_other_coding => return Err(ParseError::TransferCoding),
        Some(Coding::Other) => Framing::UntilClose,
        Some(Coding::Chunked) => Framing::Chunked,
        None => headers.content_length()?.map_or(Framing::UntilClose, Framing::Length),
    })
}

/// True if the headers of a response with this status may stay raw. Interim responses are not forwarded, and
/// 204 must not have a length.
fn can_stay_raw(status: StatusCode) -> bool {
    !status.is_informational() && status != StatusCode::NO_CONTENT
}

/// True for responses that have no body, regardless of their headers (RFC 9112, section 6.3).
fn has_no_body(status: StatusCode, method: &Method) -> bool {
    *method == Method::HEAD
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads in both header modes and checks that they agree.
    fn read(method: &Method, text: &str) -> Result<ReadResponse, ParseError> {
        let [map, raw] = [HeaderMode::Map, HeaderMode::Raw].map(|mode| {
            let mut input = BytesMut::from(text);
            read_response(&mut input, method, 1_000, mode).map(|read| read.unwrap())
        });
        let known = |read: &Result<ReadResponse, ParseError>| {
            read.as_ref().map(|read| (read.status, read.framing, read.keep_alive)).map_err(|malformed| *malformed)
        };
        assert_eq!(known(&map), known(&raw), "{text}");
        map
    }

    #[test]
    fn response_framing_follows_the_rfc() {
        use Framing::{Chunked, Empty, Length, UntilClose};
        for (method, first, lines, framing, keep_alive) in [
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
            assert_eq!((read.framing, read.keep_alive), (framing, keep_alive), "{method} {first} {lines}");
        }
    }

    #[test]
    fn both_header_modes_have_the_same_name_limit() {
        let text = format!("HTTP/1.1 200 OK\r\n{}: 1\r\nContent-Length: 0\r\n\r\n", "n".repeat(65_536));
        for mode in [HeaderMode::Map, HeaderMode::Raw] {
            let read = read_response(&mut BytesMut::from(text.as_str()), &Method::GET, 256 << 10, mode);
            assert_eq!(read.unwrap_err(), ParseError::Header);
        }
    }

    #[test]
    fn invalid_responses_are_rejected() {
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
