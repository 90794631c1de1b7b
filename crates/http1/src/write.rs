//! Writing messages.

use http::{HeaderMap, HeaderName, Method, StatusCode};

/// The first line of a request.
pub fn write_request_line(output: &mut Vec<u8>, method: &Method, target: &str) {
    output.extend_from_slice(method.as_str().as_bytes());
    output.push(b' ');
    output.extend_from_slice(target.as_bytes());
    output.extend_from_slice(b" HTTP/1.1\r\n");
}

/// The first line of an answer.
pub fn write_status_line(output: &mut Vec<u8>, status: StatusCode) {
    if status == StatusCode::OK {
        output.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    output.extend_from_slice(b"HTTP/1.1 ");
    output.extend_from_slice(status.as_str().as_bytes());
    output.push(b' ');
    output.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    output.extend_from_slice(b"\r\n");
}

/// Header lines, without the empty line behind them.
pub(crate) fn write_fields(output: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        write_field(output, name, value.as_bytes());
    }
}

/// A header line.
pub fn write_field(output: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    let name = name.as_str().as_bytes();
    output.reserve(name.len() + value.len() + 4);
    output.extend_from_slice(name);
    output.extend_from_slice(b": ");
    output.extend_from_slice(value);
    output.extend_from_slice(b"\r\n");
}

/// The line before a chunk of so many bytes. Behind the chunk comes `\r\n`.
///
/// A chunk of nothing would be the last one: whoever has nothing to say writes none.
pub fn write_chunk(output: &mut Vec<u8>, length: usize) {
    debug_assert!(length > 0, "it would be the last one");
    let mut digits = [0; usize::BITS as usize / 4];
    let (mut left, mut first) = (length, digits.len());
    while left > 0 {
        first -= 1;
        digits[first] = b"0123456789ABCDEF"[left & 0xf];
        left >>= 4;
    }
    output.extend_from_slice(&digits[first..]);
    output.extend_from_slice(b"\r\n");
}

/// The end of a body in chunks.
pub fn write_last_chunk(output: &mut Vec<u8>, trailers: Option<&HeaderMap>) {
    output.extend_from_slice(b"0\r\n");
    if let Some(trailers) = trailers {
        write_fields(output, trailers);
    }
    output.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_as_the_standard_says() {
        let mut output = Vec::new();
        write_request_line(&mut output, &Method::GET, "/a?b");
        write_status_line(&mut output, StatusCode::OK);
        write_status_line(&mut output, StatusCode::NOT_FOUND);
        write_status_line(&mut output, StatusCode::from_u16(299).unwrap());
        let headers = HeaderMap::from_iter([(http::header::HOST, "a".parse().unwrap())]);
        write_fields(&mut output, &headers);
        write_chunk(&mut output, 0x1a0);
        write_last_chunk(&mut output, None);
        write_last_chunk(&mut output, Some(&headers));
        let expected = "GET /a?b HTTP/1.1\r\nHTTP/1.1 200 OK\r\nHTTP/1.1 404 Not Found\r\nHTTP/1.1 299 \r\nhost: a\r\n\
                        1A0\r\n0\r\n\r\n0\r\nhost: a\r\n\r\n";
        assert_eq!(String::from_utf8(output).unwrap(), expected);
    }
}
