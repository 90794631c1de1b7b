//! Fuzzes the HTTP/1.1 codec: no panic, the same requests for any split of the input, and the same response in both
//! header modes.
#![no_main]

use bytes::{Buf, BytesMut};
use http::Method;
use libfuzzer_sys::fuzz_target;
use sluicegate_http1::{Decoded, Decoder, Framing, HeaderMode, ParseError, ReadResponse, read_request, read_response};

const MAX_HEADER_SIZE: usize = 16 << 10;

fuzz_target!(|bytes: &[u8]| {
    // The first byte is the position at which the rest is split.
    let (position, bytes) = bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first), rest));
    let position = position.min(bytes.len());
    assert_eq!(requests(&[bytes]), requests(&[&bytes[..position], &bytes[position..]]));
    for method in [Method::GET, Method::HEAD] {
        let [map, raw] = [HeaderMode::Map, HeaderMode::Raw].map(|mode| response(bytes, &method, mode));
        assert_eq!(map, raw);
    }
});

/// Reads the requests of a connection that receives these pieces. Returns the requests, the error, and the number of
/// remaining bytes.
fn requests(pieces: &[&[u8]]) -> (Vec<String>, Option<ParseError>, usize) {
    let (mut read, mut input, mut body) = (Vec::new(), BytesMut::new(), Decoder::new(Framing::Empty));
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match body.decode(&mut input) {
                Ok(Decoded::Data(data)) => read.extend(data.chunk().iter().map(|byte| format!("{byte}"))),
                Ok(Decoded::NeedMore) => break,
                Ok(Decoded::Trailers(trailers)) => read.push(format!("{trailers:?}")),
                Ok(Decoded::End) => match read_request(&mut input, MAX_HEADER_SIZE) {
                    Ok(Some(request)) => {
                        body = Decoder::new(request.framing);
                        read.push(format!("{request:?}"));
                    }
                    Ok(None) => break,
                    Err(error) => return (read, Some(error), 0),
                },
                Err(error) => return (read, Some(error), 0),
            }
        }
    }
    (read, None, input.len())
}

/// Reads a response and returns its status, end-to-end headers, framing and remaining bytes as text.
fn response(bytes: &[u8], method: &Method, mode: HeaderMode) -> Result<Option<String>, ParseError> {
    let mut input = BytesMut::from(bytes);
    let Some(ReadResponse { status, mut head, framing, keep_alive }) =
        read_response(&mut input, method, MAX_HEADER_SIZE, mode)?
    else {
        return Ok(None);
    };
    let headers = head.map_mut();
    if headers.get_all("connection").iter().any(|value| !is_standard_option(value.as_bytes())) {
        // `Connection` names further hop-by-hop headers, which are not compared here.
        return Ok(None);
    }
    for name in ["connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization"] {
        headers.remove(name);
    }
    headers.remove("http2-settings");
    headers.remove("transfer-encoding");
    let mut names: Vec<_> = headers.keys().collect();
    names.sort_by_key(|name| name.as_str());
    let headers: Vec<_> = names.iter().map(|name| (name, headers.get_all(*name).iter().collect::<Vec<_>>())).collect();
    Ok(Some(format!("{status} {headers:?} {framing:?} {keep_alive} {}", input.len())))
}

fn is_standard_option(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
}
