//! What clients and servers send over HTTP/1: nothing panics, however it is cut it reads alike, and an answer is the same
//! whatever its head is wanted for.
#![no_main]

use bytes::{Buf, BytesMut};
use http::Method;
use libfuzzer_sys::fuzz_target;
use sluicegate_http1::{Decoded, Decoder, Framing, Malformed, ReadResponse, Wanted, read_request, read_response};

const LONGEST: usize = 16 << 10;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says where the rest is cut.
    let (cut, bytes) = bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first), rest));
    let cut = cut.min(bytes.len());
    assert_eq!(requests(&[bytes]), requests(&[&bytes[..cut], &bytes[cut..]]));
    for method in [Method::GET, Method::HEAD] {
        let [map, lines] = [Wanted::Map, Wanted::Lines].map(|wanted| answer(bytes, &method, wanted));
        assert_eq!(map, lines);
    }
});

/// The requests of a connection whose bytes come in these pieces, and how it ended.
fn requests(pieces: &[&[u8]]) -> (Vec<String>, Option<Malformed>, usize) {
    let (mut read, mut input, mut body) = (Vec::new(), BytesMut::new(), Decoder::new(Framing::Empty));
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match body.decode(&mut input) {
                Ok(Decoded::Data(data)) => read.extend(data.chunk().iter().map(|byte| format!("{byte}"))),
                Ok(Decoded::More) => break,
                Ok(Decoded::Trailers(trailers)) => read.push(format!("{trailers:?}")),
                Ok(Decoded::End) => match read_request(&mut input, LONGEST) {
                    Ok(Some(request)) => {
                        body = Decoder::new(request.framing);
                        read.push(format!("{request:?}"));
                    }
                    Ok(None) => break,
                    Err(malformed) => return (read, Some(malformed), 0),
                },
                Err(malformed) => return (read, Some(malformed), 0),
            }
        }
    }
    (read, None, input.len())
}

/// What is passed on of an answer.
fn answer(bytes: &[u8], method: &Method, wanted: Wanted) -> Result<Option<String>, Malformed> {
    let mut input = BytesMut::from(bytes);
    let Some(ReadResponse { status, mut head, framing, goes_on }) = read_response(&mut input, method, LONGEST, wanted)?
    else {
        return Ok(None);
    };
    let headers = head.map_mut();
    if headers.get_all("connection").iter().any(|value| !is_usual(value.as_bytes())) {
        // Names of further headers, which are for others to look at.
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
    Ok(Some(format!("{status} {headers:?} {framing:?} {goes_on} {}", input.len())))
}

fn is_usual(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
}
