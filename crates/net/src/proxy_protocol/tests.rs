#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use tokio::io::ReadBuf;

use super::*;

/// Bytes behind the header, which must stay in the connection.
const TRAILING: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Reader that returns its bytes in chunks, then end of file.
struct ChunkedReader<'a> {
    bytes: &'a [u8],
    /// Chunk lengths in order; the last one repeats.
    lengths: Vec<usize>,
    reads: usize,
}

impl AsyncRead for ChunkedReader<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let length = *self.lengths.get(self.reads).or(self.lengths.last()).unwrap();
        let piece = &self.bytes[..length.max(1).min(self.bytes.len()).min(buf.remaining())];
        buf.put_slice(piece);
        self.bytes = &self.bytes[piece.len()..];
        self.reads += 1;
        Poll::Ready(Ok(()))
    }
}

/// Reads a header that arrives in such chunks; returns the result and the number of bytes left.
fn read_chunked(bytes: &[u8], lengths: Vec<usize>) -> (Result<ProxyHeader, String>, usize) {
    let mut pieces = ChunkedReader { bytes, lengths, reads: 0 };
    let header = {
        let reading = std::pin::pin!(read(&mut pieces));
        match reading.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(header) => header.map_err(|error| error.to_string()),
            Poll::Pending => panic!("no read was pending"),
        }
    };
    (header, pieces.bytes.len())
}

/// Reads a header with bytes behind it, split at every position; none of those bytes may be missing.
fn parse_at_every_split(line: &[u8]) -> Result<ProxyHeader, String> {
    let bytes = [line, TRAILING].concat();
    let (complete, remaining) = read_chunked(&bytes, vec![usize::MAX]);
    if complete.is_ok() {
        assert_eq!(remaining, TRAILING.len(), "bytes after the header were consumed");
    }
    for cut in 1..bytes.len() {
        assert_eq!(read_chunked(&bytes, vec![cut, usize::MAX]).0, complete, "cut at {cut}");
    }
    assert_eq!(read_chunked(&bytes, vec![1]).0, complete);
    complete
}

fn client_at(address: &str) -> Result<ProxyHeader, String> {
    Ok(ProxyHeader::Client(address.parse().unwrap()))
}

fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family], &length, rest].concat()
}

#[test]
fn version_1_header_carries_the_client() {
    let lines = [
        ("PROXY TCP4 192.0.2.1 198.51.100.1 51234 443\r\n", "192.0.2.1:51234"),
        ("PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\n", "1.1.1.1:1"),
        ("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535"),
        ("PROXY TCP6 2001:db8::1 2001:db8::2 51234 443\r\n", "[2001:db8::1]:51234"),
        ("PROXY TCP6 :: :: 0 0\r\n", "[::]:0"),
        ("PROXY TCP6 ::ffff:192.0.2.1 ::1 9 9\r\n", "192.0.2.1:9"),
        (
            "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
            "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
        ),
    ];
    for (line, client) in lines {
        assert_eq!(parse_at_every_split(line.as_bytes()), client_at(client), "{line}");
    }
}

#[test]
fn version_1_header_may_be_unknown() {
    let max_length = format!("PROXY UNKNOWN {}\r\n", "f".repeat(v1::MAX_BYTES - 16));
    assert_eq!(max_length.len(), v1::MAX_BYTES);
    for line in ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", &max_length] {
        assert_eq!(parse_at_every_split(line.as_bytes()), Ok(ProxyHeader::Peer), "{line}");
    }
}

#[test]
fn malformed_version_1_headers_are_rejected() {
    let too_long = format!("PROXY UNKNOWN {}\r\n", "f".repeat(v1::MAX_BYTES - 15));
    let endless = format!("PROXY TCP4 {}", "1".repeat(1_000));
    let lines = [
        "PROXY TCP4 192.0.2.1 198.51.100.1 51234 443\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 51234 443\r",
        "PROXY TCP4 192.0.2.1 198.51.100.1 51234\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 51234 443 1\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 51234 443 \r\n",
        "PROXY TCP4  192.0.2.1 198.51.100.1 51234 443\r\n",
        "PROXY TCP4 192.0.2.01 198.51.100.1 51234 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 051234 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 +5 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 65536 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.1 1 -1\r\n",
        "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
        "PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n",
        "PROXY TCP6 fe80::1%eth0 fe80::2 1 2\r\n",
        "PROXY TCP5 192.0.2.1 198.51.100.1 1 2\r\n",
        "PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY UNKNOWN a\nb\r\n",
        "PROXY \r\n",
        "PROXY\r\n",
        "proxy TCP4 192.0.2.1 198.51.100.1 51234 443\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\r\n",
        &too_long,
        &endless,
    ];
    for line in lines {
        assert!(parse_at_every_split(line.as_bytes()).is_err(), "{line}");
    }
}

#[test]
fn version_2_header_carries_the_client() {
    let v4 = [192, 0, 2, 1, 198, 51, 100, 1, 0xc8, 0x22, 1, 0xbb];
    assert_eq!(parse_at_every_split(&v2(0x21, 0x11, &v4)), client_at("192.0.2.1:51234"));
    assert_eq!(parse_at_every_split(&v2(0x21, 0x12, &v4)), client_at("192.0.2.1:51234"), "over datagrams (QUIC)");
    let facts = [&v4[..], &[0x04, 0, 100], &[7; 100], &[0x03, 0, 4, 1, 2, 3, 4]].concat();
    assert_eq!(parse_at_every_split(&v2(0x21, 0x11, &facts)), client_at("192.0.2.1:51234"), "with TLV extensions");

    let ports = [0xc8, 0x22, 1, 0xbb];
    let v6: std::net::Ipv6Addr = "2001:db8::1".parse().unwrap();
    let line = v2(0x21, 0x21, &[&v6.octets()[..], &[9; 16], &ports].concat());
    assert_eq!(parse_at_every_split(&line), client_at("[2001:db8::1]:51234"));
    let mapped: std::net::Ipv6Addr = "::ffff:192.0.2.1".parse().unwrap();
    let line = v2(0x21, 0x21, &[&mapped.octets()[..], &[9; 16], &ports].concat());
    assert_eq!(parse_at_every_split(&line), client_at("192.0.2.1:51234"), "mapped addresses are IPv4");
}

#[test]
fn version_2_header_may_be_local() {
    for line in [
        v2(0x20, 0x00, &[]),
        v2(0x20, 0x11, &[1; 12]),
        v2(0x20, 0xff, &[1; 3]),
        v2(0x21, 0x00, &[]),
        v2(0x21, 0x00, &[5; 2_048]),
        v2(0x21, 0x31, &[b'/'; 216]),
    ] {
        assert_eq!(parse_at_every_split(&line), Ok(ProxyHeader::Peer));
    }
}

#[test]
fn malformed_version_2_headers_are_rejected() {
    let valid = [1; 12];
    let mut corrupted = v2(0x21, 0x11, &valid);
    corrupted[5] = b'\n';
    let lines = [
        v2(0x11, 0x11, &valid),
        v2(0x31, 0x11, &valid),
        v2(0x22, 0x11, &valid),
        v2(0x21, 0x10, &valid),
        v2(0x21, 0x13, &valid),
        v2(0x21, 0x41, &valid),
        v2(0x21, 0x11, &valid[..11]),
        v2(0x21, 0x21, &[1; 35]),
        v2(0x21, 0x11, &[1; 2_049]),
        v2(0x20, 0x00, &[1; 65_535]),
        corrupted,
    ];
    for line in lines {
        assert!(parse_at_every_split(&line).is_err(), "{line:?}");
    }
}

#[test]
fn truncated_and_missing_headers_are_different_errors() {
    let line = b"PROXY TCP4 192.0.2.1 198.51.100.1 51234 443\r\n";
    assert_eq!(read_chunked(&[], vec![1]).0, Err(ProxyProtocolError::Closed.to_string()));
    for cut in 1..line.len() {
        assert_eq!(
            read_chunked(&line[..cut], vec![9]).0,
            Err(ProxyProtocolError::Truncated.to_string()),
            "after {cut}"
        );
    }
    let line = v2(0x21, 0x11, &[1; 40]);
    for cut in 1..line.len() {
        assert_eq!(
            read_chunked(&line[..cut], vec![9]).0,
            Err(ProxyProtocolError::Truncated.to_string()),
            "after {cut}"
        );
    }
}

/// Bytes that are often almost a header.
fn almost_valid_headers() -> impl Strategy<Value = Vec<u8>> {
    let any = || proptest::collection::vec(any::<u8>(), 0..200);
    let text = "PROXY (TCP4|TCP6|UNKNOWN)( [0-9a-f:.]{0,20}){0,6}(\r\n|\n|\r|)[a-z \r\n]{0,130}";
    let v1 = text.prop_map(String::into_bytes);
    let v2 = (0x1f_u8..0x23, prop::sample::select(vec![0, 0x11, 0x12, 0x21, 0x31, 0x41]), 0_u16..300, any()).prop_map(
        |(command, family, length, rest)| [SIGNATURE, &[command, family], &length.to_be_bytes(), &rest].concat(),
    );
    prop_oneof![any(), v1, v2]
}

proptest! {
    /// Any input in any chunks gives a result, and always the same one.
    #[test]
    fn result_is_independent_of_chunking(bytes in almost_valid_headers(), lengths in proptest::collection::vec(1_usize..40, 1..20)) {
        let (complete, remaining) = read_chunked(&bytes, vec![usize::MAX]);
        let (chunked, remaining_chunked) = read_chunked(&bytes, lengths);
        prop_assert_eq!(&complete, &chunked);
        if complete.is_ok() {
            prop_assert_eq!(remaining, remaining_chunked);
        }
    }

    #[test]
    fn both_versions_carry_every_address(octets: [u8; 16], port: u16, trailing in proptest::collection::vec(any::<u8>(), 0..50)) {
        let address = std::net::Ipv6Addr::from(octets);
        let expected = Ok(ProxyHeader::Client(SocketAddr::new(address.to_canonical(), port)));
        let text = format!("PROXY TCP6 {address} ::1 {port} 443\r\n");
        let binary = v2(0x21, 0x21, &[&octets[..], &[0; 16], &port.to_be_bytes(), &[1, 187]].concat());
        for line in [text.into_bytes(), binary] {
            prop_assert_eq!(read_chunked(&[&line[..], &trailing].concat(), vec![usize::MAX]), (expected.clone(), trailing.len()));
        }
    }
}
