//! Reading the head of a request.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Uri, Version};

use crate::fields::{self, Span};
use crate::framing::{Coding, Framing};
use crate::malformed::Malformed;

/// A request's head, and what comes behind it.
#[derive(Debug)]
pub struct ReadRequest {
    /// The head itself.
    pub head: Request<()>,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether another request may follow.
    pub goes_on: bool,
    /// Whether the client waits for a word before it sends the body.
    pub expects_continue: bool,
    /// Whether the client wants trailers.
    pub takes_trailers: bool,
}

/// Takes a request's head off the front of what was read; `None` if it is not there whole. A head may be `longest`
/// bytes long.
pub fn read_request(input: &mut BytesMut, longest: usize) -> Result<Option<ReadRequest>, Malformed> {
    let mut lines = [MaybeUninit::uninit(); fields::MOST];
    let mut parsed = httparse::Request::new(&mut []);
    let length = match parsed.parse_with_uninit_headers(input, &mut lines) {
        Ok(httparse::Status::Complete(length)) if length <= longest => length,
        Ok(httparse::Status::Partial) if input.len() < longest => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Malformed::TooLarge),
        Err(httparse::Error::HeaderName | httparse::Error::HeaderValue) => return Err(Malformed::Field),
        Err(_) => return Err(Malformed::FirstLine),
    };
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(Malformed::FirstLine);
    };
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| Malformed::FirstLine)?;
    let target = Span::of(target.as_bytes(), input);
    let spans = fields::spans(parsed.headers, input);

    let bytes = input.split_to(length).freeze();
    let (mut headers, signs) = fields::gather(&spans, &bytes)?;
    let is_1_1 = version == 1;
    let mut goes_on = signs.goes_on(is_1_1);
    let framing = match signs.coding {
        // Nobody of 1.0 can mean it, and who stands before us may have read something else.
        Some(_) if !is_1_1 => return Err(Malformed::Coding),
        Some(Coding::Other) => return Err(Malformed::Coding),
        Some(Coding::Chunked) => {
            if signs.tells_length() {
                // The coding counts; but whoever sends both may be up to something.
                headers.remove(CONTENT_LENGTH);
                goes_on = false;
            }
            Framing::Chunked
        }
        None => signs.told_length()?.map_or(Framing::Empty, Framing::Length),
    };
    let mut head = Request::new(());
    *head.method_mut() = method;
    *head.uri_mut() = Uri::from_maybe_shared(target.in_bytes(&bytes)).map_err(|_| Malformed::FirstLine)?;
    *head.version_mut() = if is_1_1 { Version::HTTP_11 } else { Version::HTTP_10 };
    *head.headers_mut() = headers;
    let expects_continue = signs.expects_continue && is_1_1;
    Ok(Some(ReadRequest { head, framing, goes_on, expects_continue, takes_trailers: signs.takes_trailers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: usize = 1_000;

    fn read(text: &str) -> Result<ReadRequest, Malformed> {
        let mut input = BytesMut::from(text);
        let read = read_request(&mut input, LONGEST).map(|read| read.unwrap());
        assert!(read.is_err() || input.is_empty());
        read
    }

    #[test]
    fn a_head_is_taken_off_when_it_is_whole() {
        let whole = "GET /a?b=c HTTP/1.1\r\nHost: shop\r\nX-A: 1\r\nX-A: 2\r\n\r\n";
        for cut in 0..whole.len() {
            let mut input = BytesMut::from(&whole[..cut]);
            assert!(read_request(&mut input, LONGEST).unwrap().is_none(), "{cut}");
            assert_eq!(input.len(), cut);
        }
        let mut input = BytesMut::from(format!("\r\n{whole}GET").as_str());
        let read = read_request(&mut input, LONGEST).unwrap().unwrap();
        assert_eq!(input, "GET");
        assert_eq!((read.head.method(), read.head.uri().to_string().as_str()), (&Method::GET, "/a?b=c"));
        assert_eq!((read.head.version(), read.framing, read.goes_on), (Version::HTTP_11, Framing::Empty, true));
        let both: Vec<_> = read.head.headers().get_all("x-a").iter().collect();
        assert_eq!(both, ["1", "2"]);
    }

    #[test]
    fn what_follows_a_head_is_beyond_doubt() {
        let of = |lines: &str| read(&format!("POST / HTTP/1.1\r\n{lines}\r\n\r\n"));
        for (lines, framing, goes_on) in [
            ("Host: a", Framing::Empty, true),
            ("Content-Length: 5", Framing::Length(5), true),
            ("Content-Length: 5\r\nContent-Length: 5", Framing::Length(5), true),
            ("Transfer-Encoding: chunked", Framing::Chunked, true),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", Framing::Chunked, false),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\nContent-Length: 6", Framing::Chunked, false),
            ("Connection: a, Close", Framing::Empty, false),
        ] {
            let read = of(lines).unwrap();
            assert_eq!((read.framing, read.goes_on), (framing, goes_on), "{lines}");
            assert!(read.head.headers().get_all(CONTENT_LENGTH).iter().count() <= 1, "{lines}");
            assert!(framing != Framing::Chunked || !read.head.headers().contains_key(CONTENT_LENGTH), "{lines}");
        }
        for (lines, expected) in [
            ("Content-Length: 5\r\nContent-Length: 6", Malformed::Length),
            ("Content-Length:", Malformed::Length),
            ("Transfer-Encoding: identity", Malformed::Coding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip", Malformed::Coding),
            ("X : a", Malformed::Field),
            ("X: a\r\n b", Malformed::Field),
            ("X: a\0", Malformed::Field),
        ] {
            assert_eq!(of(lines).unwrap_err(), expected, "{lines}");
        }
    }

    #[test]
    fn who_wants_trailers_says_so() {
        let of = |lines: &str| read(&format!("GET / HTTP/1.1\r\n{lines}\r\n\r\n")).unwrap().takes_trailers;
        for lines in ["TE: trailers", "TE: deflate;q=0.5, Trailers", "TE: deflate\r\nTE: trailers"] {
            assert!(of(lines), "{lines}");
        }
        for lines in ["Host: a", "TE:", "TE: deflate", "Trailer: trailers"] {
            assert!(!of(lines), "{lines}");
        }
    }

    #[test]
    fn those_of_1_0_end_unless_they_say_so() {
        let of = |lines: &str| read(&format!("GET / HTTP/1.0\r\n{lines}\r\n\r\n"));
        assert!(!of("Host: a").unwrap().goes_on);
        assert!(of("Connection: Keep-Alive").unwrap().goes_on);
        assert!(!of("Connection: Keep-Alive, close").unwrap().goes_on);
        assert!(!of("Expect: 100-continue\r\nContent-Length: 1").unwrap().expects_continue);
        assert_eq!(of("Transfer-Encoding: chunked").unwrap_err(), Malformed::Coding);
    }

    #[test]
    fn no_head_is_read_without_end() {
        let mut input = BytesMut::from(format!("GET /{}", "a".repeat(LONGEST)).as_str());
        assert_eq!(read_request(&mut input, LONGEST).unwrap_err(), Malformed::TooLarge);
        let lines = "a:b\r\n".repeat(fields::MOST + 1);
        assert_eq!(read(&format!("GET / HTTP/1.1\r\n{lines}\r\n")).unwrap_err(), Malformed::TooLarge);
        let line = format!("X: {}", "a".repeat(LONGEST));
        assert_eq!(read(&format!("GET / HTTP/1.1\r\n{line}\r\n\r\n")).unwrap_err(), Malformed::TooLarge);
        for line in
            ["GET / HTTP/1.2", "GET / HTTP/2.0", "GET /", "G@T / HTTP/1.1", "GET  / HTTP/1.1", "GET /\0 HTTP/1.1"]
        {
            assert_eq!(read(&format!("{line}\r\n\r\n")).unwrap_err(), Malformed::FirstLine, "{line}");
        }
    }
}
