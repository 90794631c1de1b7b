//! Parser for the head of a request.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Uri, Version};

use crate::error::ParseError;
use crate::fields::{self, ByteSpan};
use crate::framing::{Coding, Framing};

/// A parsed request head and the properties of its message.
#[derive(Debug)]
pub struct ReadRequest {
    /// The head.
    pub head: Request<()>,
    /// Framing of the body.
    pub framing: Framing,
    /// True if another request may follow on the connection.
    pub keep_alive: bool,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// True if the client accepts trailers.
    pub accepts_trailers: bool,
}

/// Splits a request head off the front of `input`; `None` if it is incomplete. A head may have at most
/// `max_header_size` bytes.
pub fn read_request(input: &mut BytesMut, max_header_size: usize) -> Result<Option<ReadRequest>, ParseError> {
    let mut lines = [MaybeUninit::uninit(); fields::MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let length = match parsed.parse_with_uninit_headers(input, &mut lines) {
        Ok(httparse::Status::Complete(length)) if length <= max_header_size => length,
        Ok(httparse::Status::Partial) if input.len() < max_header_size => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(ParseError::TooLarge),
        Err(httparse::Error::HeaderName | httparse::Error::HeaderValue) => return Err(ParseError::Header),
        Err(_) => return Err(ParseError::StartLine),
    };
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(ParseError::StartLine);
    };
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| ParseError::StartLine)?;
    let target = ByteSpan::of(target.as_bytes(), input);
    let spans = fields::spans(parsed.headers, input);

    let bytes = input.split_to(length).freeze();
    let (mut headers, framing_headers) = fields::parse_headers(&spans, &bytes)?;
    let is_http11 = version == 1;
    let mut keep_alive = framing_headers.is_persistent(is_http11);
    let framing = match framing_headers.coding {
        // HTTP/1.0 has no transfer codings, and a proxy in front of us may have parsed the message differently.
        Some(_) if !is_http11 => return Err(ParseError::TransferCoding),
        Some(Coding::Other) => return Err(ParseError::TransferCoding),
        Some(Coding::Chunked) => {
            if framing_headers.has_content_length() {
                // The coding takes precedence, but a message with both may be a smuggling attempt.
                headers.remove(CONTENT_LENGTH);
                keep_alive = false;
            }
            Framing::Chunked
        }
        None => framing_headers.content_length()?.map_or(Framing::Empty, Framing::Length),
    };
    let mut head = Request::new(());
    *head.method_mut() = method;
    *head.uri_mut() = Uri::from_maybe_shared(target.in_bytes(&bytes)).map_err(|_| ParseError::StartLine)?;
    *head.version_mut() = if is_http11 { Version::HTTP_11 } else { Version::HTTP_10 };
    *head.headers_mut() = headers;
    let expects_continue = framing_headers.expects_continue && is_http11;
    Ok(Some(ReadRequest {
        head,
        framing,
        keep_alive,
        expects_continue,
        accepts_trailers: framing_headers.accepts_trailers,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_HEAD: usize = 1_000;

    fn read(text: &str) -> Result<ReadRequest, ParseError> {
        let mut input = BytesMut::from(text);
        let read = read_request(&mut input, MAX_HEAD).map(|read| read.unwrap());
        assert!(read.is_err() || input.is_empty());
        read
    }

    #[test]
    fn a_head_is_split_off_when_complete() {
        let whole = "GET /a?b=c HTTP/1.1\r\nHost: shop\r\nX-A: 1\r\nX-A: 2\r\n\r\n";
        for cut in 0..whole.len() {
            let mut input = BytesMut::from(&whole[..cut]);
            assert!(read_request(&mut input, MAX_HEAD).unwrap().is_none(), "{cut}");
            assert_eq!(input.len(), cut);
        }
        let mut input = BytesMut::from(format!("\r\n{whole}GET").as_str());
        let read = read_request(&mut input, MAX_HEAD).unwrap().unwrap();
        assert_eq!(input, "GET");
        assert_eq!((read.head.method(), read.head.uri().to_string().as_str()), (&Method::GET, "/a?b=c"));
        assert_eq!((read.head.version(), read.framing, read.keep_alive), (Version::HTTP_11, Framing::Empty, true));
        let both: Vec<_> = read.head.headers().get_all("x-a").iter().collect();
        assert_eq!(both, ["1", "2"]);
    }

    #[test]
    fn ambiguous_framing_is_rejected() {
        let of = |lines: &str| read(&format!("POST / HTTP/1.1\r\n{lines}\r\n\r\n"));
        for (lines, framing, keep_alive) in [
            ("Host: a", Framing::Empty, true),
            ("Content-Length: 5", Framing::Length(5), true),
            ("Content-Length: 5\r\nContent-Length: 5", Framing::Length(5), true),
            ("Transfer-Encoding: chunked", Framing::Chunked, true),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", Framing::Chunked, false),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\nContent-Length: 6", Framing::Chunked, false),
            ("Connection: a, Close", Framing::Empty, false),
        ] {
            let read = of(lines).unwrap();
            assert_eq!((read.framing, read.keep_alive), (framing, keep_alive), "{lines}");
            assert!(read.head.headers().get_all(CONTENT_LENGTH).iter().count() <= 1, "{lines}");
            assert!(framing != Framing::Chunked || !read.head.headers().contains_key(CONTENT_LENGTH), "{lines}");
        }
        for (lines, expected) in [
            ("Content-Length: 5\r\nContent-Length: 6", ParseError::Length),
            ("Content-Length:", ParseError::Length),
            ("Transfer-Encoding: identity", ParseError::TransferCoding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip", ParseError::TransferCoding),
            ("X : a", ParseError::Header),
            ("X: a\r\n b", ParseError::Header),
            ("X: a\0", ParseError::Header),
        ] {
            assert_eq!(of(lines).unwrap_err(), expected, "{lines}");
        }
    }

    #[test]
    fn te_trailers_is_recognized() {
        let of = |lines: &str| read(&format!("GET / HTTP/1.1\r\n{lines}\r\n\r\n")).unwrap().accepts_trailers;
        for lines in ["TE: trailers", "TE: deflate;q=0.5, Trailers", "TE: deflate\r\nTE: trailers"] {
            assert!(of(lines), "{lines}");
        }
        for lines in ["Host: a", "TE:", "TE: deflate", "Trailer: trailers"] {
            assert!(!of(lines), "{lines}");
        }
    }

    #[test]
    fn http10_connections_close_unless_keep_alive() {
        let of = |lines: &str| read(&format!("GET / HTTP/1.0\r\n{lines}\r\n\r\n"));
        assert!(!of("Host: a").unwrap().keep_alive);
        assert!(of("Connection: Keep-Alive").unwrap().keep_alive);
        assert!(!of("Connection: Keep-Alive, close").unwrap().keep_alive);
        assert!(!of("Expect: 100-continue\r\nContent-Length: 1").unwrap().expects_continue);
        assert_eq!(of("Transfer-Encoding: chunked").unwrap_err(), ParseError::TransferCoding);
    }

    #[test]
    fn head_size_is_bounded() {
        let mut input = BytesMut::from(format!("GET /{}", "a".repeat(MAX_HEAD)).as_str());
        assert_eq!(read_request(&mut input, MAX_HEAD).unwrap_err(), ParseError::TooLarge);
        let lines = "a:b\r\n".repeat(fields::MAX_HEADERS + 1);
        assert_eq!(read(&format!("GET / HTTP/1.1\r\n{lines}\r\n")).unwrap_err(), ParseError::TooLarge);
        let line = format!("X: {}", "a".repeat(MAX_HEAD));
        assert_eq!(read(&format!("GET / HTTP/1.1\r\n{line}\r\n\r\n")).unwrap_err(), ParseError::TooLarge);
        for line in
            ["GET / HTTP/1.2", "GET / HTTP/2.0", "GET /", "G@T / HTTP/1.1", "GET  / HTTP/1.1", "GET /\0 HTTP/1.1"]
        {
            assert_eq!(read(&format!("{line}\r\n\r\n")).unwrap_err(), ParseError::StartLine, "{line}");
        }
    }
}
