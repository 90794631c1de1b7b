//! Whatever comes, and however it is cut.
#![allow(clippy::unwrap_used, reason = "a test")]

use bytes::BytesMut;
use http::Method;
use proptest::prelude::*;
use sluicegate_http1::{
    Decoded, Decoder, Framing, Malformed, read_request, read_response, write_chunk, write_last_chunk,
};

const LONGEST: usize = 2_000;

/// A request as it was read.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    line: String,
    fields: Vec<(String, Vec<u8>)>,
    framing: Framing,
    body: Vec<u8>,
}

/// What is read of a connection: requests with their bodies, and how it ended.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    requests: Vec<Request>,
    fault: Option<Malformed>,
    /// What is left that is not a whole request.
    rest: Vec<u8>,
}

/// Reads a connection whose bytes come in these pieces.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let mut read = Read { requests: Vec::new(), fault: None, rest: Vec::new() };
    let (mut input, mut body) = (BytesMut::new(), Decoder::new(Framing::Empty));
    for piece in pieces {
        input.extend_from_slice(piece);
        if let Err(fault) = read_on(&mut read, &mut input, &mut body) {
            read.fault = Some(fault);
            return read;
        }
    }
    read.rest = input.to_vec();
    read
}

fn read_on(read: &mut Read, input: &mut BytesMut, body: &mut Decoder) -> Result<(), Malformed> {
    loop {
        while !body.is_done() {
            match body.decode(input)? {
                Decoded::Data(data) => read.requests.last_mut().unwrap().body.extend_from_slice(&data),
                Decoded::More => return Ok(()),
                Decoded::Trailers(_) | Decoded::End => {}
            }
        }
        let Some(request) = read_request(input, LONGEST)? else { return Ok(()) };
        let head = request.head;
        let fields = head.headers().iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
        let line = format!("{} {} {:?}", head.method(), head.uri(), head.version());
        read.requests.push(Request { line, fields, framing: request.framing, body: Vec::new() });
        *body = Decoder::new(request.framing);
    }
}

/// Bytes that look like requests, more or less.
fn almost_requests() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => Just(b"GET / HTTP/1.1\r\n".to_vec()),
        2 => Just(b"POST /a?b HTTP/1.1\r\n".to_vec()),
        1 => Just(b"GET / HTTP/1.0\r\n".to_vec()),
        4 => Just(b"Host: a\r\n".to_vec()),
        2 => Just(b"Content-Length: 3\r\n".to_vec()),
        2 => Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
        6 => Just(b"\r\n".to_vec()),
        2 => Just(b"abc".to_vec()),
        2 => Just(b"3\r\nabc\r\n".to_vec()),
        2 => Just(b"0\r\n\r\n".to_vec()),
        1 => Just(b"0\r\nX: y\r\n\r\n".to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_read_does_not_depend_on_how_it_is_cut(bytes in almost_requests(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([bytes.len()]);
        let mut begin = 0;
        let pieces: Vec<&[u8]> = ends.map(|end| &bytes[std::mem::replace(&mut begin, end)..end]).collect();
        let (whole, cut) = (read([&bytes[..]]), read(pieces));
        prop_assert_eq!(whole, cut);
    }

    #[test]
    fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read([&bytes[..]]);
        let mut input = BytesMut::from(&bytes[..]);
        drop(read_response(&mut input, &Method::GET, LONGEST));
    }

    #[test]
    fn what_is_written_is_read_again(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8)) {
        let mut output = Vec::new();
        for part in &parts {
            write_chunk(&mut output, part.len());
            output.extend_from_slice(part);
            output.extend_from_slice(b"\r\n");
        }
        write_last_chunk(&mut output, None);
        let (mut input, mut body) = (BytesMut::from(&output[..]), Decoder::new(Framing::Chunked));
        let mut read = Vec::new();
        while !body.is_done() {
            if let Decoded::Data(data) = body.decode(&mut input).unwrap() {
                read.extend_from_slice(&data);
            }
        }
        prop_assert!(input.is_empty());
        prop_assert_eq!(read, parts.concat());
    }
}
