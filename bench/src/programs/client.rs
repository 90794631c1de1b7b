//! Minimal HTTP/1.1 client, so that the client's own cost is small.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Read timeout; prevents a hanging run.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Persistent connection.
pub(crate) struct Client {
    stream: TcpStream,
    /// Received bytes; those before `start` have been consumed.
    buffer: Vec<u8>,
    start: usize,
}

/// HTTP response.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Status and position of a response in the buffer.
struct ResponseExtent {
    status: u16,
    head: usize,
    end: usize,
}

/// GET request for `path`.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: bench.test\r\n\r\n").into_bytes()
}

impl Client {
    pub(crate) fn connect(port: u16) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connection opens");
        stream.set_nodelay(true).expect("TCP_NODELAY is set");
        stream.set_read_timeout(Some(READ_TIMEOUT)).expect("read timeout is set");
        Self { stream, buffer: Vec::new(), start: 0 }
    }

    /// Sends one request or several.
    pub(crate) fn send(&mut self, requests: &[u8]) {
        self.stream.write_all(requests).expect("request is sent");
    }

    /// Waits for the next response and returns its status.
    pub(crate) fn status(&mut self) -> u16 {
        let extent = self.next();
        self.consume(&extent);
        extent.status
    }

    /// Reads from a readable socket and returns the status of the next response if it is complete.
    pub(crate) fn status_if_complete(&mut self) -> Option<u16> {
        self.read();
        let extent = parse_extent(&self.buffer[self.start..])?;
        self.consume(&extent);
        Some(extent.status)
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Sends one request and waits for its response.
    pub(crate) fn request(&mut self, request: &[u8]) -> HttpResponse {
        self.send(request);
        let extent = self.next();
        let (head, body) = self.buffer[self.start..self.start + extent.end].split_at(extent.head);
        let response = HttpResponse {
            status: extent.status,
            head: String::from_utf8_lossy(head).into_owned(),
            body: body.to_vec(),
        };
        self.consume(&extent);
        response
    }

    fn next(&mut self) -> ResponseExtent {
        loop {
            if let Some(extent) = parse_extent(&self.buffer[self.start..]) {
                return extent;
            }
            self.read();
        }
    }

    fn read(&mut self) {
        let mut read = [0; 16 * 1024];
        let count = self.stream.read(&mut read).expect("response within the timeout");
        assert!(count > 0, "connection closed before the response");
        self.buffer.extend_from_slice(&read[..count]);
    }

    fn consume(&mut self, extent: &ResponseExtent) {
        self.start += extent.end;
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        }
    }
}

/// Finds the first response, if it is complete.
fn parse_extent(bytes: &[u8]) -> Option<ResponseExtent> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = str::from_utf8(&bytes[..head]).expect("ASCII header section");
    let status = text.get(9..12).and_then(|status| status.parse().ok()).expect("valid status line");
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let end = head + length.expect("response has a content-length");
    (bytes.len() >= end).then_some(ResponseExtent { status, head, end })
}
