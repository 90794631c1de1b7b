//! HTTP/2 client on frame level; sends valid or invalid frames as given.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::TEST_TIMEOUT;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RESET: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GO_AWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

/// Last frame of a stream; for SETTINGS and PING: acknowledgement.
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// The first frames of a server: its settings, and the acknowledgement of the client's.
pub const GREETING: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";

/// Number of requests in everything a client has sent.
pub fn count_requests(received: &[u8]) -> usize {
    const PREFACE: usize = 24;
    let (mut count_requests, mut rest) = (0, received.get(PREFACE..).unwrap_or_default());
    while let [a, b, c, kind, ..] = *rest {
        count_requests += usize::from(kind == HEADERS);
        rest = rest.get(9 + u32::from_be_bytes([0, a, b, c]) as usize..).unwrap_or_default();
    }
    count_requests
}

/// A complete response.
pub fn response_frames(stream: u32, text: &str) -> Vec<u8> {
    // `:status 200`
    [frame(HEADERS, END_HEADERS, stream, b"\x88"), frame(DATA, END_STREAM, stream, text.as_bytes())].concat()
}

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// Result of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamResult {
    Status(u16),
    /// The stream was reset with this error code.
    Reset(u32),
    /// The connection was closed with this error code.
    GoAway(u32),
    Closed,
}

/// An HTTP/2 connection.
pub struct Http2 {
    pub stream: TcpStream,
}

impl Http2 {
    /// Connects and sends the preface.
    pub fn connect(at: SocketAddr) -> Self {
        Self::with_settings(at, &[])
    }

    /// The same with settings.
    pub fn with_settings(at: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut connection = Self { stream };
        connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        // No dynamic table: each head can be decoded by itself.
        let mut payload = vec![0, 1, 0, 0, 0, 0];
        for (id, value) in settings {
            payload.extend(id.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        connection.send(frame(SETTINGS, 0, 0, &payload));
        connection
    }

    /// Sends bytes; false if the peer no longer accepts them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// The next frame; `None` once the connection has ended.
    pub fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.exactly(&mut head)?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.exactly(&mut payload)?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    fn exactly(&mut self, buffer: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(buffer) {
            Ok(()) => Some(()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("nothing to read"),
            Err(_) => None,
        }
    }

    /// Waits for the result of a stream.
    pub fn stream_result(&mut self, stream: u32) -> StreamResult {
        loop {
            let Some(frame) = self.next() else { return StreamResult::Closed };
            let code = |from: usize| u32::from_be_bytes(frame.payload[from..from + 4].try_into().unwrap());
            match frame.kind {
                HEADERS if frame.stream == stream => return StreamResult::Status(status(&frame.payload)),
                RESET if frame.stream == stream => return StreamResult::Reset(code(0)),
                GO_AWAY if code(4) != 0 => return StreamResult::GoAway(code(4)),
                SETTINGS if frame.flags & END_STREAM == 0 => {
                    self.send(self::frame(SETTINGS, END_STREAM, 0, &[]));
                }
                _ => {}
            }
        }
    }

    /// Reads until the connection ends; returns the reason.
    pub fn end(&mut self) -> StreamResult {
        let mut last = StreamResult::Closed;
        while let Some(frame) = self.next() {
            if frame.kind == GO_AWAY {
                last = StreamResult::GoAway(u32::from_be_bytes(frame.payload[4..8].try_into().unwrap()));
            }
        }
        last
    }

    /// The body of a stream after its head.
    pub fn body(&mut self, stream: u32) -> Vec<u8> {
        let mut body = Vec::new();
        while let Some(frame) = self.next() {
            if frame.kind == DATA && frame.stream == stream {
                body.extend(&frame.payload);
                if frame.flags & END_STREAM != 0 {
                    return body;
                }
            }
        }
        panic!("the body broke off: {body:?}");
    }
}

/// Encodes a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A header block with literal headers.
pub fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for text in [name, value] {
            write_length(&mut block, text.len());
            block.extend(text.as_bytes());
        }
    }
    block
}

/// Writes an HPACK integer with a seven-bit prefix.
fn write_length(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        return block.push(u8::try_from(length).unwrap());
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    block.push(u8::try_from(rest).unwrap());
}

/// A request head in one frame.
pub fn head(stream: u32, flags: u8, headers: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, &block(headers))
}

/// The head of a GET.
pub fn get(stream: u32, path: &str) -> Vec<u8> {
    let headers = [(":method", "GET"), (":scheme", "http"), (":authority", "shop.example"), (":path", path)];
    head(stream, END_STREAM, &headers)
}

/// The status at the start of a header block.
pub fn status(block: &[u8]) -> u16 {
    // Table size updates come first.
    let block = &block[block.iter().take_while(|it| **it & 0xe0 == 0x20).count()..];
    match block[0] {
        known @ 0x88..=0x8e => [200, 204, 206, 304, 400, 404, 500][usize::from(known - 0x88)],
        // Indexed name, literal value.
        0x08 | 0x18 | 0x48 => {
            let value = &block[2..2 + usize::from(block[1] & 0x7f)];
            let text = if block[1] & 0x80 == 0 { value.to_vec() } else { digits(value) };
            String::from_utf8(text).unwrap().parse().unwrap()
        }
        _ => panic!("no status in {block:?}"),
    }
}

/// Decodes Huffman-coded digits: the first three take five bits, the others six.
fn digits(bytes: &[u8]) -> Vec<u8> {
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let value = |bits: &[u8]| bits.iter().fold(0, |value, bit| value << 1 | bit);
    let (mut digits, mut rest) = (Vec::new(), &bits[..]);
    while rest.len() >= 5 {
        let short = value(&rest[..5]);
        if short < 3 {
            digits.push(b'0' + short);
            rest = &rest[5..];
        } else if rest.len() >= 6 && (25..32).contains(&value(&rest[..6])) {
            digits.push(b'3' + value(&rest[..6]) - 25);
            rest = &rest[6..];
        } else {
            break;
        }
    }
    digits
}
