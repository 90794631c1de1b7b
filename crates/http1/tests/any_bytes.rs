//! Property tests of the parser: arbitrary input in arbitrary segments.
#![allow(clippy::unwrap_used, reason = "a test")]

use bytes::BytesMut;
use http::Method;
use proptest::prelude::*;
use sluicegate_http1::{
    Decoded, Decoder, Framing, HeaderMode, ParseError, read_request, read_response, write_chunk, write_last_chunk,
};

const MAX_HEAD: usize = 2_000;

/// A parsed request.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    line: String,
    fields: Vec<(String, Vec<u8>)>,
    framing: Framing,
    body: Vec<u8>,
}

/// Result of reading a connection: requests with bodies, and the error that ended it.
#[derive(Debug, PartialEq, Eq)]
struct ReadConnection {
    requests: Vec<Request>,
    error: Option<ParseError>,
    /// Remaining input that is not a complete request.
    remaining: Vec<u8>,
}

/// Reads a connection whose bytes arrive in these pieces.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> ReadConnection {
    let mut read = ReadConnection { requests: Vec::new(), error: None, remaining: Vec::new() };
    let (mut input, mut body) = (BytesMut::new(), Decoder::new(Framing::Empty));
    for piece in pieces {
        input.extend_from_slice(piece);
        if let Err(error) = read_available(&mut read, &mut input, &mut body) {
            read.error = Some(error);
            return read;
        }
    }
    read.remaining = input.to_vec();
    read
}

fn read_available(read: &mut ReadConnection, input: &mut BytesMut, body: &mut Decoder) -> Result<(), ParseError> {
    loop {
        while !body.is_done() {
            match body.decode(input)? {
                Decoded::Data(data) => read.requests.last_mut().unwrap().body.extend_from_slice(&data),
                Decoded::NeedMore => return Ok(()),
                Decoded::Trailers(_) | Decoded::End => {}
            }
        }
        let Some(request) = read_request(input, MAX_HEAD)? else { return Ok(()) };
        let head = request.head;
        let fields = head.headers().iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
        let line = format!("{} {} {:?}", head.method(), head.uri(), head.version());
        read.requests.push(Request { line, fields, framing: request.framing, body: Vec::new() });
        *body = Decoder::new(request.framing);
    }
}

/// Headers that are never forwarded.
const HOP_BY_HOP: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "proxy-authenticate", "http2-settings", "transfer-encoding"];

/// Byte strings that resemble a response.
fn near_responses() -> impl Strategy<Value = Vec<u8>> {
    let line = |text: &'static str| Just(text.as_bytes().to_vec());
    let first = prop_oneof![
        6 => line("HTTP/1.1 200 OK\r\n"),
        1 => line("HTTP/1.0 200 OK\r\n"),
        1 => line("HTTP/1.1 304 Same\r\n"),
        1 => line("HTTP/1.1 204 None\r\n"),
        1 => line("HTTP/1.1 101 Other\r\n"),
    ];
    let part = prop_oneof![
        6 => line("Server: x\r\n"),
        4 => line("Date:now\r\n"),
        4 => line("Content-Length: 3\r\n"),
        2 => line("content-length: 4\r\n"),
        2 => line("Transfer-Encoding: chunked\r\n"),
        1 => line("Transfer-Encoding: gzip\r\n"),
        4 => line("Connection: keep-alive\r\n"),
        2 => line("connection: close\r\n"),
        1 => line("Connection: x-mine\r\n"),
        1 => line("X-Mine: \t 1 \r\n"),
        1 => line("X-Mine: 2\n"),
        1 => line("Keep-Alive: timeout=5\r\n"),
        1 => line("Proxy-Authenticate: a\r\n"),
        1 => line("Upgrade: a\r\n"),
        1 => line("Trailer: x-sum\r\n"),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    let end = prop_oneof![8 => line("\r\n"), 1 => line("\n"), 1 => line("")];
    (first, prop::collection::vec(part, 0..10), end, line("abc"))
        .prop_map(|(first, parts, end, body)| [first, parts.concat(), end, body].concat())
}

/// Byte strings that resemble requests.
fn near_requests() -> impl Strategy<Value = Vec<u8>> {
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
    fn parsing_does_not_depend_on_segmentation(bytes in near_requests(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([bytes.len()]);
        let mut begin = 0;
        let pieces: Vec<&[u8]> = ends.map(|end| &bytes[std::mem::replace(&mut begin, end)..end]).collect();
        let (whole, cut) = (read([&bytes[..]]), read(pieces));
        prop_assert_eq!(whole, cut);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read([&bytes[..]]);
        let mut input = BytesMut::from(&bytes[..]);
        drop(read_response(&mut input, &Method::GET, MAX_HEAD, HeaderMode::Map));
    }

    #[test]
    fn both_header_modes_agree(bytes in near_responses(), is_head in any::<bool>()) {
        let method = if is_head { Method::HEAD } else { Method::GET };
        let [(map, map_rest), (lines, lines_rest)] = [HeaderMode::Map, HeaderMode::Raw].map(|wanted| {
            let mut input = BytesMut::from(&bytes[..]);
            (read_response(&mut input, &method, MAX_HEAD, wanted), input)
        });
        match (map, lines) {
            (Ok(Some(map)), Ok(Some(lines))) => {
                prop_assert_eq!(map_rest, lines_rest);
                prop_assert_eq!((map.status, map.framing, map.keep_alive), (lines.status, lines.framing, lines.keep_alive));
                prop_assert!(map.head.raw().is_none());
                let (mut all, mut passed_on) = (map.head.map().clone(), lines.head);
                if let Some(lines) = passed_on.raw() {
                    for name in HOP_BY_HOP {
                        all.remove(name);
                    }
                    prop_assert_eq!(lines.has_date(), all.contains_key("date"));
                    let length = all.get("content-length").map(|value| value.to_str().unwrap().parse().unwrap());
                    prop_assert_eq!(lines.length(), length);
                    prop_assert!(all.keys().all(|name| lines.contains(name)));
                }
                prop_assert_eq!(&all, passed_on.map_mut());
            }
            (Ok(None), Ok(None)) => prop_assert_eq!(map_rest, lines_rest),
            (Err(map), Err(lines)) => prop_assert_eq!(map, lines),
            (map, lines) => prop_assert!(false, "{map:?} and {lines:?}"),
        }
    }

    #[test]
    fn written_chunks_round_trip(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8)) {
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
