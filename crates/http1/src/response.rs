//! Reading the head of an answer.

use std::mem::MaybeUninit;

use bytes::BytesMut;
use http::header::CONTENT_LENGTH;
use http::{Method, Response, StatusCode, Version};

use crate::fields;
use crate::framing::{Coding, Framing};
use crate::malformed::Malformed;

/// An answer's head, and what comes behind it.
#[derive(Debug)]
pub struct ReadResponse {
    /// The head itself.
    pub head: Response<()>,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether the connection can carry another request.
    pub goes_on: bool,
}

/// Takes the head of the answer to a request of this method off the front of what was read; `None` if it is not
/// there whole. A head may be `longest` bytes long.
pub fn read_response(input: &mut BytesMut, method: &Method, longest: usize) -> Result<Option<ReadResponse>, Malformed> {
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
    let spans = fields::spans(parsed.headers, input);

    let bytes = input.split_to(length).freeze();
    let (mut headers, signs) = fields::gather(&spans, &bytes)?;
    let is_1_1 = version == 1;
    let mut goes_on = signs.goes_on(is_1_1);
    let framing = match signs.coding {
        Some(_) if !is_1_1 => return Err(Malformed::Coding),
        _ if has_no_body(status, method) => Framing::Empty,
        Some(Coding::Other) => Framing::UntilClose,
        Some(Coding::Chunked) => {
            if signs.tells_length() {
                headers.remove(CONTENT_LENGTH);
                goes_on = false;
            }
            Framing::Chunked
        }
        None => signs.told_length()?.map_or(Framing::UntilClose, Framing::Length),
    };
    let mut head = Response::new(());
    *head.status_mut() = status;
    *head.version_mut() = if is_1_1 { Version::HTTP_11 } else { Version::HTTP_10 };
    *head.headers_mut() = headers;
    // Behind a switch of protocols there is no HTTP any more, whether anybody asked for it or not.
    goes_on &= framing != Framing::UntilClose && status != StatusCode::SWITCHING_PROTOCOLS;
    Ok(Some(ReadResponse { head, framing, goes_on }))
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

    fn read(method: &Method, text: &str) -> Result<ReadResponse, Malformed> {
        let mut input = BytesMut::from(text);
        read_response(&mut input, method, 1_000).map(|read| read.unwrap())
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
            ("GET", "HTTP/1.1 200 OK", "Transfer-Encoding: gzip", UntilClose, false),
            ("GET", "HTTP/1.1 200 OK", "Transfer-Encoding: chunked\r\nContent-Length: 5", Chunked, false),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let read = read(&method, &format!("{first}\r\n{lines}\r\n\r\n")).unwrap();
            assert_eq!((read.framing, read.goes_on), (framing, goes_on), "{method} {first} {lines}");
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
        ] {
            assert!(read(&Method::GET, text).is_err(), "{text}");
        }
    }
}
