//! Serializer for HTTP/1.1 messages.

use http::{HeaderMap, HeaderName, Method, StatusCode};

/// Writes a request line.
pub fn write_request_line(output: &mut Vec<u8>, method: &Method, target: &str) {
    output.extend_from_slice(method.as_str().as_bytes());
    output.push(b' ');
    output.extend_from_slice(target.as_bytes());
    output.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Writes a status line.
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

/// Writes header lines, without the empty line after them.
pub(crate) fn write_fields(output: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        write_field(output, name, value.as_bytes());
    }
}

/// Writes a header line.
pub fn write_field(output: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    let name = name.as_str().as_bytes();
    output.reserve(name.len() + value.len() + 4);
    output.extend_from_slice(name);
    output.extend_from_slice(b": ");
    output.extend_from_slice(value);
    output.extend_from_slice(b"\r\n");
}

/// Writes the size line of a chunk with this many bytes. The caller writes `\r\n` after the data.
///
/// The length must not be zero: an empty chunk ends the body.
pub fn write_chunk(output: &mut Vec<u8>, length: usize) {
    debug_assert!(length > 0, "an empty chunk ends the body");
    let mut digits = [0; usize::BITS as usize / 4];
    let (mut remaining, mut first) = (length, digits.len());
    while remaining > 0 {
        first -= 1;
        digits[first] = b"0123456789ABCDEF"[remaining & 0xf];
        remaining >>= 4;
    }
    output.extend_from_slice(&digits[first..]);
    output.extend_from_slice(b"\r\n");
}

/// Writes the last chunk and the trailers.
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
    fn written_messages_follow_the_rfc() {
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
